"""Opening a ledger directory: the place is checked, the schema made or checked, row tables brought up to date."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from counterfoil.abc.time import Clock
from counterfoil.adapters.filesystem.mounts import read_mounts
from counterfoil.adapters.filesystem.place import (
    MountTable,
    check_place,
    check_room,
    make_directory,
    sync_directory,
)
from counterfoil.adapters.filesystem.turn import FileTurn
from counterfoil.adapters.sqlite.connect import check_library, close_quietly, connect
from counterfoil.adapters.sqlite.engine import Engine
from counterfoil.adapters.sqlite.faults import translated
from counterfoil.adapters.sqlite.migrate import (
    MIGRATIONS,
    Migration,
    check_schema,
    ensure_schema,
    is_empty,
    read_meta,
    taking_over,
)
from counterfoil.adapters.sqlite.plan import Job
from counterfoil.adapters.sqlite.readers import Readers
from counterfoil.adapters.sqlite.runtime_store import RUNTIME_SCHEMA
from counterfoil.adapters.sqlite.store import SqliteStore
from counterfoil.adapters.sqlite.tables import RowTables
from counterfoil.errors import LedgerNotFound, SchemaUnknown
from counterfoil.store.rows import TableSpec
from counterfoil.store.takeover import Takeover
from counterfoil.store.unit import Outcome
from counterfoil.store.writer import WAIT_S, GroupWriter

DATABASE_NAME: Final = "ledger.db"


def open_sqlite(
    directory: Path,
    *,
    tables: Sequence[TableSpec] = (),
    create: bool = False,
    read_only: bool = False,
    ledger_id: str | None = None,
    clock: Clock | None = None,
    busy_s: float = WAIT_S,
    mounts: MountTable = read_mounts,
    takeover: Takeover | None = None,
) -> SqliteStore:
    """Open the ledger in ``directory``; with ``create`` and ``ledger_id`` make it when it is not there.

    ``busy_s`` is how long any call waits for other processes. ``mounts`` gives the mount table. ``takeover`` makes the
    streams of a runtime store of schema 1; without it such a file is refused. Raises
    ``LedgerNotFound``, ``NetworkFileSystem``, ``StoreReadOnly``, ``StoreFull``, ``SchemaTooNew``,
    ``SchemaUnknown``, ``StoreCorrupt`` or ``StoreBusy``; nothing is left half made.
    """
    check_library()
    directory = Path(directory)
    path = directory / DATABASE_NAME
    now_ms = _system_now_ms if clock is None else clock.now_ms
    if read_only:
        return _open_reading(directory, path, RowTables(tables), now_ms, busy_s, mounts)
    if create and not path.exists():
        make_directory(directory)
        check_place(directory, write=True, mounts=mounts)
        check_room(directory)
    check_place(directory, write=True, mounts=mounts)
    if not create and not path.exists():
        raise LedgerNotFound(f"there is no ledger in {directory}", path=str(directory))
    steps = (
        MIGRATIONS
        if takeover is None
        else {**MIGRATIONS, RUNTIME_SCHEMA: taking_over(takeover, path, now_ms)}
    )
    wanted = ledger_id if create else None
    return _open_writing(directory, path, RowTables(tables), now_ms, busy_s, wanted, steps)


def _open_writing(
    directory: Path,
    path: Path,
    tables: RowTables,
    now_ms: Callable[[], int],
    busy_s: float,
    ledger_id: str | None,
    steps: Mapping[int, Migration],
) -> SqliteStore:
    if path.exists():
        _refuse_foreign(path, busy_s, steps)
    turn = FileTurn(directory)
    engine = Engine(path, tables, now_ms, busy_s)
    writer: GroupWriter[Job] = GroupWriter(engine, turn, wait_s=busy_s)
    try:
        # In the writer's queue, so that two processes that open at once make the schema one after the other.
        stored = writer.call(lambda: _prepare(engine, path, tables, ledger_id, busy_s, steps)).result()
    except BaseException:
        writer.close()
        engine.drop()
        turn.close()
        raise
    return SqliteStore(
        path,
        ledger_id=stored,
        tables=tables,
        readers=Readers(path, busy_s),
        now_ms=now_ms,
        writer=writer,
        engine=engine,
        turn=turn,
    )


def _prepare(
    engine: Engine,
    path: Path,
    tables: RowTables,
    ledger_id: str | None,
    busy_s: float,
    steps: Mapping[int, Migration],
) -> str:
    """Make or check the schema and the row tables; the ledger's id."""
    if not path.exists():
        if ledger_id is None:
            raise LedgerNotFound(f"there is no ledger in {path.parent}", path=str(path.parent))
        _make_file(path, busy_s)
    with translated(path, "open"):
        connection = engine.open()
        ensure_schema(connection, path, create=ledger_id is not None, ledger_id=ledger_id, steps=steps)
        if tables.missing(connection):
            _make_tables(connection, tables)
        tables.load(connection)
        return _ledger_id(connection, path)


def _refuse_foreign(path: Path, busy_s: float, steps: Mapping[int, Migration]) -> None:
    """Look before anything is changed: a database that is no ledger of ours is left exactly as it is."""
    with translated(path, "open"):
        try:
            _look(path, "ro", busy_s, steps)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            # Its creation was killed before the file had a log; what it had begun is rolled back by looking.
            _look(path, "rw", busy_s, steps)


def _look(path: Path, mode: str, busy_s: float, steps: Mapping[int, Migration]) -> None:
    connection = connect(path, mode, busy_s)
    try:
        if not is_empty(connection):
            check_schema(connection, path, steps=steps)
    finally:
        close_quietly(connection)


def _make_file(path: Path, busy_s: float) -> None:
    with translated(path, "make"):
        connection = connect(path, "rwc", busy_s)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            close_quietly(connection)
    sync_directory(path.parent)


def _make_tables(connection: sqlite3.Connection, tables: RowTables) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        tables.create(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _open_reading(
    directory: Path,
    path: Path,
    tables: RowTables,
    now_ms: Callable[[], int],
    busy_s: float,
    mounts: MountTable,
) -> SqliteStore:
    check_place(directory, write=False, mounts=mounts)
    if not path.exists():
        raise LedgerNotFound(f"there is no ledger in {directory}", path=str(directory))
    readers = Readers(path, busy_s)
    with translated(path, "open"):
        connection = readers.take()
        try:
            check_schema(connection, path)
            tables.load(connection)
            ledger_id = _ledger_id(connection, path)
        except BaseException:
            close_quietly(connection)
            raise
        readers.give(connection)
    return SqliteStore(
        path,
        ledger_id=ledger_id,
        tables=tables,
        readers=readers,
        now_ms=now_ms,
        writer=GroupWriter(_NoEngine(), wait_s=busy_s),
        engine=None,
        turn=None,
    )


class _NoEngine:
    """What a reading handle's writer would commit with; nothing ever reaches it."""

    def commit(self, batch: Sequence[Job]) -> list[Outcome]:
        raise AssertionError(f"a handle opened for reading was given {len(batch)} jobs")


def _ledger_id(connection: sqlite3.Connection, path: Path) -> str:
    stored = read_meta(connection, "ledger_id")
    if stored is None:
        raise SchemaUnknown(
            f"{path} does not say which ledger it is", hint="restore the last backup", path=str(path)
        )
    return stored


def _system_now_ms() -> int:
    return time.time_ns() // 1_000_000
