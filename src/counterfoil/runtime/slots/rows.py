"""The rows of state slots: where each stands, and at which sequence each version was recorded (FORMAT 11: no values)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from counterfoil.runtime.slots.events import CLEARED, TYPES
from counterfoil.runtime.slots.state import IS_CLEARED, IS_SET, Mark
from counterfoil.store.rows import CellSource, Column, Fact, Feature, Index, Put, Row, RowChange, TableSpec

SLOTS: Final = "state_slots"
VERSIONS: Final = "state_versions"

_TABLES: Final = (
    TableSpec(
        SLOTS,
        (
            Column("stream_id"),
            Column("slot"),
            Column("state"),
            Column("version", "integer"),
            Column("sequence", "integer"),
            Column("run_id", required=False),
        ),
        key=("stream_id", "slot"),
    ),
    # Older versions are found by halving, so a slot is read at any sequence without looking at the events between.
    TableSpec(
        VERSIONS,
        (
            Column("stream_id"),
            Column("slot"),
            Column("version", "integer"),
            Column("state"),
            Column("sequence", "integer"),
        ),
        key=("stream_id", "slot", "version"),
    ),
)


def rows(fact: Fact, index: Index) -> Iterable[RowChange]:
    """The row changes that follow from one event."""
    del index
    row: dict[str, CellSource] = {
        "stream_id": fact.stream_id,
        "slot": fact.data["slot"],
        "state": IS_CLEARED if fact.event_type == CLEARED else IS_SET,
        "version": fact.data["version"],
        "sequence": fact.sequence,
    }
    return (Put(SLOTS, row | {"run_id": fact.run_id}), Put(VERSIONS, row))


FEATURE: Final = Feature("slots", _TABLES, TYPES, rows)


def mark_of_row(row: Row) -> Mark:
    """A row of either table as state."""
    return Mark(str(row["slot"]), str(row["state"]), int(row["version"] or 0), int(row["sequence"] or 0))
