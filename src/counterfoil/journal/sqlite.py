"""The journal in a SQLite file of its own: append-only by trigger, one writer at a time."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from counterfoil.errors import FileMissing, SchemaUnknown, StoreClosed
from counterfoil.journal.sql import Run, SqlJournal
from counterfoil.store.forks import minds_forks

BUSY_S: Final = 2.0
"""How long a writer waits for another process. Turns do not: they hand their events to a queue."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS turn_journal_event (
    tenant TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    seq INTEGER NOT NULL CHECK (seq >= 0),
    type TEXT NOT NULL,
    payload_hash TEXT,
    summary TEXT NOT NULL,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    session_hash TEXT,
    PRIMARY KEY (turn_id, seq)
);
CREATE INDEX IF NOT EXISTS turn_journal_session
    ON turn_journal_event (tenant, agent_id, session_hash, created_at_ms);
CREATE INDEX IF NOT EXISTS turn_journal_time ON turn_journal_event (created_at_ms);
CREATE TABLE IF NOT EXISTS turn_journal_permit (removal INTEGER NOT NULL);
CREATE TRIGGER IF NOT EXISTS turn_journal_no_update BEFORE UPDATE ON turn_journal_event
BEGIN SELECT RAISE(ABORT, 'turn_journal_event is append-only'); END;
CREATE TRIGGER IF NOT EXISTS turn_journal_no_replace BEFORE INSERT ON turn_journal_event
WHEN EXISTS (SELECT 1 FROM turn_journal_event WHERE turn_id = NEW.turn_id AND seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'turn_journal_event has this sequence'); END;
CREATE TRIGGER IF NOT EXISTS turn_journal_no_delete BEFORE DELETE ON turn_journal_event
WHEN NOT EXISTS (SELECT 1 FROM turn_journal_permit)
BEGIN SELECT RAISE(ABORT, 'turn_journal_event is append-only'); END;
"""
"""The permit row stands only inside the transaction of a removal, so that retention and erasure alone can delete."""

_TAKEN: Final = frozenset(
    {
        sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
        sqlite3.SQLITE_CONSTRAINT_TRIGGER,
        sqlite3.SQLITE_CONSTRAINT_UNIQUE,
    }
)

log: logging.Logger = logging.getLogger("counterfoil.journal")


class _Where(Struct, frozen=True):
    """Which file is open, whatever the working directory is by now."""

    path: str
    file: tuple[int, int] | None

    @classmethod
    def of(cls, path: Path) -> _Where:
        where = os.path.abspath(path)  # noqa: PTH100 - a link stays one: the name is what others find
        return cls(where, _file_at(where))

    def is_there(self) -> bool:
        """Whether the name still leads to the file."""
        return _file_at(self.path) == self.file


def _file_at(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - once for each transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino


class SqliteJournal(SqlJournal):
    """A journal in one file. The connection is opened when it is first needed, once for each process."""

    def __init__(self, path: Path | str, *, create: bool = True) -> None:
        self.path: Path = Path(path)
        self._create = create
        self._lock = threading.RLock()
        self._opened: tuple[int, sqlite3.Connection, _Where] | None = None
        self._closed = False
        self._rests = False
        self._inherited: list[object] = []
        minds_forks(self)

    @contextmanager
    def transaction(self, *, removes: bool = False) -> Iterator[Run]:
        """See the contract."""
        with self._lock:
            db = self._connection()
            db.execute("BEGIN IMMEDIATE")
            try:
                if removes:
                    db.execute("INSERT INTO turn_journal_permit VALUES (1)")
                yield db.execute
                if removes:
                    db.execute("DELETE FROM turn_journal_permit")
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """See the contract."""
        with self._lock:
            db = self._connection()
            db.execute("BEGIN")
            try:
                yield db.execute
            finally:
                db.execute("COMMIT")

    def lost_race(self, error: BaseException) -> bool:
        """See the contract."""
        return isinstance(error, sqlite3.IntegrityError) and error.sqlite_errorcode in _TAKEN

    def close(self) -> None:
        """See the contract."""
        with self._lock:
            self._closed = True
            if self._opened is not None and self._opened[0] == os.getpid():
                self._opened[1].close()
            self._opened = None

    def before_fork(self, timeout_s: float) -> None:
        """See :class:`~counterfoil.store.forks.Forked`: the file is closed, unless this very thread is at it."""
        self._rests = self._lock.acquire(timeout=timeout_s)
        if self._rests and self._opened is not None and not self._opened[1].in_transaction:
            opened, self._opened = self._opened, None
            opened[1].close()

    def after_fork(self, *, in_child: bool) -> None:
        """See :class:`~counterfoil.store.forks.Forked`."""
        rested, self._rests = self._rests, False
        if in_child:
            # Closing what was open all the same would meddle with what the parent does.
            self._inherited.append(self._opened)
            self._opened = None
            self._lock = threading.RLock()
        elif rested:
            self._lock.release()

    def _connection(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreClosed(f"the journal {self.path} is closed")
        if self._opened is not None and self._opened[0] == os.getpid() and not self._opened[2].is_there():
            # What is written into a file without a name is read by nobody.
            log.error("the turn journal %s was removed or replaced while it was open", self.path)
            self._opened[1].close()
            self._opened = None
        if self._opened is None or self._opened[0] != os.getpid():
            # A connection that crossed a fork is the parent's: it is left alone and a new one opened.
            db = self._open()
            self._opened = (os.getpid(), db, _Where.of(self.path))
        return self._opened[1]

    def _open(self) -> sqlite3.Connection:
        if not self._create and not self.path.is_file():
            raise FileMissing(f"there is no journal {self.path}", path=str(self.path))
        # The lock above is what keeps threads apart.
        db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        # Text that somebody edited into no text is read all the same, so that a check can name the event.
        db.text_factory = _read_text
        try:
            if self._create:
                _prepare(db)
            elif not _has_table(db):
                raise SchemaUnknown(f"{self.path} holds no turn journal", path=str(self.path))
        except BaseException:
            db.close()
            raise
        return db


def _read_text(cell: bytes) -> str:
    return cell.decode("utf-8", "surrogateescape")


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    # A crash of the machine may cost the last turns, never the chain: the journal is not the truth about effects.
    db.execute("PRAGMA synchronous = NORMAL")
    # Without it a replacing INSERT would delete the old row past the trigger.
    db.execute("PRAGMA recursive_triggers = ON")
    db.executescript(SCHEMA)


def _has_table(db: sqlite3.Connection) -> bool:
    try:
        found: Sequence[Any] | None = db.execute(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'turn_journal_event'"
        ).fetchone()
    except sqlite3.DatabaseError:
        return False
    return found is not None
