"""Connections that read: a small pool, and the care that a directory without write permission needs.

A reader of a database in WAL mode needs the ``-shm`` file, which somebody must be able to make. Where this user
cannot and no log lies there, the database file alone is the whole ledger, and SQLite reads it as *immutable*,
without any lock. That is right only while nobody writes, so such a pool looks before and after each use whether
the file is still as it was.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from counterfoil.adapters.filesystem.place import writable
from counterfoil.adapters.sqlite.connect import close_quietly, connect, prepare_reader
from counterfoil.errors import StoreBusy

IDLE_READERS_MAX: Final = 8
WAL_SUFFIX: Final = "-wal"
LOOK_S: Final = 0.002
"""How often a fork looks whether the last reader has come back."""


class Stillness(Struct, frozen=True):
    """What the file looked like when it was opened as immutable."""

    path: Path
    seen: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> Stillness:
        """The file as it is now."""
        return cls(path, _look(path))

    def holds(self) -> bool:
        """Whether nobody has written since: neither file nor directory changed, and no log lies beside it."""
        return not _has_log(self.path) and _look(self.path) == self.seen


def _look(path: Path) -> tuple[int, ...]:
    file, directory = path.stat(), path.parent.stat()
    return file.st_ino, file.st_size, file.st_mtime_ns, directory.st_mtime_ns


def _has_log(path: Path) -> bool:
    return path.with_name(path.name + WAL_SUFFIX).exists()


class Readers:
    """Idle reading connections, handed out one to a thread at a time."""

    def __init__(self, path: Path, busy_s: float) -> None:
        self._path = path
        self._busy_s = busy_s
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._out = 0
        self._closed = False
        self._still: Stillness | None = None

    def take(self) -> sqlite3.Connection:
        """An idle connection or a new one. Raises sqlite3 errors as they are."""
        if self._still is not None and not self._still.holds():
            self.drop_idle()
        with self._lock:
            self._out += 1
            if self._idle:
                return self._idle.pop()
        try:
            connection = self._open()
            try:
                prepare_reader(connection)
            except BaseException:
                close_quietly(connection)
                raise
        except BaseException:
            self._count_back()
            raise
        return connection

    def check(self) -> None:
        """Raise StoreBusy when what was read without a lock may have been written meanwhile; read again then."""
        if self._still is not None and not self._still.holds():
            self.drop_idle()
            raise StoreBusy(
                f"{self._path} was written while it was read without a lock, so what was read may be torn",
                hint="read again; if it stays, give this user write permission on the directory",
                path=str(self._path),
            )

    def give(self, connection: sqlite3.Connection) -> None:
        """Take a healthy connection back; more than a few are closed."""
        with self._lock:
            if not self._closed and len(self._idle) < IDLE_READERS_MAX:
                self._idle.append(connection)
                self._out -= 1
                return
        self.discard(connection)

    def discard(self, connection: sqlite3.Connection) -> None:
        """Close one that was taken and met an error, or that is one too many."""
        close_quietly(connection)
        self._count_back()

    def _count_back(self) -> None:
        with self._lock:
            self._out -= 1

    def rest(self, timeout_s: float) -> bool:
        """Before a fork: close the idle ones and hand none out until :meth:`resume`; False where some are in use.

        Nobody else may call ``resume``: the lock is held by whoever forks.
        """
        until_s = time.monotonic() + timeout_s
        while True:
            if not self._lock.acquire(timeout=max(0.0, until_s - time.monotonic())):
                return False
            if self._out == 0:
                idle, self._idle, self._still = self._idle, [], None
                for connection in idle:
                    close_quietly(connection)
                return True
            self._lock.release()
            if time.monotonic() >= until_s:
                return False
            time.sleep(LOOK_S)

    def resume(self) -> None:
        """After a fork, in the parent, where :meth:`rest` said that all are at rest."""
        self._lock.release()

    def close(self) -> None:
        """Close the idle ones; those in use are closed when they come back."""
        self._closed = True
        self.drop_idle()

    def drop_idle(self) -> None:
        """Close the idle ones; the next one is opened as the files then need it."""
        with self._lock:
            idle, self._idle, self._still = self._idle, [], None
        for connection in idle:
            close_quietly(connection)

    def abandon(self) -> list[sqlite3.Connection]:
        """After a fork: the connections that must neither be used nor closed in the child."""
        idle, self._idle, self._closed, self._out = self._idle, [], True, 0
        return idle

    @property
    def in_use(self) -> bool:
        """Whether somebody has a connection."""
        return self._out > 0

    def _open(self) -> sqlite3.Connection:
        if writable(self._path.parent) or _has_log(self._path):
            return connect(self._path, "ro", self._busy_s)
        # Looked at first: a change between the look and the opening is then seen as one.
        still = Stillness.of(self._path)
        connection = connect(self._path, "ro", self._busy_s, immutable=True)
        self._still = still
        return connection
