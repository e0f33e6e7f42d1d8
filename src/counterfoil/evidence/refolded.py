"""Rows refolded from events, in bounded memory: a small cache in front of a private temporary database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from counterfoil.store.rows import STATE_COLUMN, Key, Patch, Put, Remove, RowChange, TableSpec

CACHED_ROWS_MAX: Final = 4096
CACHE_KIB: Final = 8 * 1024

Values = dict[str, Any]


class Refolded:
    """The rows that events give, by table and key. They hold header values and index values only (FORMAT 11)."""

    def __init__(self, tables: Iterable[TableSpec]) -> None:
        self._specs = {spec.name: spec for spec in tables}
        self._cache: dict[tuple[str, bytes], Values | None] = {}
        # An empty name is a temporary file that nobody else can open and that is gone with the connection.
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.execute(
            "CREATE TABLE refolded (name TEXT, key BLOB, row BLOB, PRIMARY KEY (name, key)) WITHOUT ROWID"
        )

    def close(self) -> None:
        """Let the temporary database go."""
        self._connection.close()

    def apply(self, changes: Iterable[RowChange]) -> None:
        """Make the changes that follow from one event, in order, as a store does."""
        for change in changes:
            spec = self._specs[change.table]
            match change:
                case Put(table, values):
                    key = tuple(values[name] for name in spec.key)
                    self._set(table, key, {column.name: values.get(column.name) for column in spec.columns})
                case Patch(table, key, values, only_in):
                    found = self._get(table, key)
                    if found is not None and (not only_in or found.get(STATE_COLUMN) in only_in):
                        self._set(table, key, {**found, **values})
                case Remove(table, key):
                    self._set(table, key, None)

    def row(self, table: str, key: Key) -> Values | None:
        """The row of this key, or None if events give none."""
        return self._get(table, key)

    def put(self, table: str, key: Key, values: Values) -> None:
        """Set a row that does not follow from the events folded here."""
        self._set(table, key, values)

    def take(self, table: str, key: Key) -> Values | None:
        """The row of this key, which is forgotten; None if events give none."""
        found = self._get(table, key)
        if found is not None:
            self._set(table, key, None)
        return found

    def left(self, table: str) -> Iterator[tuple[Key, Values]]:
        """The rows of a table that were not taken, by key."""
        self._flush()
        rows = self._connection.execute("SELECT key, row FROM refolded WHERE name = ? ORDER BY key", (table,))
        for key, row in rows:
            yield tuple(msgspec.msgpack.decode(key)), msgspec.msgpack.decode(row)

    def _get(self, table: str, key: Iterable[Any]) -> Values | None:
        place = (table, _packed(key))
        if place in self._cache:
            return self._cache[place]
        found = self._connection.execute(
            "SELECT row FROM refolded WHERE name = ? AND key = ?", place
        ).fetchone()
        return None if found is None else msgspec.msgpack.decode(found[0])

    def _set(self, table: str, key: Iterable[Any], row: Mapping[str, Any] | None) -> None:
        self._cache[table, _packed(key)] = None if row is None else dict(row)
        if len(self._cache) > CACHED_ROWS_MAX:
            self._flush()

    def _flush(self) -> None:
        gone = [place for place, row in self._cache.items() if row is None]
        kept = [
            (*place, msgspec.msgpack.encode(row)) for place, row in self._cache.items() if row is not None
        ]
        self._cache.clear()
        self._connection.execute("BEGIN")
        self._connection.executemany("DELETE FROM refolded WHERE name = ? AND key = ?", gone)
        self._connection.executemany("INSERT OR REPLACE INTO refolded VALUES (?, ?, ?)", kept)
        self._connection.execute("COMMIT")


def _packed(key: Iterable[Any]) -> bytes:
    return msgspec.msgpack.encode(list(key))
