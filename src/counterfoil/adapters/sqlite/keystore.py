"""SqliteKeyStore: ``keys.db``, a file of its own with the wrapped data keys (FORMAT 12)."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from counterfoil.abc.keys import KeyRow, SubjectRow
from counterfoil.adapters.filesystem.place import file_error, sync_directory
from counterfoil.adapters.sqlite.connect import close_quietly, connect, fetch
from counterfoil.adapters.sqlite.faults import translated
from counterfoil.errors import (
    EpochMoved,
    InternalError,
    KeyStoreMissing,
    SchemaTooNew,
    SchemaUnknown,
    StoreClosed,
)

APPLICATION_ID: Final = 0x43464B31
"""``CFK1`` in the file's header says that it is a key store."""

SCHEMA: Final = 1
BUSY_S: Final = 10.0
"""Longest wait for another process that is writing; then ``StoreBusy``."""

FILE_MODE: Final = 0o600

DAMAGED: Final = (
    "the events are in ledger.db and need no restoring: put keys.db and kek/ back from their backup; with keys.db moved"
    " away, headers can be read until then"
)
"""The way out where the file is damaged: whoever restored a whole backup would lose what was recorded since."""

_CREATE: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE epoch (tenant TEXT PRIMARY KEY, kek_id TEXT NOT NULL) STRICT, WITHOUT ROWID",
    """CREATE TABLE data_key (
        key_id TEXT PRIMARY KEY, stream_id TEXT NOT NULL, kek_id TEXT NOT NULL, wrapped BLOB NOT NULL,
        "check" BLOB NOT NULL
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX data_key_by_stream ON data_key (stream_id, key_id)",
    "CREATE INDEX data_key_by_kek ON data_key (kek_id)",
    # Positions rise for ever, so that the first link of a subject stays the first.
    """CREATE TABLE subject (
        position INTEGER PRIMARY KEY AUTOINCREMENT, key_id TEXT NOT NULL REFERENCES data_key (key_id),
        kek_id TEXT NOT NULL, lookup BLOB NOT NULL, box BLOB NOT NULL
    ) STRICT""",
    "CREATE INDEX subject_by_key ON subject (key_id)",
    "CREATE INDEX subject_by_lookup ON subject (lookup)",
)

_KEY: Final = 'SELECT key_id, stream_id, kek_id, wrapped, "check" FROM data_key'
_LINK: Final = "SELECT key_id, kek_id, lookup, box FROM subject"

# A rollback journal, not a write-ahead log: the file is whole whenever nobody writes, so it can be copied and read
# from a read-only place by itself. TRUNCATE with FULL syncs the end of each transaction, which DELETE would not.
_WRITER_SETTINGS: Final = (
    "journal_mode = TRUNCATE",
    "synchronous = FULL",
    "fullfsync = ON",
    "foreign_keys = ON",
    "secure_delete = ON",
    "trusted_schema = OFF",
)


class SqliteKeyStore:
    """A ``KeyStore`` in one file. ``create`` makes it when it is not there; otherwise that is ``KeyStoreMissing``.

    Nothing is made silently: a new key store beside an old ledger could open none of its content. Where the file or
    its directory cannot be written, the store opens for reading. After a fork the child opens a handle of its own.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        _OPEN.add(self)
        if create:
            _make_file(path)
        try:
            self._store_id = self._begin(create=create)
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def store_id(self) -> str:
        """See ``KeyStore.store_id``."""
        return self._store_id

    def epochs(self) -> Mapping[str, str]:
        """See ``KeyStore.epochs``."""
        return dict(self._rows("SELECT tenant, kek_id FROM epoch"))

    def get(self, key_id: str) -> KeyRow | None:
        """See ``KeyStore.get``."""
        return _first(self._keys(f"{_KEY} WHERE key_id = ?", (key_id,)))

    def of_stream(self, stream_id: str) -> list[KeyRow]:
        """See ``KeyStore.of_stream``."""
        return self._keys(f"{_KEY} WHERE stream_id = ? ORDER BY key_id", (stream_id,))

    def find_subject(self, lookup: bytes, stream_id: str) -> KeyRow | None:
        """See ``KeyStore.find_subject``."""
        return _first(
            self._keys(
                'SELECT k.key_id, k.stream_id, k.kek_id, k.wrapped, k."check" FROM subject AS s '
                "JOIN data_key AS k ON k.key_id = s.key_id "
                "WHERE s.lookup = ? AND k.stream_id = ? ORDER BY s.position LIMIT 1",
                (lookup, stream_id),
            )
        )

    def subjects_of(self, key_id: str) -> list[SubjectRow]:
        """See ``KeyStore.subjects_of``."""
        return [
            SubjectRow(*row) for row in self._rows(f"{_LINK} WHERE key_id = ? ORDER BY position", (key_id,))
        ]

    def scan(self, after: str = "", limit: int = 1000) -> list[KeyRow]:
        """See ``KeyStore.scan``."""
        return self._keys(f"{_KEY} WHERE key_id > ? ORDER BY key_id LIMIT ?", (after, limit))

    def scan_subjects(self, after: int = 0, limit: int = 1000) -> list[tuple[int, SubjectRow]]:
        """See ``KeyStore.scan_subjects``."""
        rows = self._rows(
            "SELECT position, key_id, kek_id, lookup, box FROM subject WHERE position > ? ORDER BY position LIMIT ?",
            (after, limit),
        )
        return [(position, SubjectRow(*link)) for position, *link in rows]

    def put(self, keys: Sequence[KeyRow], subjects: Sequence[SubjectRow] = ()) -> None:
        """See ``KeyStore.put``."""
        with self._writing() as connection:
            _check_current(connection, {key.kek_id for key in keys} | {link.kek_id for link in subjects})
            try:
                connection.executemany(
                    "INSERT INTO data_key VALUES (?, ?, ?, ?, ?)", [_cells(key) for key in keys]
                )
                connection.executemany(
                    "INSERT INTO subject (key_id, kek_id, lookup, box) VALUES (?, ?, ?, ?)",
                    [(link.key_id, link.kek_id, link.lookup, link.box) for link in subjects],
                )
            except sqlite3.IntegrityError as error:
                raise InternalError(
                    f"keys {[key.key_id for key in keys]} exist already, or a subject is linked to no key"
                ) from error

    def replace(
        self, tenant: str, epoch: str, keys: Iterable[KeyRow], subjects: Iterable[SubjectRow]
    ) -> None:
        """See ``KeyStore.replace``."""
        links: dict[str, list[SubjectRow]] = {}
        for link in subjects:
            links.setdefault(link.key_id, []).append(link)
        with self._writing() as connection:
            former = _risen_from(connection, tenant, epoch)
            connection.execute("INSERT OR REPLACE INTO epoch VALUES (?, ?)", (tenant, epoch))
            for key in keys:
                _rewrap(connection, key, links.get(key.key_id, []))
            behind = connection.execute(
                "SELECT 1 FROM data_key WHERE kek_id = ? LIMIT 1", (former,)
            ).fetchone()
            if former and behind is not None:
                raise EpochMoved(f"keys were added under {former} while it was replaced", kek_id=former)

    def delete(self, key_ids: Iterable[str]) -> int:
        """See ``KeyStore.delete``. The freed bytes are overwritten (``secure_delete``)."""
        doomed = [(key_id,) for key_id in dict.fromkeys(key_ids)]
        with self._writing() as connection:
            connection.executemany("DELETE FROM subject WHERE key_id = ?", doomed)
            return (
                connection.executemany("DELETE FROM data_key WHERE key_id = ?", doomed).rowcount
                if doomed
                else 0
            )

    def close(self) -> None:
        """See ``KeyStore.close``."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                close_quietly(self._connection)
            self._connection = None

    # ---- the handle ----

    def _begin(self, *, create: bool) -> str:
        """Make the tables if told to, check that they are ours, and return the store's id."""
        with self._lock, translated(self._path, "open the key store", DAMAGED):
            connection = self._open()
            if create:
                _make_schema(connection)
            _check_schema(connection, self._path)
        return self._read_store_id()

    def _open(self) -> sqlite3.Connection:
        """The connection of this process. The caller holds the lock and translates sqlite3 errors."""
        if self._closed:
            raise StoreClosed("this key store is closed", hint="open the ledger again")
        if self._connection is None:
            self._connection = _connect(self._path)
        return self._connection

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock, translated(self._path, "read the key store", DAMAGED):
            return fetch(self._open(), sql, parameters)

    def _keys(self, sql: str, parameters: tuple[Any, ...]) -> list[KeyRow]:
        return [KeyRow(*row) for row in self._rows(sql, parameters)]

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, translated(self._path, "write the key store", DAMAGED):
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._abandon(connection)
                raise

    def _abandon(self, connection: sqlite3.Connection) -> None:
        # After an error at COMMIT the handle may be beyond help; the next call opens another, which replays the
        # journal and so sees what is on disk.
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            close_quietly(connection)
            self._connection = None

    def _before_fork(self) -> bool:
        return self._lock.acquire(timeout=BUSY_S)

    def _after_fork_in_parent(self) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        if self._connection is not None:
            _OF_THE_PARENT.append(self._connection)
            self._connection = None

    def _read_store_id(self) -> str:
        rows = self._rows("SELECT value FROM meta WHERE name = 'store_id'")
        if len(rows) != 1 or not isinstance(rows[0][0], str) or not rows[0][0]:
            raise SchemaUnknown(f"the key store {self._path} has lost its id", hint="restore its last backup")
        return rows[0][0]


