"""SqliteStore: the store contract on one ``ledger.db``, writing through the group-commit writer."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from counterfoil.adapters.filesystem.turn import FileTurn
from counterfoil.adapters.shared.handed import Handed
from counterfoil.adapters.shared.handles import StoreHandle, abandoned_after_fork, on_event_loop
from counterfoil.adapters.shared.refusals import check_checkpoint
from counterfoil.adapters.sqlite import leases
from counterfoil.adapters.sqlite.checks import require
from counterfoil.adapters.sqlite.connect import Params, fetch, forked_at_work
from counterfoil.adapters.sqlite.engine import CommitInDoubt, Engine
from counterfoil.adapters.sqlite.faults import translate
from counterfoil.adapters.sqlite.loading import load
from counterfoil.adapters.sqlite.plan import Job, plan_rows, plan_unit
from counterfoil.adapters.sqlite.raw import SnapshotReads
from counterfoil.adapters.sqlite.read import Reads
from counterfoil.adapters.sqlite.readers import Readers
from counterfoil.adapters.sqlite.removal import remove_content, remove_stream
from counterfoil.adapters.sqlite.runs import rebuild_spans
from counterfoil.adapters.sqlite.tables import RowTables, mark_standing, stored_standing
from counterfoil.adapters.sqlite.transaction import WriteTransaction
from counterfoil.store.contract import Reader
from counterfoil.store.loading import LoadItem, UnitOf, asked_for
from counterfoil.store.rows import RowChange
from counterfoil.store.standing import Standing
from counterfoil.store.unit import Capabilities, Checkpoint, Claimed, Lease, Outcome, Receipt, Unit
from counterfoil.store.writer import GroupWriter

T = TypeVar("T")
NowMs = Callable[[], int]

LONG_S: Final = 3600.0
"""How long work is waited for that handles all that is given, like a load."""

ROWS_PER_STATEMENT: Final = 1000
"""Row changes of a rebuild held in memory at a time."""

SAVE_CHECKPOINT: Final = (
    "INSERT INTO checkpoint (stream, projection, version, up_to_sequence, commitment, record)"
    " VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (stream, projection, version) DO UPDATE SET up_to_sequence = excluded.up_to_sequence,"
    " commitment = excluded.commitment, record = excluded.record"
    " WHERE excluded.up_to_sequence >= checkpoint.up_to_sequence OR checkpoint.up_to_sequence > ?"
)


class SqliteStore(StoreHandle[Engine, RowTables], Reads):
    """A ledger in one directory of a local file system. Made by ``open_sqlite``; see ``store.contract.Store``."""

    def __init__(
        self,
        path: Path,
        *,
        ledger_id: str,
        tables: RowTables,
        readers: Readers,
        now_ms: NowMs,
        writer: GroupWriter[Job],
        engine: Engine | None,
        turn: FileTurn | None,
    ) -> None:
        super().__init__(self._ask, tables)
        self._path = path
        self._shown, self._named = str(path), {"path": str(path)}
        self._ledger_id = ledger_id
        self._readers = readers
        self._clock = now_ms
        self._writer = writer
        self._engine = engine
        self._turn = turn
        self._rests = (False, False)
        abandoned_after_fork(self)

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """Durable, and shared by the processes of one machine."""
        return Capabilities(durable=True, shared=True, engine="sqlite")

    def now_ms(self) -> int:
        """See ``Store.now_ms``."""
        return self._clock()

    # ---- writing -------------------------------------------------------------------------------------------------

    def append(self, units: Sequence[Unit]) -> Future[list[Outcome]]:
        """See ``Store.append``.

        A call from an event loop's thread never blocks: a full queue refuses at once. Raises what says that this
        handle cannot write at all: ``StoreReadOnly``, ``StoreClosed``, ``HandleForked``, ``QueueFull``.
        """
        if self._engine is None:
            self._writing()
        jobs = [plan_unit(self._tables, unit) for unit in units]
        events = size = 0
        for job in jobs:
            events += job.events
            size += job.size
        return self._writer.submit(jobs, events, size, block=not on_event_loop())

    def claim(
        self, stream_id: str, owner: str, ttl_ms: int, expect_token: int, unit: Unit | None = None
    ) -> Claimed:
        """See ``Store.claim``."""
        job = None if unit is None else plan_unit(self._tables, unit)

        def work(transaction: WriteTransaction) -> Claimed:
            return leases.claim(transaction, stream_id, owner, ttl_ms, expect_token, job)

        def landed(claimed: Claimed, connection: sqlite3.Connection) -> bool:
            lease = claimed.lease
            rows = fetch(
                connection,
                "SELECT token, lease_owner, lease_until FROM head"
                " WHERE stream = (SELECT number FROM stream WHERE stream_id = ?)",
                (stream_id,),
            )
            return rows == [(lease.token, lease.owner, lease.expires_at_ms)]

        return self._transact(work, landed)

    def renew(self, lease: Lease, ttl_ms: int) -> Lease:
        """See ``Store.renew``."""
        return self._transact(lambda transaction: leases.renew(transaction, lease, ttl_ms))

    def release(self, lease: Lease) -> None:
        """See ``Store.release``."""
        self._transact(lambda transaction: leases.release(transaction, lease))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """See ``Store.save_checkpoint``. Of each projection and version only the furthest is kept."""
        self._transact(lambda transaction: _save_checkpoint(transaction, checkpoint))

    def rebuild_rows(self, stream_id: str | None, changes: Iterable[RowChange]) -> None:
        """See ``Store.rebuild_rows``. ``changes`` are taken a thousand at a time, inside the transaction."""
        handed = Handed(changes)

        def work(transaction: WriteTransaction) -> None:
            _clear_rows(transaction, self._tables, stream_id)
            if stream_id is None:
                rebuild_spans(transaction.connection, None)
            elif (head := transaction.head(stream_id)) is not None:
                rebuild_spans(transaction.connection, head.number)
            while some := list(islice(handed, ROWS_PER_STATEMENT)):
                transaction.change_rows(plan_rows(self._tables, some))
                transaction.flush_rows()

        with handed.own_errors():
            self._transact(work)
        if stream_id is None:
            self._tables.stale = frozenset()

    def load(self, items: Iterable[LoadItem], unit: UnitOf | None = None) -> Receipt | None:
        """See ``Store.load``. However long it takes, the log grows by what is loaded and is cut afterwards."""
        handed, asked = Handed(items), Handed(asked_for(unit))

        def work(transaction: WriteTransaction) -> Receipt | None:
            load(transaction, self._tables, handed)
            last = next(asked, None)
            return None if last is None else require(transaction, plan_unit(self._tables, last))

        with handed.own_errors(), asked.own_errors():
            return self._transact(work, long=True)

    def standing(self) -> Standing:
        """See ``Store.standing``."""
        self._writer.check_usable()
        with self._reader() as connection:
            return stored_standing(connection)

    def stand(self, standing: Standing, unit: Unit | None = None) -> Receipt | None:
        """See ``Store.stand``."""
        job = None if unit is None else plan_unit(self._tables, unit)

        def work(transaction: WriteTransaction) -> Receipt | None:
            receipt = None if job is None else require(transaction, job)
            transaction.flush()
            mark_standing(transaction.cursor, standing)
            return receipt

        receipt = self._transact(work, setting=True)
        self._tables.standing = standing
        return receipt

    def despite(self, standing: Standing) -> None:
        """See ``Store.despite``."""
        self._tables.despite = standing

    def remove_content(
        self, stream_id: str, parts: Sequence[tuple[int, int]], ground: str, unit: Unit | None = None
    ) -> int:
        """Remove sealed records, each named by (sequence, part), under a permit; how many were there.

        ``unit`` records the removal in the same transaction. Raises ``StreamNotFound`` or what refuses the unit.
        """
        return self._remove(lambda transaction: remove_content(transaction, stream_id, parts, ground), unit)

    def remove_stream(self, stream_id: str, ground: str, unit: Unit | None = None) -> int:
        """Remove a whole stream with all that is derived from it, under a permit; how many events it had.

        Its feed positions are never given to other events. ``unit`` and errors as in :meth:`remove_content`.
        """
        return self._remove(
            lambda transaction: remove_stream(transaction, self._tables, stream_id, ground), unit
        )

    def _remove(self, work: Callable[[WriteTransaction], int], unit: Unit | None) -> int:
        job = None if unit is None else plan_unit(self._tables, unit)

        def both(transaction: WriteTransaction) -> int:
            if job is not None:
                require(transaction, job)
            return work(transaction)

        return self._transact(both)

    def _transact(
        self,
        work: Callable[[WriteTransaction], T],
        landed: Callable[[T, sqlite3.Connection], bool] | None = None,
        *,
        long: bool = False,
        setting: bool = False,
    ) -> T:
        """Run ``work`` as one transaction in the order of the queue.

        ``landed`` tells whether a transaction whose commit failed was recorded all the same; without it that
        stays unknown, and the caller may simply call again. ``long`` work is waited for beyond the patience with
        one append.
        """
        engine = self._writing()

        def alone() -> T:
            try:
                return engine.transact(work, setting=setting)
            except CommitInDoubt as doubt:
                answer: T = doubt.answer  # type: ignore[assignment]  # what ``work`` returned
                if landed is not None and engine.resolve(doubt, partial(landed, answer)):
                    return answer
                raise doubt.error from doubt

        return self._writer.call(alone).result(LONG_S if long else None)

    # ---- reading -------------------------------------------------------------------------------------------------

    def _ask(self, sql: str, params: Params) -> list[tuple[Any, ...]]:
        self._writer.check_usable()
        with self._reader() as connection:
            return fetch(connection, sql, params)

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """See ``Store.snapshot``: one read transaction. The log cannot be cut while it lasts, so keep it short."""
        self._writer.check_usable()
        with self._reader() as connection:
            connection.execute("BEGIN")
            # A read transaction begins with the first read, not with BEGIN.
            fetch(connection, "SELECT 1 FROM meta LIMIT 1")

            def ask(sql: str, params: Params) -> list[tuple[Any, ...]]:
                self._writer.check_usable()
                try:
                    return fetch(connection, sql, params)
                except sqlite3.Error as error:
                    raise translate(error, self._path, "read") from error

            yield SnapshotReads(ask, self._tables, connection, self._path)

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """A reading connection for this block; one that met an error is not used again."""
        try:
            connection = self._readers.take()
        except sqlite3.Error as error:
            raise translate(error, self._path, "open") from error
        try:
            yield connection
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._readers.check()
        except sqlite3.Error as error:
            self._readers.discard(connection)
            raise translate(error, self._path, "read") from error
        except BaseException:
            self._readers.discard(connection)
            raise
        self._readers.give(connection)

    def rest(self, timeout_s: float) -> None:
        """Before a fork: close the files, so that the child inherits nothing of them; they open again when needed.

        What SQLite knows about the locks of a file crosses a fork and the locks do not. A child that opened the file
        beside it would hold none, and lose what it records as soon as its parent closes (the log is taken away).
        """
        until_s = time.monotonic() + timeout_s
        writer = self._writer.rest(timeout_s)
        self._rests = (writer, self._readers.rest(max(0.0, until_s - time.monotonic())))
        if writer and self._engine is not None:
            self._engine.drop()

    def resume(self) -> None:
        """After a fork, in the parent."""
        (writer, readers), self._rests = self._rests, (False, False)
        if readers:
            self._readers.resume()
        if writer:
            self._writer.resume()

    def abandon(self) -> list[object]:
        """After a fork, in the child: the handles that must neither be used nor closed there."""
        busy = self._readers.in_use
        held: list[object] = [*self._readers.abandon()]
        if self._engine is not None and (connection := self._engine.abandon()) is not None:
            held.append(connection)
        if held or busy:
            forked_at_work(self._path)
        return held

    def close(self) -> None:
        """See ``Store.close``."""
        if self._writer.foreign:
            return
        finished = self._writer.close()
        self._readers.close()
        if not finished:
            # Whoever still writes needs what it writes with; the process lets go of it when it ends.
            return
        if self._engine is not None:
            self._engine.drop()
        if self._turn is not None:
            self._turn.close()


def _save_checkpoint(transaction: WriteTransaction, checkpoint: Checkpoint) -> None:
    head = check_checkpoint(checkpoint, transaction.head(checkpoint.stream_id))
    transaction.cursor.execute(
        SAVE_CHECKPOINT,
        (
            head.number,
            checkpoint.projection,
            checkpoint.version,
            checkpoint.up_to_sequence,
            checkpoint.commitment,
            checkpoint.record,
            # One that claims more than the ledger holds gives way: it is of a ledger that is no more.
            head.seq,
        ),
    )


def _clear_rows(transaction: WriteTransaction, tables: RowTables, stream_id: str | None) -> None:
    for table in tables.declared.values():
        if table.spec.truth:
            continue
        if stream_id is None:
            transaction.cursor.execute(table.clear)
        elif table.clear_stream is not None:
            transaction.cursor.execute(table.clear_stream, (stream_id,))
    if stream_id is None:
        transaction.cursor.execute("UPDATE row_table SET stale = 0")
