"""The one table that holds the companions of all declared tables: truth, not rebuilt (FORMAT 6, 11)."""

from __future__ import annotations

from typing import Final

from counterfoil.store.rows import Column, TableSpec

COMPANIONS: Final = TableSpec(
    name="companion",
    columns=(
        Column("stream_id"),
        # The table as the application declared it: a label.
        Column("name"),
        # Keyed digest of the row's key under the stream key; the key itself is content.
        Column("key"),
        Column("commitment"),
        # The sealed record (FORMAT 6, `companion` [table, key]).
        Column("record", "blob"),
    ),
    key=("stream_id", "name", "key"),
    truth=True,
)