# A connection must not be used across a fork, and closing it in the child in the middle of the parent's transaction
# would roll that back. So no store writes while this process forks, and the child keeps the handle untouched.
_OPEN: Final[weakref.WeakSet[SqliteKeyStore]] = weakref.WeakSet()
_HELD: Final[list[SqliteKeyStore]] = []
_OF_THE_PARENT: Final[list[sqlite3.Connection]] = []


def _before_fork() -> None:
    _HELD.extend(store for store in list(_OPEN) if store._before_fork())  # noqa: SLF001 - the same module


def _after_fork_in_parent() -> None:
    while _HELD:
        _HELD.pop()._after_fork_in_parent()  # noqa: SLF001 - the same module


def _after_fork_in_child() -> None:
    _HELD.clear()
    for store in list(_OPEN):
        store._after_fork_in_child()  # noqa: SLF001 - the same module


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
)


def _cells(key: KeyRow) -> tuple[str, str, str, bytes, bytes]:
    return key.key_id, key.stream_id, key.kek_id, key.wrapped, key.check


def _first(rows: list[KeyRow]) -> KeyRow | None:
    return rows[0] if rows else None


def _rewrap(connection: sqlite3.Connection, key: KeyRow, links: list[SubjectRow]) -> None:
    """Re-wrap one key and its links where it still is; a key destroyed meanwhile is not brought back."""
    update = "UPDATE data_key SET kek_id = ?, wrapped = ? WHERE key_id = ?"
    if connection.execute(update, (key.kek_id, key.wrapped, key.key_id)).rowcount == 0:
        return
    select = "SELECT position FROM subject WHERE key_id = ? ORDER BY position"
    places = [position for (position,) in connection.execute(select, (key.key_id,))]
    if len(places) != len(links):
        raise EpochMoved(f"a subject was linked to {key.key_id} while it was re-wrapped", key_id=key.key_id)
    connection.executemany(
        "UPDATE subject SET kek_id = ?, lookup = ?, box = ? WHERE position = ?",
        [(link.kek_id, link.lookup, link.box, place) for link, place in zip(links, places, strict=True)],
    )


