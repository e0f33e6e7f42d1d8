"""Cells of rows as text and numbers; a cell of another type than its column's is shown and never an error."""

from __future__ import annotations

from counterfoil.cli.render.marks import marked
from counterfoil.store.rows import Row


def text(row: Row, column: str) -> str:
    """A text cell, marked; empty where there is none."""
    value = row.get(column)
    if value is None:
        return ""
    return value.hex() if isinstance(value, bytes) else marked(str(value))


def number(row: Row, column: str) -> int:
    """An integer cell; 0 where there is none."""
    value = row.get(column)
    return value if isinstance(value, int) else 0
