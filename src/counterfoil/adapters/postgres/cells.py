"""Cells on their way into the database and back: text that PostgreSQL cannot hold, bytes inside JSON.

PostgreSQL's text has no place for U+0000. It is written as U+0001 U+0001, and U+0001 itself as U+0001 U+0002, so
that every text has one form and forms sort as the texts do (COLLATE "C").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from counterfoil.store.rows import Cell


def stored_text(text: str) -> str:
    """The form in which a text lies in the database."""
    if "\x01" not in text and "\x00" not in text:
        return text
    return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01")


def given_text(text: str) -> str:
    """The text whose stored form this is."""
    return text if "\x01" not in text else text.replace("\x01\x01", "\x00").replace("\x01\x02", "\x01")


def stored(cell: Cell) -> Cell:
    """A cell as a statement's parameter."""
    return stored_text(cell) if isinstance(cell, str) else cell


def given(cell: Any) -> Any:
    """A fetched cell as the caller gave it once."""
    return given_text(cell) if type(cell) is str else cell


def rows_json(rows: Sequence[Mapping[str, Cell]]) -> str:
    """Rows for ``json_populate_recordset``, the quickest way to hand over many (DESIGN 4)."""
    return orjson.dumps([{name: _in_json(cell) for name, cell in row.items()} for row in rows]).decode()


def _in_json(cell: Cell) -> str | int | None:
    if isinstance(cell, bytes):
        return f"\\x{cell.hex()}"
    return stored_text(cell) if isinstance(cell, str) else cell
