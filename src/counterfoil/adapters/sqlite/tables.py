"""Row tables: the SQL made from a TableSpec, and which version of it the database holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from counterfoil.adapters.shared.declared import (
    PREFIX,
    DeclaredTables,
    Held,
    carried_over,
    check_spec,
    described,
)
from counterfoil.adapters.sqlite.bulk import Bulk
from counterfoil.adapters.sqlite.connect import fetch
from counterfoil.errors import InvalidUnit
from counterfoil.store.rows import STATE_COLUMN, VERSION_COLUMN, Cell, Column, Key, Row, TableSpec

NAME_MAX: Final = 63
_SQL_TYPES: Final = {"text": "TEXT", "integer": "INTEGER", "blob": "BLOB"}
PYTHON_TYPES: Final[Mapping[str, type]] = {"text": str, "integer": int, "blob": bytes}
_EMPTY: Final = {"text": "''", "integer": "0", "blob": "x''"}


@dataclass(slots=True)
class RowTable:
    """One table with its statements; ``put`` takes the columns in order, ``get`` and ``remove`` the key."""

    spec: TableSpec
    names: tuple[str, ...] = field(init=False)
    columns: dict[str, Column] = field(init=False)
    shapes: dict[object, Any] = field(init=False, default_factory=dict)
    put: Bulk = field(init=False)
    get: str = field(init=False)
    remove: str = field(init=False)
    clear: str = field(init=False)
    clear_stream: str | None = field(init=False)
    all_columns: tuple[str, ...] = field(init=False)
    _patches: dict[tuple[tuple[str, ...], int], str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        check_spec(self.spec, NAME_MAX)
        table, key = PREFIX + self.spec.name, self.spec.key
        self.columns = {column.name: column for column in self.spec.columns}
        self.names = tuple(self.columns)
        self.all_columns = (*self.names, VERSION_COLUMN)
        here = _equal(key, " AND ")
        changed = [f"{_q(name)} = excluded.{_q(name)}" for name in self.names if name not in key]
        changed.append(f"{VERSION_COLUMN} = {VERSION_COLUMN} + 1")
        # A new row's version is the column's default.
        self.put = Bulk(
            f"INSERT INTO {table} ({_list(self.names)})",
            len(self.names),
            f" ON CONFLICT ({_list(key)}) DO UPDATE SET {', '.join(changed)}",
        )
        self.get = f"SELECT {_list(self.all_columns)} FROM {table} WHERE {here}"
        self.remove = f"DELETE FROM {table} WHERE {here}"
        self.clear_stream = None
        if self.spec.stream_column is not None:
            self.clear_stream = f"DELETE FROM {table} WHERE {_q(self.spec.stream_column)} = ?"
        self.clear = f"DELETE FROM {table}"

    def patch(self, names: tuple[str, ...], states: int = 0) -> str:
        """Takes the named columns in order, then the key, then as many states as the row may be in (0: any)."""
        found = self._patches.get((names, states))
        if found is None:
            changed = ", ".join(
                [*(f"{_q(name)} = ?" for name in names), f"{VERSION_COLUMN} = {VERSION_COLUMN} + 1"]
            )
            found = f"UPDATE {PREFIX}{self.spec.name} SET {changed} WHERE {_equal(self.spec.key, ' AND ')}"
            if states:
                found += f" AND {_q(STATE_COLUMN)} IN ({', '.join('?' * states)})"
            self._patches[names, states] = found
        return found

    def row(self, cells: Sequence[Any]) -> Row:
        """A fetched row by column name."""
        return dict(zip(self.all_columns, cells, strict=True))

    def select(
        self, index: str | None, prefix: Key, after: Key | None, limit: int, *, descending: bool
    ) -> tuple[str, tuple[Any, ...]]:
        """The statement and its parameters for one page in the order of an index, then of the key."""
        leading = self._leading(index)
        names = (*leading, *self.spec.key)
        if len(prefix) > len(leading or names) or (after is not None and len(after) != len(names)):
            raise InvalidUnit(
                f"{self.spec.name} is paged by {names}; the values given do not fit", table=self.spec.name
            )
        conditions = [_same(name, cell) for name, cell in zip(names, prefix, strict=False)]
        params: list[Cell] = [cell for cell in prefix if cell is not None]
        if after is not None:
            # Below the prefix only the rest decides, and an index can then go straight to the place.
            told = len(prefix) if after[: len(prefix)] == prefix else 0
            condition, values = self._beyond(names[told:], after[told:], descending=descending)
            conditions.append(condition)
            params += values
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        order = ", ".join(f"{_q(name)} DESC" if descending else _q(name) for name in dict.fromkeys(names))
        sql = (
            f"SELECT {_list(self.all_columns)} FROM {PREFIX}{self.spec.name}{where} ORDER BY {order} LIMIT ?"
        )
        return sql, (*params, max(limit, 0))

    def _leading(self, index: str | None) -> tuple[str, ...]:
        if index is None:
            return ()
        if index not in self.spec.indexes:
            raise InvalidUnit(f"table {self.spec.name} has no index {index!r}", table=self.spec.name)
        return self.spec.indexes[index]

    def _beyond(self, names: tuple[str, ...], after: Key, *, descending: bool) -> tuple[str, list[Cell]]:
        """Rows after a row. NULL sorts first in SQLite, but compares with nothing, so it needs words of its own."""
        sign = "<" if descending else ">"
        if not names:
            return "0", []
        if None not in after and all(self._never_null(name) for name in names):
            marks = ", ".join("?" * len(names))
            return f"({_list(names)}) {sign} ({marks})", list(after)
        choices: list[str] = []
        values: list[Cell] = []
        for place, name in enumerate(names):
            further = _further(name, after[place], descending=descending)
            if further is None:
                continue
            same = [_same(before, cell) for before, cell in zip(names, after[:place], strict=False)]
            choices.append(" AND ".join([*same, further]))
            values += [cell for cell in after[: place + 1] if cell is not None]
        return f"({' OR '.join(f'({choice})' for choice in choices) or '0'})", values

    def _never_null(self, name: str) -> bool:
        return self.columns[name].required or name in self.spec.key


def _q(name: str) -> str:
    """The name quoted: a feature may call a column ``order`` or ``index``."""
    return f'"{name}"'


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(_q, names))


def _equal(names: Sequence[str], between: str) -> str:
    return between.join(f"{_q(name)} = ?" for name in names)


def _same(name: str, cell: Cell) -> str:
    """The condition that a column holds ``cell``; only a cell that is there becomes a parameter."""
    return f"{_q(name)} IS NULL" if cell is None else f"{_q(name)} = ?"


def _further(name: str, cell: Cell, *, descending: bool) -> str | None:
    """The condition that a column stands beyond ``cell``; None if nothing does."""
    if cell is None:
        return None if descending else f"{_q(name)} IS NOT NULL"
    return f"({_q(name)} < ? OR {_q(name)} IS NULL)" if descending else f"{_q(name)} > ?"


def _create_statements(spec: TableSpec) -> list[str]:
    table = PREFIX + spec.name
    columns = [
        f"{_q(column.name)} {_SQL_TYPES[column.type]}"
        + (f" NOT NULL DEFAULT {_EMPTY[column.type]}" if column.required or column.name in spec.key else "")
        for column in spec.columns
    ]
    columns += [f"{VERSION_COLUMN} INTEGER NOT NULL DEFAULT 1", f"PRIMARY KEY ({_list(spec.key)})"]
    made = [f"CREATE TABLE {table} ({', '.join(columns)}) STRICT, WITHOUT ROWID"]
    for name, names in spec.indexes.items():
        covered = list(dict.fromkeys((*names, *spec.key)))
        made.append(f"CREATE INDEX {table}__{name} ON {table} ({_list(covered)})")
    return made


class RowTables(DeclaredTables[RowTable]):
    """The declared tables of one handle, held against what the file has."""

    def __init__(self, specs: Sequence[TableSpec]) -> None:
        super().__init__(specs, RowTable)

    def load(self, connection: sqlite3.Connection) -> None:
        """Take note of what the database holds (again, whenever its schema has changed)."""
        self.note(_held(connection))

    def missing(self, connection: sqlite3.Connection) -> bool:
        """Whether a declared table is not there yet, or is older than its declaration."""
        return bool(self.lacking(_held(connection)))

    def create(self, connection: sqlite3.Connection) -> None:
        """Make missing tables and carry older ones over; inside the caller's transaction."""
        for mine, older in self.lacking(_held(connection)):
            spec = mine.spec
            _make_over(connection, spec, older)
            # A table that appears in a ledger with events misses the rows that follow from them.
            stale = connection.execute("SELECT EXISTS (SELECT 1 FROM event)").fetchone()[0]
            connection.execute(
                "INSERT OR REPLACE INTO row_table (name, version, spec, stale) VALUES (?, ?, ?, ?)",
                (spec.name, spec.version, described(spec), stale),
            )


