"""The table of budgets: the limits of each run, and whether one of them stopped it (FORMAT 11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.store.rows import Column, Fact, Feature, Index, Put, RowChange, TableSpec

SET: Final = "set"
EXCEEDED: Final = "exceeded"

BUDGETS: Final = TableSpec(
    name="budgets",
    columns=(
        Column("run_id"),
        Column("budget"),
        Column("tenant"),
        Column("stream_id"),
        Column("state"),
        Column("limit_value"),
        Column("currency", required=False),
        Column("spent", required=False),
        Column("changed_at_ms", "integer"),
    ),
    key=("run_id", "budget"),
    indexes={"by_state": ("tenant", "state", "run_id")},
)


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:  # noqa: ARG001 - the signature of every feature's rows
    """What one event changes; from public fields alone."""
    data = fact.data
    yield Put(
        BUDGETS.name,
        {
            "run_id": fact.run_id,
            "budget": data["budget"],
            "tenant": fact.tenant,
            "stream_id": fact.stream_id,
            "state": SET if fact.event_type == "budget.set" else EXCEEDED,
            "limit_value": data["limit"],
            "currency": data.get("currency"),
            "spent": data.get("spent"),
            "changed_at_ms": fact.recorded_at_ms,
        },
    )


FEATURE: Final = Feature("budgets", (BUDGETS,), frozenset({"budget.set", "budget.exceeded"}), rows)
