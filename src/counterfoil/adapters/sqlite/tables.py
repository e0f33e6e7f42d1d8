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
    refuse_dropped,
)
from counterfoil.adapters.shared.paging import Dialect, Pages, listed, quote
from counterfoil.adapters.sqlite.bulk import Bulk
from counterfoil.adapters.sqlite.connect import fetch
from counterfoil.store.rows import STATE_COLUMN, VERSION_COLUMN, Column, Row, TableSpec
from counterfoil.store.standing import MARK, MARK_VERSION, Standing, standing_of

NAME_MAX: Final = 63

DIALECT: Final = Dialect(mark=lambda _: "?", rising="", falling=" DESC", limit="?", limit_max=(1 << 63) - 1)
_SQL_TYPES: Final = {"text": "TEXT", "integer": "INTEGER", "blob": "BLOB"}
PYTHON_TYPES: Final[Mapping[str, type]] = {"text": str, "integer": int, "blob": bytes}
_EMPTY: Final = {"text": "''", "integer": "0", "blob": "x''"}


@dataclass(slots=True)
class RowTable:
    """One table with its statements; ``put`` and ``insert`` take the columns in order, all others the key.

    ``insert`` fails where the key is there already; ``stands`` gives version and state, as far as a guard needs them.
    """

    spec: TableSpec
    names: tuple[str, ...] = field(init=False)
    columns: dict[str, Column] = field(init=False)
    shapes: dict[object, Any] = field(init=False, default_factory=dict)
    declared: set[tuple[str, ...]] = field(init=False, default_factory=set)
    text_key: tuple[type, ...] | None = field(init=False)
    put: Bulk = field(init=False)
    insert: Bulk = field(init=False)
    stands: str = field(init=False)
    get: str = field(init=False)
    remove: str = field(init=False)
    clear: str = field(init=False)
    clear_stream: str | None = field(init=False)
    all_columns: tuple[str, ...] = field(init=False)
    pages: Pages = field(init=False)
    _patches: dict[tuple[tuple[str, ...], int], str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        check_spec(self.spec, NAME_MAX)
        table, key = PREFIX + self.spec.name, self.spec.key
        self.columns = {column.name: column for column in self.spec.columns}
        self.names = tuple(self.columns)
        # The types of a key that is all text, as most are.
        self.text_key = (str,) * len(key) if all(self.columns[name].type == "text" for name in key) else None
        self.all_columns = (*self.names, VERSION_COLUMN)
        self.pages = Pages(self.spec, table, listed(self.all_columns), DIALECT)
        here = _equal(key, " AND ")
        changed = [f"{quote(name)} = excluded.{quote(name)}" for name in self.names if name not in key]
        changed.append(f"{VERSION_COLUMN} = {VERSION_COLUMN} + 1")
        # A new row's version is the column's default.
        self.insert = Bulk(f"INSERT INTO {table} ({listed(self.names)})", len(self.names))
        self.put = Bulk(
            self.insert.head,
            len(self.names),
            f" ON CONFLICT ({listed(key)}) DO UPDATE SET {', '.join(changed)}",
        )
        state = quote(STATE_COLUMN) if STATE_COLUMN in self.columns else "NULL"
        self.stands = f"SELECT {VERSION_COLUMN}, {state} FROM {table} WHERE {here}"
        self.get = f"SELECT {listed(self.all_columns)} FROM {table} WHERE {here}"
        self.remove = f"DELETE FROM {table} WHERE {here}"
        self.clear_stream = None
        if self.spec.stream_column is not None:
            self.clear_stream = f"DELETE FROM {table} WHERE {quote(self.spec.stream_column)} = ?"
        self.clear = f"DELETE FROM {table}"

    def patch(self, names: tuple[str, ...], states: int = 0) -> str:
        """Takes the named columns in order, then the key, then as many states as the row may be in (0: any)."""
        found = self._patches.get((names, states))
        if found is None:
            changed = ", ".join(
                [*(f"{quote(name)} = ?" for name in names), f"{VERSION_COLUMN} = {VERSION_COLUMN} + 1"]
            )
            found = f"UPDATE {PREFIX}{self.spec.name} SET {changed} WHERE {_equal(self.spec.key, ' AND ')}"
            if states:
                found += f" AND {quote(STATE_COLUMN)} IN ({', '.join('?' * states)})"
            self._patches[names, states] = found
        return found

    def row(self, cells: Sequence[Any]) -> Row:
        """A fetched row by column name."""
        return dict(zip(self.all_columns, cells, strict=True))


def _equal(names: Sequence[str], between: str) -> str:
    return between.join(f"{quote(name)} = ?" for name in names)


def _create_statements(spec: TableSpec) -> list[str]:
    table = PREFIX + spec.name
    columns = [
        f"{quote(column.name)} {_SQL_TYPES[column.type]}"
        + (f" NOT NULL DEFAULT {_EMPTY[column.type]}" if column.required or column.name in spec.key else "")
        for column in spec.columns
    ]
    columns += [f"{VERSION_COLUMN} INTEGER NOT NULL DEFAULT 1", f"PRIMARY KEY ({listed(spec.key)})"]
    made = [f"CREATE TABLE {table} ({', '.join(columns)}) STRICT, WITHOUT ROWID"]
    for name, names in spec.indexes.items():
        covered = list(dict.fromkeys((*names, *spec.key)))
        made.append(f"CREATE INDEX {table}__{name} ON {table} ({listed(covered)})")
    return made


class RowTables(DeclaredTables[RowTable]):
    """The declared tables of one handle, held against what the file has."""

    def __init__(self, specs: Sequence[TableSpec]) -> None:
        super().__init__(specs, RowTable)

    def load(self, connection: sqlite3.Connection) -> None:
        """Take note of what the database holds (again, whenever its schema has changed)."""
        self.note(_held(connection))
        self.standing = stored_standing(connection)

    def missing(self, connection: sqlite3.Connection) -> bool:
        """Whether a declared table is not there yet, or is older than its declaration."""
        return bool(self.lacking(_held(connection)))

    def create(self, connection: sqlite3.Connection) -> None:
        """Make missing tables and carry older ones over; inside the caller's transaction."""
        for mine, older in self.lacking(_held(connection)):
            spec = mine.spec
            if spec.truth and older is None:
                known = "SELECT 1 FROM row_table WHERE name = ?"
                refuse_dropped(spec, known=bool(fetch(connection, known, (spec.name,))))
            _make_over(connection, spec, older)
            # A table that appears in a ledger with events misses the rows that follow from them.
            stale = not spec.truth and connection.execute("SELECT EXISTS (SELECT 1 FROM event)").fetchone()[0]
            connection.execute(
                "INSERT OR REPLACE INTO row_table (name, version, spec, stale) VALUES (?, ?, ?, ?)",
                (spec.name, spec.version, described(spec), stale),
            )


def stored_standing(connection: sqlite3.Connection) -> Standing:
    """The standing that the database is marked with."""
    rows = fetch(connection, "SELECT name FROM row_table WHERE name BETWEEN '!' AND '!~'")
    return standing_of({name for (name,) in rows})


def mark_standing(cursor: sqlite3.Cursor, standing: Standing) -> None:
    """Mark the database. The schema's number moves with it, which every writer looks at before each transaction."""
    cursor.execute("DELETE FROM row_table WHERE name BETWEEN '!' AND '!~'")
    if standing != "open":
        cursor.execute(
            "INSERT INTO row_table (name, version, spec, stale) VALUES (?, ?, '{}', 0)",
            (MARK + standing, MARK_VERSION),
        )
    cursor.execute("CREATE TABLE standing_changed (x INTEGER) STRICT")
    cursor.execute("DROP TABLE standing_changed")


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
        names = listed([*shared, VERSION_COLUMN])
        # OR IGNORE: rows that the new key or a new requirement no longer admits come back with the rebuild.
        connection.execute(f"INSERT OR IGNORE INTO {table} ({names}) SELECT {names} FROM {table}__older")
    connection.execute(f"DROP TABLE {table}__older")
