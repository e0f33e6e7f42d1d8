"""Rows of the truth tables (and heads) that belong to no stream or event, for verify to name."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from counterfoil.store.unit import Stray


class StrayKind(Struct, frozen=True):
    """One way of not belonging. ``sql`` takes a limit and yields (what it names, stream id, sequence)."""

    table: str
    what: str
    sql: str


def stray_of(kind: StrayKind, row: tuple[Any, ...]) -> Stray:
    """One found row as the contract shows it."""
    named, stream_id, sequence = row
    return Stray(kind.table, kind.what.format(named), stream_id, sequence)
