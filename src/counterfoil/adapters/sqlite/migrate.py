"""Making and checking the schema: numbered steps, forward only, one transaction each.

A database is opened only when it says it is a ledger of a schema this build knows and holds every table of it.
Newer, unknown and half-made schemas are refused; nothing is mended in silence, except that guards somebody
dropped are put back when the ledger is opened for writing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from counterfoil.adapters.sqlite.connect import close_quietly, connect
from counterfoil.adapters.sqlite.faults import translated
from counterfoil.adapters.sqlite.heads import HeadCache
from counterfoil.adapters.sqlite.plan import Job
from counterfoil.adapters.sqlite.runtime_store import (
    RUNTIME_SCHEMA,
    RuntimeStore,
    check_runtime_store,
    drop_runtime_store,
)
from counterfoil.adapters.sqlite.schema import APPLICATION_ID, INDEXES, SCHEMA, TABLES, TRIGGERS
from counterfoil.adapters.sqlite.transaction import WriteTransaction
from counterfoil.errors import LedgerNotFound, SchemaTooNew, SchemaUnknown
from counterfoil.store.takeover import Takeover


class Migration(Struct, frozen=True):
    """One step: takes the database from the schema before ``number`` to ``number``."""

    number: int
    name: str
    apply: Callable[[sqlite3.Connection], None]


def _make_schema_2(connection: sqlite3.Connection) -> None:
    for statement in (*TABLES.values(), *INDEXES.values(), *TRIGGERS.values()):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


HEADER_BYTES: Final = 100
APPLICATION_AT: Final = 68
"""Where SQLite keeps the application id in a file's first page."""

FROM_NOTHING: Final = Migration(SCHEMA, "make schema 2 in an empty database", _make_schema_2)
MIGRATIONS: Final[Mapping[int, Migration]] = {}
"""Steps by the schema they start from, of those that need nothing but the file.

Schema 2 is the first with a ledger; the step to it from schema 1 needs keys, so each that opens makes it anew:
:func:`taking_over`.
"""


def taking_over(takeover: Takeover, path: Path, now_ms: Callable[[], int]) -> Migration:
    """The step from the runtime store to schema 2: every old conversation becomes a stream, and the old tables go."""

    def apply(connection: sqlite3.Connection) -> None:
        check_runtime_store(connection, path)
        _make_schema_2(connection)
        connection.execute("INSERT INTO meta (name, value) VALUES ('ledger_id', ?)", (takeover.ledger_id,))
        now = now_ms()
        transaction = WriteTransaction(connection, connection.cursor(), HeadCache(), now)
        for stream in takeover.streams(RuntimeStore(connection), now):
            transaction.place(Job((stream,)))
            transaction.flush()
        transaction.finish()
        drop_runtime_store(connection)
        # A build before the ledger looks at this number alone, and must not take the file for its own.
        connection.execute(f"PRAGMA user_version = {SCHEMA}")

    return Migration(SCHEMA, "take over the runtime store of schema 1", apply)


def ensure_schema(
    connection: sqlite3.Connection,
    path: Path,
    *,
    create: bool,
    ledger_id: str | None,
    steps: Mapping[int, Migration] | None = None,
) -> None:
    """Bring the database to this build's schema, each step in one transaction; the caller holds the turn.

    ``steps`` are those to take, by the schema they start from; ``MIGRATIONS`` if none are given.

    Raises ``SchemaTooNew`` or ``SchemaUnknown``; ``LedgerNotFound`` for an empty database unless ``create``.
    """
    if create and ledger_id is not None and is_empty(connection):
        _step(connection, FROM_NOTHING, {"ledger_id": ledger_id})
    steps = MIGRATIONS if steps is None else steps
    number = check_schema(connection, path, steps=steps)
    while number != SCHEMA:
        step = steps[number]
        _step(connection, step, {})
        number = step.number
    _restore_guards(connection)


