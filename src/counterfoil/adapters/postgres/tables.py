"""Row tables: the SQL made from a TableSpec, and which version of it the database holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from counterfoil.adapters.memory.tables import Table
from counterfoil.adapters.postgres.cells import given
from counterfoil.adapters.postgres.connect import BoundedConnection, fetch, run, run_all
from counterfoil.adapters.postgres.paging import CASTS, DIALECT
from counterfoil.adapters.postgres.roles import grant_rows
from counterfoil.adapters.postgres.routines import row_routines
from counterfoil.adapters.postgres.schema import of_my_tenants, policy, quoted
from counterfoil.adapters.shared.declared import (
    PREFIX,
    DeclaredTables,
    Held,
    carried_over,
    check_spec,
    described,
    refuse_dropped,
)
from counterfoil.adapters.shared.paging import Pages, listed, quote
from counterfoil.store.rows import VERSION_COLUMN, Cell, Row, TableSpec
from counterfoil.store.standing import MARK, MARK_VERSION, Standing, standing_of

NAME_MAX: Final = 63
"""Bytes of an identifier; PostgreSQL cuts longer ones in silence."""

LABEL_MAX: Final = NAME_MAX - len(PREFIX)
_EMPTY: Final = {"text": "''", "integer": "0", "blob": "''"}


@dataclass(slots=True)
class RowTable:
    """One table with its statements. Those that take rows take them as JSON (``cells.rows_json``)."""

    spec: TableSpec
    schema: str
    table: str = field(init=False)
    all_columns: tuple[str, ...] = field(init=False)
    pages: Pages = field(init=False)
    get: str = field(init=False)
    lock: str = field(init=False)
    look: str = field(init=False)
    write: str = field(init=False)
    swap: str = field(init=False)
    clear: str = field(init=False)
    clear_stream: str | None = field(init=False)

    def __post_init__(self) -> None:
        check_spec(self.spec, LABEL_MAX)
        spec = self.spec
        table = self.table = f"{quoted(self.schema)}.{quote(PREFIX + spec.name)}"
        types = {column.name: CASTS[column.type] for column in spec.columns}
        self.all_columns = (*types, VERSION_COLUMN)
        columns = listed(self.all_columns)
        self.pages = Pages(spec, table, columns, DIALECT)
        here = " AND ".join(f"{quote(name)} = %s::{types[name]}" for name in spec.key)
        self.get = f"SELECT {columns} FROM {table} WHERE {here}"
        routines = self.routines
        self.lock = f"SELECT {columns} FROM {routines['lock']}(%s::json)"
        same = " AND ".join(f"t.{quote(name)} = n.{quote(name)}" for name in spec.key)
        self.look = (
            f"SELECT {', '.join(f't.{quote(name)}' for name in self.all_columns)} FROM {table} AS t"
            f" JOIN json_populate_recordset(NULL::{table}, %s::json) AS n ON {same}"
        )
        self.write = f"SELECT {routines['write']}(%s::json, %s::json, %s::json, %s::json)"
        self.swap = f"{routines['swap']}(%s::json, %s::json, %s::json, %s::json, %s::json)"
        self.clear = f"DELETE FROM {table}"
        self.clear_stream = None
        if spec.stream_column is not None:
            self.clear_stream = f"DELETE FROM {table} WHERE {quote(spec.stream_column)} = %s"

    @property
    def routines(self) -> dict[str, str]:
        """The full names of the table's functions, by what they do."""
        names = {what: _short(f"{what}_{self.spec.name}") for what in ("lock", "write", "swap")}
        return {what: f"{quoted(self.schema)}.{quote(name)}" for what, name in names.items()}

    def row(self, cells: Sequence[Any]) -> Row:
        """A fetched row by column name."""
        return dict(zip(self.all_columns, map(given, cells), strict=True))

    def key_of(self, row: Mapping[str, Cell]) -> tuple[Cell, ...]:
        """The key of a row."""
        return tuple([row[name] for name in self.spec.key])

    def placeholder(self, key: Sequence[Cell], tenant: str, stream_id: str) -> dict[str, Cell]:
        """A row that stands for an absent one: its key, and an owner so that row-level security lets it in."""
        owner: dict[str, Cell] = {"tenant": tenant}
        if self.spec.stream_column is not None:
            owner[self.spec.stream_column] = stream_id
        return {name: cell for name, cell in owner.items() if name in self.all_columns} | self.keyed(key)

    def keyed(self, key: Sequence[Cell]) -> dict[str, Cell]:
        """A key by column name."""
        return dict(zip(self.spec.key, key, strict=True))


