"""The writing side: transactions on the one connection that writes, batches of units, and commits in doubt.

Everything here runs with the turn held and in one thread at a time; the group-commit writer sees to that.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from counterfoil.adapters.sqlite.checks import check, check_duplicate, find_recorded, refusal_of
from counterfoil.adapters.sqlite.connect import close_quietly, connect, fetch, prepare_writer
from counterfoil.adapters.sqlite.faults import extended_name, primary_code, translate
from counterfoil.adapters.sqlite.heads import HeadCache
from counterfoil.adapters.sqlite.migrate import check_schema
from counterfoil.adapters.sqlite.plan import Job
from counterfoil.adapters.sqlite.tables import RowTables
from counterfoil.adapters.sqlite.transaction import WriteTransaction
from counterfoil.errors import CounterfoilError, InternalError, StoreError, StoreIO
from counterfoil.store.unit import Outcome, Receipt, Refusal

T = TypeVar("T")
NowMs = Callable[[], int]

NOT_COMMITTED: Final = frozenset({"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_BUSY"})
"""COMMIT failed before its last frame was in the log, so the transaction cannot come back (see ``resolve``)."""

LOOK_EVERY_S: Final = 0.05
"""A look at the file's name takes as long as a twentieth of a commit, so it is not made before each one."""

BARRIER: Final = (
    "INSERT INTO meta (name, value) VALUES ('barrier', '1')"
    " ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
)