def says_runtime_store(path: Path) -> bool:
    """Whether the file says that it is a runtime store of schema 1; a ledger says otherwise in its first page.

    For whoever opens it for writing.
    """
    with path.open("rb") as file:
        first = file.read(HEADER_BYTES)
    if len(first) < HEADER_BYTES or first[APPLICATION_AT : APPLICATION_AT + 4] == APPLICATION_ID.to_bytes(4):
        return False
    with translated(path, "open"):
        # For writing: a process that was killed in a transaction leaves it to whoever reads next to be taken back.
        connection = connect(path, "rw", 5.0)
        try:
            number = connection.execute("PRAGMA user_version").fetchone()[0]
            return number == RUNTIME_SCHEMA and "meta" not in _objects(connection)
        finally:
            close_quietly(connection)


def check_schema(
    connection: sqlite3.Connection, path: Path, *, steps: Mapping[int, Migration] | None = None
) -> int:
    """The schema number, if this build can work with it (or has a step that starts from it).

    Raises as :func:`ensure_schema`.
    """
    present = _objects(connection)
    if not present:
        raise LedgerNotFound(f"{path} is empty: no ledger was made here", path=str(path))
    number = _number(connection, present, path)
    if number > SCHEMA:
        raise SchemaTooNew(
            f"{path} has schema {number}; this version of Counterfoil knows schema {SCHEMA}",
            path=str(path),
            schema=number,
            known=SCHEMA,
        )
    if number < SCHEMA and number not in (steps or {}):
        raise SchemaUnknown(
            f"{path} has schema {number}, the older runtime store without a ledger",
            hint="open it for writing, or run `counterfoil migrate`: it is taken over in one transaction",
            path=str(path),
            schema=number,
        )
    if number == RUNTIME_SCHEMA and "meta" not in present:
        check_runtime_store(connection, path)
    missing = sorted(set(TABLES) - present)
    if number == SCHEMA and missing:
        raise SchemaUnknown(
            f"{path} says schema {SCHEMA} but lacks the tables {', '.join(missing)}: it is half made",
            hint="restore the last backup",
            path=str(path),
            missing=missing,
        )
    return number


def read_meta(connection: sqlite3.Connection, name: str) -> str | None:
    """One value of the table that says what this file is."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the database holds nothing at all, as a file does that was made a moment ago."""
    return not _objects(connection)


def _objects(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'")
    return {str(name) for (name,) in rows}


def _number(connection: sqlite3.Connection, present: set[str], path: Path) -> int:
    stored = (
        read_meta(connection, "schema") if "meta" in present and _has_columns(connection, "meta") else None
    )
    if stored is not None and stored.isascii() and stored.isdigit():
        return int(stored)
    if stored is None and connection.execute("PRAGMA user_version").fetchone()[0] == RUNTIME_SCHEMA:
        return RUNTIME_SCHEMA
    raise SchemaUnknown(
        f"{path} is not a ledger: "
        + ("its schema number is unreadable" if stored else "it has no schema number"),
        hint="name a directory that holds a ledger, or an empty one",
        path=str(path),
    )


def _has_columns(connection: sqlite3.Connection, table: str) -> bool:
    # Another program may well have a table called meta.
    columns = {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}
    return {"name", "value"} <= columns


def _step(connection: sqlite3.Connection, migration: Migration, values: Mapping[str, str]) -> None:
    # What a migration leaves behind was somebody's words: freed pages are overwritten.
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("BEGIN IMMEDIATE")
    try:
        migration.apply(connection)
        for name, value in {**values, "schema": str(migration.number)}.items():
            connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, value))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _restore_guards(connection: sqlite3.Connection) -> None:
    present = _objects(connection)
    lost = [sql for name, sql in (INDEXES | TRIGGERS).items() if name not in present]
    if not lost:
        return
    connection.execute("BEGIN IMMEDIATE")
    for statement in lost:
        connection.execute(statement)
    connection.execute("COMMIT")