def _short(name: str) -> str:
    """A name that PostgreSQL does not cut."""
    if len(name) <= NAME_MAX:
        return name
    return f"{name[: NAME_MAX - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _index_name(table: str, index: str) -> str:
    return _short(f"{PREFIX}{table}__{index}")


def _create_statements(made_for: RowTable) -> list[str]:
    spec, schema, table = made_for.spec, made_for.schema, made_for.table
    columns = []
    for column in spec.columns:
        never_null = column.required or column.name in spec.key
        collation = ' COLLATE "C"' if column.type == "text" else ""
        empty = f" NOT NULL DEFAULT {_EMPTY[column.type]}" if never_null else ""
        columns.append(f"{quote(column.name)} {CASTS[column.type]}{collation}{empty}")
    columns += [f"{VERSION_COLUMN} bigint NOT NULL DEFAULT 1", f"PRIMARY KEY ({listed(spec.key)})"]
    made = [f"CREATE TABLE {table} ({', '.join(columns)})"]
    for name, names in spec.indexes.items():
        covered = ", ".join(f"{quote(n)} NULLS FIRST" for n in dict.fromkeys((*names, *spec.key)))
        made.append(f"CREATE INDEX {quote(_index_name(spec.name, name))} ON {table} ({covered})")
    made += policy(schema, PREFIX + spec.name, row_condition(spec, schema))
    return made + row_routines(spec, table, made_for.routines)


def row_condition(spec: TableSpec, schema: str) -> str:
    """Who may see a row: by its tenant, by its stream's, else only who sees every tenant."""
    if any(column.name == "tenant" for column in spec.columns):
        return of_my_tenants(schema)
    if spec.stream_column is not None:
        stream = f"{quote(PREFIX + spec.name)}.{quote(spec.stream_column)}"
        return f"EXISTS (SELECT 1 FROM {quoted(schema)}.stream s WHERE s.stream_id = {stream})"
    return f"'*' = ANY ((SELECT {quoted(schema)}.my_tenants())::text[])"


