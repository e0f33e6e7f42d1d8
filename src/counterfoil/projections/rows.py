"""Rows of projections: how far each is kept in each conversation, and what was last found and not used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from counterfoil.store.rows import Column, Fact, Feature, Index, Put, RowChange, TableSpec

CREATED: Final = "created"
REJECTED: Final = "rejected"

PROJECTIONS: Final = TableSpec(
    name="projections",
    columns=(
        Column("stream_id"),
        Column("tenant"),
        Column("projection"),
        # `created` for the newest checkpoint, `rejected` for the newest that was not used.
        Column("state"),
        Column("version", "integer"),
        Column("up_to_sequence", "integer"),
        Column("cause", required=False),
        Column("sequence", "integer"),
        Column("at_ms", "integer"),
    ),
    key=("stream_id", "projection", "state"),
    indexes={"by_tenant": ("tenant", "projection")},
)


def rows(fact: Fact, index: Index) -> Iterable[RowChange]:
    """The row that follows from a checkpoint."""
    del index
    data = fact.data
    rejected = fact.event_type == "checkpoint.rejected"
    yield Put(
        PROJECTIONS.name,
        {
            "stream_id": fact.stream_id,
            "tenant": fact.tenant,
            "projection": data["projection"],
            "state": REJECTED if rejected else CREATED,
            "version": data["version"],
            "up_to_sequence": data["up_to_sequence"],
            "cause": data.get("cause"),
            "sequence": fact.sequence,
            "at_ms": fact.recorded_at_ms,
        },
    )


FEATURE: Final = Feature(
    "projections", (PROJECTIONS,), frozenset({"checkpoint.created", "checkpoint.rejected"}), rows
)
