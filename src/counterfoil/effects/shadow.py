"""Rulings that were not enforced, as rows: what a policy in shadow would have refused (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.store.rows import Column, Fact, Feature, Index, Put, RowChange, TableSpec

SHADOW_RULINGS: Final = TableSpec(
    name="shadow_rulings",
    columns=(
        Column("event_id"),
        Column("tenant"),
        Column("stream_id"),
        Column("run_id", required=False),
        Column("effect_id"),
        Column("policy"),
        Column("revision"),
        Column("outcome"),
        # Labels, joined by spaces: labels hold none.
        Column("rules"),
        Column("sequence", "integer"),
        Column("ruled_at_ms", "integer"),
    ),
    key=("event_id",),
    indexes={"by_policy": ("tenant", "policy", "revision", "ruled_at_ms")},
)


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:  # noqa: ARG001 - a feature's signature
    """A row for each ruling that was not enforced; a ledger without shadow has none."""
    data = fact.data
    if data.get("enforced") is not False:
        return
    yield Put(
        SHADOW_RULINGS.name,
        {
            "event_id": fact.event_id,
            "tenant": fact.tenant,
            "stream_id": fact.stream_id,
            "run_id": fact.run_id,
            "effect_id": data["effect_id"],
            "policy": data["policy"],
            "revision": data["revision"],
            "outcome": data["outcome"],
            "rules": " ".join(data["rules"]),
            "sequence": fact.sequence,
            "ruled_at_ms": fact.recorded_at_ms,
        },
    )


FEATURE: Final = Feature("shadow", (SHADOW_RULINGS,), frozenset({"policy.evaluated"}), rows)
