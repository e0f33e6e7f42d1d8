"""Turns of ended runs as rows: which heads the ledger does not keep yet, and how many events a kept turn has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.store.rows import Column, Fact, Feature, Index, Patch, Put, RowChange, TableSpec

DUE: Final = "due"
"""The run has ended, and no head of its turn is kept."""

KEPT: Final = "kept"
ABANDONED: Final = "abandoned"

TURNS: Final = TableSpec(
    name="turns",
    columns=(
        Column("run_id"),
        Column("tenant"),
        Column("stream_id"),
        Column("state"),
        Column("events", "integer", required=False),
    ),
    key=("run_id",),
    indexes={"by_state": ("tenant", "state", "run_id")},
)


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:  # noqa: ARG001 - a feature's signature
    """A row for each run that ended or was given up."""
    if fact.run_id is None:
        return
    if fact.event_type == "run.finished":
        yield _row(fact, DUE)
    elif fact.event_type == "turn.committed":
        yield Patch(TURNS.name, (fact.run_id,), {"state": KEPT, "events": fact.data["events"]})
    else:
        yield _row(fact, ABANDONED)


def _row(fact: Fact, state: str) -> Put:
    return Put(
        TURNS.name,
        {
            "run_id": fact.run_id,
            "tenant": fact.tenant,
            "stream_id": fact.stream_id,
            "state": state,
            "events": None,
        },
    )


FEATURE: Final = Feature(
    "turns", (TURNS,), frozenset({"run.finished", "turn.committed", "turn.abandoned"}), rows
)