class RowTables(DeclaredTables[RowTable]):
    """The declared tables of one handle, held against what the database has."""

    def __init__(self, specs: Sequence[TableSpec], schema: str) -> None:
        self.schema = schema
        super().__init__(specs, lambda spec: RowTable(spec, schema))
        self.versions = 0
        """The versions of all tables in the database added up: another sum than before means that one was changed."""
        self.empty: dict[str, Table] = {name: Table(table.spec) for name, table in self.by_name.items()}

    def load(self, connection: BoundedConnection) -> None:
        """Take note of what the database holds."""
        self.note(self._held(connection))
        self.standing = self.stored_standing(connection)
        self.empty = {name: Table(table.spec) for name, table in self.by_name.items()}

    def missing(self, connection: BoundedConnection) -> list[str]:
        """Declared tables that are not there yet, or are older than their declaration."""
        return [mine.spec.name for mine, _ in self.lacking(self._held(connection))]

    def create(self, connection: BoundedConnection) -> None:
        """Make missing tables and carry older ones over; inside the caller's transaction."""
        for mine, older in self.lacking(self._held(connection)):
            spec = mine.spec
            if spec.truth and older is None:
                known = f"SELECT 1 FROM {quoted(self.schema)}.row_table WHERE name = %s"
                refuse_dropped(spec, known=bool(fetch(connection, known, (spec.name,))))
            self._make_over(connection, spec, older)
            # A table that appears in a ledger with events misses the rows that follow from them.
            run(
                connection,
                f"INSERT INTO {quoted(self.schema)}.row_table (name, version, spec, stream_column, stale)"
                f" VALUES (%s, %s, %s, %s, %s AND EXISTS (SELECT 1 FROM {quoted(self.schema)}.event))"
                " ON CONFLICT (name) DO UPDATE SET version = excluded.version, spec = excluded.spec,"
                " stream_column = excluded.stream_column, stale = excluded.stale",
                (spec.name, spec.version, described(spec), spec.stream_column, not spec.truth),
            )

    def look_again(self, connection: BoundedConnection) -> None:
        """Raise what forbids writing; a standing that was set is looked up anew, since it may have been taken back."""
        if self.standing != "open":
            self.load(connection)
        self.check_writable()

    def stored_standing(self, connection: BoundedConnection) -> Standing:
        """The standing that the schema is marked with."""
        return standing_of(set(self._names(fetch(connection, self.ask_standing, ()))))

    @property
    def ask_standing(self) -> str:
        """Asks for the marks."""
        return f"SELECT name FROM {quoted(self.schema)}.row_table WHERE left(name, 1) = '{MARK}'"

    @staticmethod
    def _names(rows: Sequence[Sequence[Any]]) -> list[str]:
        return [str(name) for (name,) in rows]

    def mark_standing(self, connection: BoundedConnection, standing: Standing) -> None:
        """Mark the schema. The versions of its tables add up to another sum then, which every writer looks at."""
        table = f"{quoted(self.schema)}.row_table"
        run(connection, f"DELETE FROM {table} WHERE left(name, 1) = '{MARK}'")
        if standing != "open":
            run(
                connection,
                f"INSERT INTO {table} (name, version, spec) VALUES (%s, %s, '{{}}')",
                (MARK + standing, MARK_VERSION),
            )

    def _held(self, connection: BoundedConnection) -> Held:
        """What is known of each table that is there. One that was dropped is made again like one that never was."""
        rows = fetch(
            connection,
            "SELECT r.name, r.version, r.spec, r.stale, EXISTS"
            " (SELECT 1 FROM pg_tables t WHERE t.schemaname = %s AND t.tablename = %s || r.name)"
            f" FROM {quoted(self.schema)}.row_table r",
            (self.schema, PREFIX),
        )
        self.versions = sum(version for _, version, *_ in rows)
        return {name: (version, spec, stale) for name, version, spec, stale, there in rows if there}

    def _make(self, connection: BoundedConnection, spec: TableSpec) -> None:
        made_for = RowTable(spec, self.schema)
        # Where somebody dropped the table, a function of it is left.
        left = [f"DROP FUNCTION IF EXISTS {name}" for name in made_for.routines.values()]
        run_all(connection, left + _create_statements(made_for))
        grant_rows(connection, self.schema, PREFIX + spec.name)

    def _make_over(self, connection: BoundedConnection, spec: TableSpec, older: TableSpec | None) -> None:
        """Make the table; rows of an older version keep the columns both have, until they are rebuilt."""
        schema, name = quoted(self.schema), PREFIX + spec.name
        if older is None:
            self._make(connection, spec)
            return
        for name_of in RowTable(older, self.schema).routines.values():
            run(connection, f"DROP FUNCTION IF EXISTS {name_of}")
        for index in older.indexes:
            run(connection, f"DROP INDEX IF EXISTS {schema}.{quote(_index_name(spec.name, index))}")
        run(connection, f"ALTER TABLE {schema}.{quote(name)} RENAME TO {quote('older_' + name)}")
        run(
            connection,
            f"ALTER INDEX {schema}.{quote(f'{name}_pkey')} RENAME TO {quote(f'older_{name}_pkey')}",
        )
        self._make(connection, spec)
        shared = carried_over(older, spec)
        must = [c.name for c in spec.columns if c.name in shared and (c.required or c.name in spec.key)]
        if shared:
            names = listed([*shared, VERSION_COLUMN])
            whole = " AND ".join(f"{quote(column)} IS NOT NULL" for column in must)
            # Rows that the new key or a new requirement no longer admits come back with the rebuild.
            run(
                connection,
                f"INSERT INTO {schema}.{quote(name)} ({names}) SELECT {names} FROM {schema}.{quote('older_' + name)}"
                f" WHERE {whole} ON CONFLICT DO NOTHING",
            )
        run(connection, f"DROP TABLE {schema}.{quote('older_' + name)}")