def _held(connection: sqlite3.Connection) -> Held:
    """What is known of each table that is there. One that was dropped is made again like one that never was."""
    rows = fetch(
        connection,
        "SELECT name, version, spec, stale FROM row_table"
        f" WHERE '{PREFIX}' || name IN (SELECT name FROM sqlite_schema WHERE type = 'table')",
    )
    return {name: (version, spec, bool(stale)) for name, version, spec, stale in rows}


def _make_over(connection: sqlite3.Connection, spec: TableSpec, older: TableSpec | None) -> None:
    """Make the table; rows of an older version keep the columns both have, until they are rebuilt."""
    table = PREFIX + spec.name
    if older is None:
        for statement in _create_statements(spec):
            connection.execute(statement)
        return
    for index in older.indexes:
        connection.execute(f"DROP INDEX IF EXISTS {table}__{index}")
    connection.execute(f"ALTER TABLE {table} RENAME TO {table}__older")
    for statement in _create_statements(spec):
        connection.execute(statement)
    shared = carried_over(older, spec)
    if shared:
        names = _list([*shared, VERSION_COLUMN])
        # OR IGNORE: rows that the new key or a new requirement no longer admits come back with the rebuild.
        connection.execute(f"INSERT OR IGNORE INTO {table} ({names}) SELECT {names} FROM {table}__older")
    connection.execute(f"DROP TABLE {table}__older")