class CommitInDoubt(Exception):
    """COMMIT answered with an error: what became of the transaction must be looked up before anybody is told."""

    def __init__(self, error: CounterfoilError, answer: object, *, certain: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.answer = answer
        self.certain = certain


class Engine:
    """One writing connection with its caches. ``now_ms`` dates events and leases."""

    def __init__(self, path: Path, tables: RowTables, now_ms: NowMs, busy_s: float) -> None:
        self._path = path
        self._file = str(path)
        self._tables = tables
        self._now_ms = now_ms
        self._busy_s = busy_s
        self._connection: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        self._cache = HeadCache()
        self._doubt = False
        self._inode = 0
        self._look_at = 0.0

    # ---- units -------------------------------------------------------------------------------------------------

    def commit(self, batch: Sequence[Job]) -> list[Outcome]:
        """Record a batch in one transaction; see ``store.writer.BatchEngine``."""
        try:
            return self.transact(lambda transaction: _append(transaction, batch))
        except CommitInDoubt as doubt:
            tentative = doubt.answer
            assert isinstance(tentative, list)
            return self._answer_doubt(batch, tentative, doubt)
        except StoreError as error:
            # It failed before COMMIT: nothing of any unit is recorded.
            return [Refusal(job.refusal or error) for job in batch]

    # ---- transactions ------------------------------------------------------------------------------------------

    def transact(self, work: Callable[[WriteTransaction], T], *, setting: bool = False) -> T:
        """Run ``work`` in one write transaction and commit it; ``setting`` where it sets the ledger's standing.

        Whatever ``work`` raises leaves nothing behind. Raises a StoreError when the transaction failed (nothing is
        recorded) and :class:`CommitInDoubt` when COMMIT did.
        """
        connection = self._ready()
        try:
            transaction = self._begin(connection, setting=setting)
            answer = work(transaction)
            transaction.finish()
        except sqlite3.Error as error:
            self._undo(connection, broken=primary_code(error) != sqlite3.SQLITE_BUSY)
            raise translate(error, self._path, "write to") from error
        except CounterfoilError:
            self._undo(connection)
            raise
        except BaseException:
            self._undo(connection, broken=True)
            raise
        try:
            self._commit(answer)
            transaction.publish()
        except CommitInDoubt:
            raise
        except BaseException:
            # An interrupt between the commit and its answer: the caches may be behind.
            self.drop()
            raise
        return answer

    def _begin(self, connection: sqlite3.Connection, *, setting: bool) -> WriteTransaction:
        cursor = self._cursor
        assert cursor is not None
        cursor.execute("BEGIN IMMEDIATE")
        if self._cache.refresh(cursor):
            check_schema(connection, self._path)
            self._tables.load(connection)
        if self._tables.newer or (self._tables.standing != "open" and not setting):
            self._tables.check_writable()
        return WriteTransaction(connection, cursor, self._cache, self._now_ms())

    def _commit(self, answer: object) -> None:
        try:
            assert self._cursor is not None
            self._cursor.execute("COMMIT")
        except sqlite3.Error as error:
            certain = extended_name(error) in NOT_COMMITTED
            self.drop()
            raise CommitInDoubt(translate(error, self._path, "commit to"), answer, certain=certain) from error

    def _undo(self, connection: sqlite3.Connection, *, broken: bool = False) -> None:
        """Roll back; a connection that met an error of its own is not used again."""
        if broken:
            self.drop()
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.drop()

    # ---- the connection ------------------------------------------------------------------------------------------

    def open(self) -> sqlite3.Connection:
        """The writing connection, opened when there is none. Raises a StoreError."""
        if self._connection is None:
            try:
                connection = connect(self._path, "rw", self._busy_s)
                try:
                    prepare_writer(connection)
                except BaseException:
                    close_quietly(connection)
                    raise
            except sqlite3.Error as error:
                raise translate(error, self._path, "open") from error
            self._connection, self._cursor = connection, connection.cursor()
            self._inode = os.stat(self._file).st_ino  # noqa: PTH116 - as below
            self._look_at = 0.0
            self._cache.clear()
        return self._connection

    def drop(self) -> None:
        """Close the connection and forget what it knew."""
        connection, cursor = self._connection, self._cursor
        self._connection = self._cursor = None
        self._cache.clear()
        if cursor is not None:
            # A statement that is not finished would keep the connection, and its lock, alive behind our back.
            with contextlib.suppress(sqlite3.Error):
                cursor.close()
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            close_quietly(connection)

    def abandon(self) -> sqlite3.Connection | None:
        """After a fork, in the child: the connection, which must neither be used nor closed there."""
        connection, self._connection, self._cursor = self._connection, None, None
        return connection

    def _ready(self) -> sqlite3.Connection:
        connection = self.open()
        self._check_file()
        if self._doubt:
            self._settle(copy=True)
            connection = self.open()
        return connection

    def _check_file(self) -> None:
        """Refuse to write into a file that has been taken away: it would keep nothing."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        try:
            here = os.stat(self._file).st_ino  # noqa: PTH116 - a Path takes five times as long, in every commit
        except OSError:
            here = 0
        if here != self._inode:
            self.drop()
            raise StoreIO(
                f"{self._path} was deleted, moved or replaced while it was open",
                hint="put the ledger's files back, then open it again",
                path=str(self._path),
            )

    # ---- commits in doubt ----------------------------------------------------------------------------------------

    def resolve(self, doubt: CommitInDoubt, present: Callable[[sqlite3.Connection], bool]) -> bool:
        """Whether the transaction in doubt was recorded, asked of a new connection; only then may one answer.

        An fsync that failed leaves the frames in the log: this process does not see them, the next one to recover
        the log would (INFRA). So an absent transaction is absent only once another commit has been written over
        it, and a present one is durable only once it is in the database file.

        Raises StoreIO when neither can be told now.
        """
        self._doubt = True
        try:
            recorded = present(self.open())
            self._settle(copy=recorded)
        except (sqlite3.Error, StoreError) as error:
            if doubt.certain and self._is_absent(present):
                return False
            raise StoreIO(
                f"whether this append was recorded in {self._path} cannot be told now: {doubt.error.message}",
                hint="send the same events with the same ids again; they land once",
                path=str(self._path),
                outcome="unknown",
            ) from error
        return recorded

    def _is_absent(self, present: Callable[[sqlite3.Connection], bool]) -> bool:
        try:
            return not present(self.open())
        except (sqlite3.Error, StoreError):
            return False

    def _settle(self, *, copy: bool) -> None:
        """Make the log end after a commit of our own; with ``copy``, have all before it in the database file."""
        connection = self.open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(BARRIER)
            connection.execute("COMMIT")
            busy, in_log, copied = fetch(connection, "PRAGMA wal_checkpoint(FULL)")[0] if copy else (0, 0, 0)
        except sqlite3.Error as error:
            self.drop()
            raise translate(error, self._path, "make durable what was written to") from error
        self._cache.clear()
        if busy or in_log != copied:
            raise StoreIO(
                f"{self._path} had an error while it was written, and a long reader keeps it from being made "
                "durable again",
                hint="end the long read and try again",
                path=str(self._path),
            )
        self._doubt = False

    def _answer_doubt(
        self, batch: Sequence[Job], tentative: Sequence[Outcome], doubt: CommitInDoubt
    ) -> list[Outcome]:
        written = [job for job, told in zip(batch, tentative, strict=True) if _is_new(told)]
        # They stand or fall together, so one of them tells.
        if not written or self.resolve(doubt, lambda connection: _is_recorded(connection, written[0])):
            return list(tentative)
        return [Refusal(doubt.error) if _is_new(told) else told for told in tentative]


def _is_new(outcome: Outcome) -> bool:
    return isinstance(outcome, Receipt) and not outcome.duplicate


def _is_recorded(connection: sqlite3.Connection, job: Job) -> bool:
    for part in job.streams:
        if part.events:
            event_id = part.events[0].event_id
            return event_id in find_recorded(connection, part.stream_id, [event_id])
    created = [part.stream_id for part in job.streams if part.create is not None]
    return bool(fetch(connection, "SELECT 1 FROM stream WHERE stream_id = ?", (created[0],)))


def _append(transaction: WriteTransaction, batch: Sequence[Job]) -> list[Outcome]:
    """All units with as few statements as possible; one at a time when that meets an obstacle."""
    try:
        outcomes = [_admit(transaction, job) for job in batch]
        transaction.flush()
    except Exception as error:
        if not _is_of_a_unit(error):
            raise
        transaction.restart()
        return [_admit_alone(transaction, job) for job in batch]
    return outcomes


def _admit(transaction: WriteTransaction, job: Job) -> Outcome:
    """Record a unit that no check refuses, without looking whether it is a duplicate: the index will tell."""
    if job.refusal is not None:
        return Refusal(job.refusal)
    refusal = None if job.plain and transaction.has_streams(job) else refusal_of(transaction, job)
    if refusal is None:
        return transaction.place(job)
    # The first check, made only now: a unit that was recorded before is no conflict, wherever the head is.
    transaction.flush()
    return _duplicate_or(refusal, transaction.connection, job)


def _duplicate_or(refusal: CounterfoilError, connection: sqlite3.Connection, job: Job) -> Outcome:
    try:
        receipt = check_duplicate(connection, job)
    except CounterfoilError as error:
        return Refusal(error)
    return Refusal(refusal) if receipt is None else receipt


def _admit_alone(transaction: WriteTransaction, job: Job) -> Outcome:
    """Record one unit by itself, so that whatever is wrong with it leaves its neighbours standing."""
    if job.refusal is not None:
        return Refusal(job.refusal)
    mark = None
    try:
        transaction.flush()
        receipt = check_duplicate(transaction.connection, job)
        if receipt is None:
            check(transaction, job, {})
            mark = transaction.savepoint(job)
            receipt = transaction.place(job)
            transaction.keep()
    except Exception as error:
        if not _is_of_a_unit(error):
            raise
        if mark is not None:
            transaction.roll_back(mark)
        return Refusal(error if isinstance(error, CounterfoilError) else _fault(job, error))
    return receipt


def _is_of_a_unit(error: Exception) -> bool:
    """Whether one unit may be to blame; otherwise the database is, and no other unit will fare better."""
    return not isinstance(error, sqlite3.Error) or primary_code(error) in {0, sqlite3.SQLITE_CONSTRAINT}


def _fault(job: Job, error: Exception) -> CounterfoilError:
    streams = ", ".join(part.stream_id for part in job.streams)
    fault = InternalError(f"a unit for {streams} could not be recorded: {type(error).__name__}: {error}")
    fault.__cause__ = error
    return fault
