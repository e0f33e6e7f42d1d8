"""The tables of approvals and of whom they wait for, and the rows that follow from each event (FORMAT 11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from counterfoil.approvals.state import MOVES, pending
from counterfoil.core import canonical
from counterfoil.core.forms import time_ms
from counterfoil.core.values import comparable
from counterfoil.store.rows import (
    ROW_INDEX,
    CellSource,
    Column,
    Fact,
    Feature,
    Index,
    Patch,
    Put,
    RowChange,
    TableSpec,
)

APPROVALS: Final = TableSpec(
    name="approvals",
    columns=(
        Column("approval_id"),
        Column("tenant"),
        Column("stream_id"),
        Column("run_id", required=False),
        Column("effect_id"),
        Column("binding"),
        Column("scope"),
        Column("state"),
        # People who have yet to agree; and what it waits for: `answer`, `use` or `nothing`.
        Column("needed", "integer"),
        Column("missing", "integer"),
        Column("awaits"),
        Column("expires_at_ms", "integer", required=False),
        # From content: empty when that is gone.
        Column("tool", required=False),
        Column("tool_version", required=False),
        Column("arguments_index", required=False),
        Column("due_at_ms", "integer", required=False),
        Column("requested_sequence", "integer"),
        Column("requested_at_ms", "integer"),
        Column("changed_at_ms", "integer"),
        # The last call that was not the one people were asked about.
        Column("mismatched_sequence", "integer", required=False),
    ),
    key=("approval_id",),
    indexes={
        "by_awaits": ("tenant", "awaits", "requested_at_ms"),
        "by_state": ("tenant", "state", "requested_at_ms"),
        "by_run": ("run_id", "requested_sequence"),
        "by_stream": ("stream_id", "requested_sequence"),
    },
)

APPROVAL_ASSIGNEES: Final = TableSpec(
    name="approval_assignees",
    columns=(Column("tenant"), Column("person_index"), Column("approval_id"), Column("stream_id")),
    key=("tenant", "person_index", "approval_id"),
)


def person_index(index: Index, name: str) -> str:
    """Where the approvals are found that wait for a person of this name."""
    return index("person", name)


def arguments_index(index: Index, arguments: Any) -> str:
    """Tells whether two calls have the same arguments (FORMAT 8)."""
    return index("arguments", canonical.encode(comparable(arguments)).decode("utf-8"))


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:
    """What one event changes. Only ``approval.requested`` looks at content."""
    if fact.event_type == "approval.requested":
        yield from _requested(fact, index)
        return
    for move in MOVES.get(fact.event_type, ()):
        values: dict[str, CellSource] = {"state": move.to, "missing": move.missing, "awaits": move.awaits}
        yield _patch(fact, values, move.out_of)
    if fact.event_type == "approval.mismatched":
        yield _patch(fact, {"mismatched_sequence": fact.sequence})


def _requested(fact: Fact, index: Index) -> Iterator[RowChange]:
    data = fact.data
    row: dict[str, CellSource] = {
        "approval_id": data["approval_id"],
        "tenant": fact.tenant,
        "stream_id": fact.stream_id,
        "run_id": fact.run_id,
        "effect_id": data["effect_id"],
        "binding": data["binding"],
        "scope": data["scope"],
        "state": pending(data["needed"]),
        "needed": data["needed"],
        "missing": data["needed"],
        "awaits": "answer",
        "expires_at_ms": time_ms(data["expires_at"]) if "expires_at" in data else None,
        "requested_sequence": fact.sequence,
        "requested_at_ms": fact.recorded_at_ms,
        "changed_at_ms": fact.recorded_at_ms,
    }
    content = fact.content
    if content is None:
        yield Put(APPROVALS.name, row)
        return
    row |= {
        "tool": content["tool"],
        "tool_version": content["tool_version"],
        "arguments_index": stands_in(fact, index)["arguments_index"],
        "due_at_ms": time_ms(content["due_at"]) if "due_at" in content else None,
    }
    yield Put(APPROVALS.name, row)
    for person in content.get("assignees", ()):
        if "name" not in person:
            continue  # a part that cannot be opened
        yield Put(
            APPROVAL_ASSIGNEES.name,
            {
                "tenant": fact.tenant,
                "person_index": person_index(index, person["name"]),
                "approval_id": data["approval_id"],
                "stream_id": fact.stream_id,
            },
        )


def stands_in(fact: Fact, index: Index) -> Mapping[str, str]:
    """What rows need of a request whose arguments move to artifacts."""
    if fact.event_type != "approval.requested" or fact.content is None:
        return {}
    left = fact.content.get(ROW_INDEX)
    if isinstance(left, Mapping):
        return {"arguments_index": str(left["arguments_index"])}
    return {"arguments_index": arguments_index(index, fact.content["arguments"])}


def _patch(fact: Fact, values: dict[str, CellSource], out_of: frozenset[str] = frozenset()) -> Patch:
    changed = values | {"changed_at_ms": fact.recorded_at_ms}
    return Patch(APPROVALS.name, (fact.data["approval_id"],), changed, out_of)


FEATURE: Final = Feature(
    name="approvals",
    tables=(APPROVALS, APPROVAL_ASSIGNEES),
    event_types=frozenset({"approval.requested", "approval.mismatched", *MOVES}),
    rows=rows,
    stands_in=stands_in,
)
