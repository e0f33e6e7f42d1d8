"""Connections to ``search.db``: made with mode 0600, checked at open, one at a time, and never another file's.

Several processes may share the file. Whoever makes it again from nothing may also replace it, so each use looks whether
the name still leads to the file that is open.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from counterfoil.errors import (
    CounterfoilError,
    HandleForked,
    SearchUnavailable,
    SearchUnusable,
    StoreBusy,
    StoreFull,
    StoreIO,
)
from counterfoil.search.schema import check, check_fts5, drop, is_empty, make, unusable
from counterfoil.store.forks import minds_forks

BUSY_S: Final = 10.0
CACHE_KIB: Final = 16 * 1024
FILE_MODE: Final = 0o600
ON_DISK: Final = ("", "-wal", "-shm")


class SearchFile:
    """One handle on a search index; ``path`` None keeps it in memory. Thread-safe; not to be used after a fork.

    The file is closed before a fork and opened again where it is next needed: by this handle in the parent, by one of its
    own in the child.
    """

    def __init__(self, path: Path | None, ledger_id: str, *, busy_s: float = BUSY_S) -> None:
        self.path: Path | None = path
        self._ledger_id = ledger_id
        self._busy_s = busy_s
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._pid = os.getpid()
        self._uses = 0
        self._rests = False
        minds_forks(self)

    @property
    def shown(self) -> str:
        """Where it lies, for messages."""
        return "the search index in memory" if self.path is None else str(self.path)

    def check(self) -> None:
        """Raise ``SearchUnavailable`` or ``SearchUnusable`` where search could not answer; makes nothing."""
        check_fts5()
        if self.path is not None and self.path.exists() and self.path.stat().st_size:
            with self.using():
                pass

    def bytes_on_disk(self) -> int:
        """Size of the index with its log; 0 where there is none."""
        if self.path is None:
            return 0
        sizes = 0
        for suffix in ON_DISK[:2]:
            with suppress(OSError):
                sizes += Path(f"{self.path}{suffix}").stat().st_size
        return sizes

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time; the file is made if it is not there."""
        if os.getpid() != self._pid:
            raise HandleForked("the search index was opened in a parent process")
        with self._lock:
            if self._connection is None or (self.path is not None and _file_at(self.path) != self._file):
                self._drop()
                self._open()
            assert self._connection is not None, "opened above"
            self._uses += 1
            try:
                with translated(self.shown):
                    yield self._connection
            finally:
                self._uses -= 1

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection inside a write transaction, which ends with the block, or is undone by what it raises."""
        with self.using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def start_anew(self) -> None:
        """Empty the index, whatever became of it; a file that cannot be read is replaced. What was erased stays known.

        Raises ``SearchUnusable`` for a file that another program or a newer version made: it may be somebody's.
        """
        with self._lock:
            try:
                with self.writing() as connection:
                    drop(connection)
                    make_again(connection, self._ledger_id)
                self.shrink()
            except SearchUnusable as error:
                if error.reason in {"unknown", "newer"}:
                    raise SearchUnusable(
                        error.message, hint="move the file away, then make it again", **error.fields
                    ) from error
                self._drop()
                self._unlink()
                with self.using():
                    pass

    def shrink(self) -> None:
        """Leave no byte of what was deleted in any file: index optimized, file vacuumed, log truncated (FORMAT 11).

        Raises ``StoreBusy`` where a reader keeps the log from being emptied; try again then.
        """
        with self.using() as connection:
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")
            connection.execute("VACUUM")
            if self.path is None:
                return
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise StoreBusy(
                    f"the log of {self.path} cannot be emptied while another process reads the index",
                    path=str(self.path),
                )

    def close(self) -> None:
        """Close the connection; idempotent."""
        with self._lock:
            if os.getpid() == self._pid:
                self._drop()
            self._connection = None

    # ---- forks ----

    def before_fork(self, timeout_s: float) -> None:
        """See :class:`~counterfoil.store.forks.Forked`: the file is closed, unless somebody is at it all that time."""
        self._rests = self._lock.acquire(timeout=timeout_s)
        if self._rests and self.path is not None and not self._uses:
            self._drop()

    def after_fork(self, *, in_child: bool) -> None:
        """See :class:`~counterfoil.store.forks.Forked`."""
        rested, self._rests = self._rests, False
        if not in_child:
            if rested:
                self._lock.release()
            return
        self._lock = threading.RLock()
        if self._connection is not None:
            # Closing it would meddle with what the parent does at this moment.
            _OF_THE_PARENT.append(self._connection)
            self._connection = None
            if self._file is not None:
                _AT_WORK.add(self._file)

    # ---- inside ----

    def _open(self) -> None:
        check_fts5()
        if self.path is not None:
            _make_file(self.path)
            _check_left_alone(self.path)
        with translated(self.shown):
            connection = sqlite3.connect(
                ":memory:" if self.path is None else self.path,
                timeout=self._busy_s,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                self._prepare(connection)
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.close()
                raise
        self._connection = connection
        self._file = None if self.path is None else _file_at(self.path)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        for setting in (
            "secure_delete = ON",
            "temp_store = MEMORY",  # what VACUUM copies is plain words
            "synchronous = NORMAL",  # a lost commit is followed again
            "trusted_schema = OFF",
            f"cache_size = -{CACHE_KIB}",
            "journal_size_limit = 67108864",
        ):
            connection.execute(f"PRAGMA {setting}")
        if is_empty(connection):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if is_empty(connection):
                make(connection, self._ledger_id)
            connection.execute("COMMIT")
        check(connection, self.shown, self._ledger_id)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _unlink(self) -> None:
        if self.path is None:
            return
        for suffix in ON_DISK:
            with suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").unlink()


def make_again(connection: sqlite3.Connection, ledger_id: str) -> None:
    """Make the tables anew, inside the caller's transaction, beside the list of what was erased."""
    erased = [row[0] for row in connection.execute("SELECT id FROM erased")]
    connection.execute("DROP TABLE erased")
    make(connection, ledger_id)
    connection.executemany("INSERT INTO erased (id) VALUES (?)", [(one,) for one in erased])


def _make_file(path: Path) -> None:
    """An empty file that its owner alone may read; one that is there is left as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, FILE_MODE))
    except OSError as error:
        raise SearchUnavailable(
            f"the search index {path} cannot be written: {error.strerror}",
            hint='give this user write permission there, or open with search=PATH or search="off"',
            path=str(path),
        ) from error


_OF_THE_PARENT: Final[list[sqlite3.Connection]] = []
_AT_WORK: Final[set[tuple[int, int]]] = set()


def _check_left_alone(path: Path) -> None:
    """Raise where the parent was at this file when it forked: SQLite takes the parent's locks for its own here."""
    if _file_at(path) in _AT_WORK:
        raise HandleForked(
            f"the search index {path} was being read or written when process {os.getpid()} was forked, and cannot be "
            "opened safely in it",
            hint="fork while nobody searches, start the process with the spawn method, or open with search=PATH",
        )


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def translated(shown: str) -> Iterator[None]:
    """Run a block whose sqlite3 errors leave as ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, shown) from error


def _translate(error: sqlite3.Error, shown: str) -> CounterfoilError:
    said = f"the search index {shown} failed: {error}"
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(said, path=shown)
        case sqlite3.SQLITE_FULL:
            return StoreFull(said, hint="free space; the ledger itself is not touched", path=shown)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY:
            return StoreIO(said, hint="see the system's log; the ledger itself is not touched", path=shown)
        case _:
            return unusable(shown, "damaged", f"cannot be read: {error}")
