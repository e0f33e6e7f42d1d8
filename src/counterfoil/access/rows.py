"""Rows of broken glass: who may read for how long what their roles do not give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.access.events import GLASS_OPENED
from counterfoil.core.forms import time_ms
from counterfoil.store.rows import Column, Fact, Feature, Index, Put, RowChange, TableSpec

GLASSES: Final = TableSpec(
    name="glasses",
    columns=(
        # The id of the person's data key in the tenant's stream of access.
        Column("actor_id"),
        Column("tenant"),
        Column("stream_id"),
        Column("event_id"),
        Column("sequence", "integer"),
        Column("opened_at_ms", "integer"),
        Column("until_ms", "integer"),
    ),
    key=("tenant", "actor_id"),
    indexes={"by_end": ("tenant", "until_ms")},
)


def rows(fact: Fact, _index: Index) -> Iterator[RowChange]:
    """The newest opening of a person counts; one that ends at once closes it."""
    yield Put(
        GLASSES.name,
        {
            "actor_id": fact.actor["id"],
            "tenant": fact.tenant,
            "stream_id": fact.stream_id,
            "event_id": fact.event_id,
            "sequence": fact.sequence,
            "opened_at_ms": fact.recorded_at_ms,
            "until_ms": time_ms(fact.data["until"]),
        },
    )


FEATURE: Final = Feature("access", (GLASSES,), frozenset({GLASS_OPENED}), rows)
