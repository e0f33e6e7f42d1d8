"""The table of destroyed keys: what certificates name, so that a restored key store is known by it (FORMAT 12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.store.rows import Column, Fact, Feature, Index, Put, RowChange, TableSpec

DESTROYED: Final = TableSpec(
    name="destroyed_keys",
    columns=(Column("key_id"), Column("tenant"), Column("stream_id"), Column("certificate")),
    key=("key_id",),
    indexes={"by_tenant": ("tenant",)},
)


def rows_of(fact: Fact, index: Index) -> Iterator[RowChange]:  # noqa: ARG001 - a feature's rows take both
    """The row that a certificate of a destroyed key gives; other certificates give none."""
    key_id = fact.data.get("key")
    if key_id is not None:
        yield Put(
            DESTROYED.name,
            {
                "key_id": key_id,
                "tenant": fact.tenant,
                "stream_id": fact.stream_id,
                "certificate": fact.data["certificate"],
            },
        )


FEATURE: Final = Feature(
    name="keys", tables=(DESTROYED,), event_types=frozenset({"deletion.completed"}), rows=rows_of
)
