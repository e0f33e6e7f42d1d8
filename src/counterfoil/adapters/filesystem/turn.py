"""The turn between processes: two file locks that make a fair queue before one writer's transaction.

``queue`` is held by whoever is next, ``turn`` by whoever writes. Everybody passes through ``queue``, and its
holder alone waits for ``turn``: so a process that has just written cannot take the next turn while another
waits, and the kernel's own queue on ``queue`` does the rest. SQLite's busy handler alone starved one of four
processes for seconds (DESIGN 4).

flock has no deadline. A caller that must not wait therefore uses :meth:`FileTurn.try_take`; only the writer
thread blocks in :meth:`FileTurn.take`, and those who wait for its work keep a deadline of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path

from counterfoil.adapters.filesystem.place import file_error

QUEUE_NAME = "ledger.queue"
TURN_NAME = "ledger.turn"
LOCK_MODE = 0o600

_open: weakref.WeakSet[FileTurn] = weakref.WeakSet()


class FileTurn:
    """The right to write, one process (and one handle) at a time. Not re-entrant; one thread at a time uses it."""

    def __init__(self, directory: Path) -> None:
        self._queue = _open_lock(directory / QUEUE_NAME)
        try:
            self._turn = _open_lock(directory / TURN_NAME)
        except BaseException:
            os.close(self._queue)
            raise
        self._closed = False
        _open.add(self)

    def try_take(self) -> bool:
        """Take the turn if nobody has it and nobody waits for it; never blocks."""
        if not _try_lock(self._queue):
            return False
        try:
            return _try_lock(self._turn)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def take(self) -> None:
        """Wait for the turn without a deadline; for the writer thread only."""
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def give(self) -> None:
        """Let the next one write."""
        fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the files; idempotent."""
        if not self._closed:
            self._closed = True
            os.close(self._turn)
            os.close(self._queue)

    def forget(self) -> None:
        """Drop a child's copies after fork, without unlocking what the parent holds."""
        # An explicit unlock would end the parent's turn; closing the copy does not. A copy left open would keep
        # the turn taken after the parent has died.
        self.close()


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, LOCK_MODE)
    except OSError as error:
        raise file_error(error, path, "open the lock file") from error


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _forget_all() -> None:
    for turn in list(_open):
        with contextlib.suppress(OSError):
            turn.forget()


os.register_at_fork(after_in_child=_forget_all)