def _risen_from(connection: sqlite3.Connection, tenant: str, epoch: str) -> str:
    """The tenant's current epoch, empty for none. Raises EpochMoved where ``epoch`` cannot follow on it."""
    epochs = dict(connection.execute("SELECT tenant, kek_id FROM epoch").fetchall())
    former = str(epochs.get(tenant, ""))
    if epoch <= former:
        raise EpochMoved(
            f"the epoch of {tenant} is {former} by now, and never goes back to {epoch}", kek_id=former
        )
    if epoch in epochs.values():
        raise EpochMoved(f"{epoch} serves another tenant already", kek_id=epoch)
    return former


def _check_current(connection: sqlite3.Connection, kek_ids: set[str]) -> None:
    stale = kek_ids - {kek_id for (kek_id,) in connection.execute("SELECT kek_id FROM epoch")} - {""}
    if stale:
        kek_id = min(stale)
        raise EpochMoved(f"{kek_id} is not the current key-encryption key of any tenant", kek_id=kek_id)


def _make_file(path: Path) -> None:
    """Make an empty file that only its owner may read, durable in its directory; one that is there is left alone."""
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
            sync_directory(path.parent)
    except OSError as error:
        raise file_error(error, path, "make the key store") from error


def _connect(path: Path) -> sqlite3.Connection:
    if not path.exists():
        raise KeyStoreMissing(f"the key store {path} is not there", path=str(path))
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)
    connection = connect(path, "rw" if writable else "ro", BUSY_S)
    try:
        # The first read: it rolls an interrupted transaction back, and finds out whether this is a database at all.
        connection.execute("PRAGMA schema_version").fetchone()
        for setting in _WRITER_SETTINGS if writable else ("query_only = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        close_quietly(connection)
        raise
    return connection


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if not path.stat().st_size:
        raise SchemaUnknown(
            f"the key store {path} is empty: its creation was interrupted",
            hint="restore its backup; beside a ledger in which nothing was recorded yet, delete it",
            path=str(path),
        )
    if application_id != APPLICATION_ID:
        raise SchemaUnknown(
            f"{path} is a database, but not a key store of Counterfoil",
            hint="put the right keys.db back beside the ledger",
            path=str(path),
        )
    if schema > SCHEMA:
        raise SchemaTooNew(
            f"the key store {path} has schema {schema}; this version knows {SCHEMA}", path=str(path)
        )


def _make_schema(connection: sqlite3.Connection) -> None:
    """Make the tables in one transaction, unless another process was quicker."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
            for statement in _CREATE:
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES ('store_id', ?)", (secrets.token_hex(16),))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
