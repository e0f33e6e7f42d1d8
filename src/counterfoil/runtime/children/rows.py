"""The table of children: the link of each, and what became of it (FORMAT 11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from counterfoil.runtime.children.events import SETTLED, STARTED
from counterfoil.store.rows import CellSource, Column, Fact, Feature, Index, Patch, Put, RowChange, TableSpec

OPEN: Final = "open"
LEFT: Final = "left"
FINISHED: Final = "finished"
STOPPED: Final = "stopped"
LOST: Final = "lost"

UNSETTLED: Final = frozenset({OPEN, LEFT})
ENDABLE: Final = frozenset({OPEN, LEFT, LOST})
"""States in which a child's own end is still to come: one that was given up may come back and say how it ended."""

END: Final = "end"
NOTHING: Final = "nothing"
"""What a child's row awaits."""

_FROM: Final[Mapping[str, frozenset[str]]] = {
    LEFT: frozenset({OPEN}),
    LOST: UNSETTLED,
    FINISHED: ENDABLE,
    STOPPED: ENDABLE,
}

CHILDREN: Final = TableSpec(
    name="children",
    columns=(
        Column("child_stream_id"),
        Column("tenant"),
        Column("child_run_id"),
        Column("parent_stream_id"),
        Column("parent_run_id"),
        Column("depth", "integer"),
        Column("state"),
        Column("awaits"),
        Column("settled_by", required=False),
        Column("parent_terminal", required=False),
        Column("started_event_id"),
        Column("started_sequence", "integer"),
        Column("spawned_at_ms", "integer"),
        Column("changed_at_ms", "integer"),
    ),
    key=("child_stream_id",),
    indexes={
        "by_run": ("child_run_id",),
        "by_parent": ("parent_stream_id", "awaits", "child_stream_id"),
        "by_family": ("parent_stream_id", "child_stream_id"),
        "by_tenant": ("tenant", "child_stream_id"),
        "by_awaits": ("tenant", "awaits", "child_stream_id"),
        "by_state": ("tenant", "state", "child_stream_id"),
    },
    # It belongs to two streams, and outlives either: what became of a child is kept where both are purged (ADR 0175).
    stream_column=None,
    outlives="parent_stream_id",
)


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:  # noqa: ARG001 - the signature of every feature's rows
    """What one event changes; from public fields alone."""
    if fact.event_type == STARTED:
        yield Put(CHILDREN.name, _started(fact))
    elif fact.event_type == SETTLED:
        yield settling(fact.data, fact.recorded_at_ms)


def _started(fact: Fact) -> dict[str, CellSource]:
    data = fact.data
    return {
        "child_stream_id": data["child_stream_id"],
        "tenant": fact.tenant,
        "child_run_id": data["child_run_id"],
        "parent_stream_id": fact.stream_id,
        "parent_run_id": fact.run_id,
        "depth": data["depth"],
        "state": OPEN,
        "awaits": END,
        "started_event_id": fact.event_id,
        "started_sequence": fact.sequence,
        "spawned_at_ms": fact.recorded_at_ms,
        "changed_at_ms": fact.recorded_at_ms,
    }


def settling(data: Mapping[str, Any], at_ms: CellSource) -> Patch:
    """What the public fields of ``child.settled`` change; what comes later never overwrites how a child ended."""
    state = data["state"]
    values: dict[str, CellSource] = {
        "state": state,
        "awaits": END if state == LEFT else NOTHING,
        "settled_by": data["by"],
        "parent_terminal": data.get("parent_terminal"),
        "changed_at_ms": at_ms,
    }
    return Patch(CHILDREN.name, (data["child_stream_id"],), values, _FROM[state])


FEATURE: Final = Feature("children", (CHILDREN,), frozenset({STARTED, SETTLED}), rows)
