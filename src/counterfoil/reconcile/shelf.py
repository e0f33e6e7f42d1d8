"""The book's entries on disk while it is compared, so that a book of any length takes little memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from types import TracebackType
from typing import Final, Self

from counterfoil.core.ids import is_id
from counterfoil.reconcile.book import Entry

CACHE_KIB: Final = 8 * 1024
BATCH: Final = 1_000

Index = Callable[[str, str], str]


class Shelf:
    """A temporary database of one book, found by key or by provider's id; gone when it is closed.

    A key is kept as the ledger keeps it: the effect's own id, or the tenant's index value of a business key.
    """

    def __init__(self, index: Index) -> None:
        self._index: Index = index
        # Without a name, SQLite keeps what exceeds the cache in a file that it deletes by itself.
        self._db: sqlite3.Connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute(
            "CREATE TABLE entry (line INTEGER PRIMARY KEY, place TEXT, key TEXT, provider_id TEXT, amount TEXT,"
            " seen INTEGER NOT NULL DEFAULT 0)"
        )
        self.entries: int = 0
        self.not_booked: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def fill(self, entries: Iterable[Entry], told: Callable[[int], None] = lambda _: None) -> None:
        """Take every entry of a book in; those that are not booked are counted and left out."""
        rows: list[tuple[int, str | None, str | None, str | None, str | None]] = []
        for entry in entries:
            if not entry.booked:
                self.not_booked += 1
                continue
            self.entries += 1
            amount = None if entry.amount is None else f"{entry.amount:f}"
            rows.append((entry.line, self._place(entry.key), entry.key, entry.provider_id, amount))
            if len(rows) >= BATCH:
                self._add(rows)
                told(self.entries)
        self._add(rows)
        self._db.execute("CREATE INDEX by_place ON entry (place)")
        self._db.execute("CREATE INDEX by_provider ON entry (provider_id)")

    def _add(self, rows: list[tuple[int, str | None, str | None, str | None, str | None]]) -> None:
        self._db.executemany(
            "INSERT INTO entry (line, place, key, provider_id, amount) VALUES (?, ?, ?, ?, ?)", rows
        )
        rows.clear()

    def _place(self, key: str | None) -> str | None:
        if key is None:
            return None
        return key if is_id(key, "eff") else self._index("effect", key)

    def of(self, own: str, business: str | None, provider_id: str | None) -> list[Entry]:
        """The entries that name an effect by its own id, its business key's index or the provider's id.

        They count as found.
        """
        # A NULL equals nothing, so a name that is missing finds nothing.
        found = self._db.execute(
            "SELECT line, key, provider_id, amount FROM entry WHERE place = ? OR place = ? OR provider_id = ?"
            " ORDER BY line",
            (own, business, provider_id),
        ).fetchall()
        self._db.executemany("UPDATE entry SET seen = 1 WHERE line = ?", [row[:1] for row in found])
        return [_entry(row) for row in found]

    def left(self) -> Iterator[tuple[str | None, Entry]]:
        """The entries that no effect was found for, in order, with their key as the ledger keeps it."""
        after = -1
        while True:
            page = self._db.execute(
                "SELECT line, key, provider_id, amount, place FROM entry WHERE seen = 0 AND line > ?"
                " ORDER BY line LIMIT ?",
                (after, BATCH),
            ).fetchall()
            for row in page:
                yield row[4], _entry(row)
            if len(page) < BATCH:
                return
            after = page[-1][0]


def _entry(row: tuple[int, str | None, str | None, str | None, object] | tuple[object, ...]) -> Entry:
    line, key, provider_id, amount = row[:4]
    return Entry(
        int(str(line)),
        None if key is None else str(key),
        None if provider_id is None else str(provider_id),
        None if amount is None else Decimal(str(amount)),
    )
