"""Inserts of many rows in few statements: each statement gives the interpreter lock away and takes it back."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

ROWS_MAX: Final = 16
"""Rows in one statement: a quarter quicker than one at a time, and more brings no more."""


@dataclass(slots=True, eq=False)
class Bulk:
    """An INSERT that takes any number of rows; ``tail`` stands after the values."""

    head: str
    columns: int
    tail: str = ""
    _by_rows: list[str] = field(init=False)

    def __post_init__(self) -> None:
        one = f"({', '.join('?' * self.columns)})"
        self._by_rows = [
            f"{self.head} VALUES {', '.join([one] * rows)}{self.tail}" for rows in range(ROWS_MAX + 1)
        ]

    def run(self, cursor: sqlite3.Cursor, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert the rows in order. Raises sqlite3 errors as they are."""
        count = len(rows)
        if count == 1:
            cursor.execute(self._by_rows[1], rows[0])
            return
        for start in range(0, count, ROWS_MAX):
            some = rows[start : start + ROWS_MAX]
            cursor.execute(self._by_rows[len(some)], tuple(chain.from_iterable(some)))
