"""PostgresStore: the store contract on one schema of a server, writing through the group-commit writer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, TypeVar

import psycopg

from counterfoil.adapters.memory.tables import check_change
from counterfoil.adapters.postgres import leases
from counterfoil.adapters.postgres.cells import stored_text
from counterfoil.adapters.postgres.clock import DatabaseClock
from counterfoil.adapters.postgres.connect import LONG_S, BoundedConnection, Params, fetch, run
from counterfoil.adapters.postgres.engine import Again, Engine
from counterfoil.adapters.postgres.faults import translate
from counterfoil.adapters.postgres.loading import begin_load, load, record_with
from counterfoil.adapters.postgres.place import PostgresPlace
from counterfoil.adapters.postgres.plan import Job, plan_unit, touched
from counterfoil.adapters.postgres.raw import SnapshotReads
from counterfoil.adapters.postgres.read import Reads
from counterfoil.adapters.postgres.readers import Readers
from counterfoil.adapters.postgres.schema import quoted
from counterfoil.adapters.postgres.tables import RowTables
from counterfoil.adapters.postgres.transaction import WriteTransaction
from counterfoil.adapters.shared.handed import Handed
from counterfoil.adapters.shared.handles import StoreHandle, abandoned_after_fork, on_event_loop
from counterfoil.adapters.shared.refusals import check_checkpoint
from counterfoil.errors import StreamNotFound
from counterfoil.store.contract import Reader
from counterfoil.store.loading import LoadItem, UnitOf, asked_for
from counterfoil.store.rows import RowChange, check_beside
from counterfoil.store.standing import Standing, standing_of
from counterfoil.store.unit import Capabilities, Checkpoint, Claimed, Lease, Outcome, Receipt, Unit
from counterfoil.store.writer import GroupWriter

T = TypeVar("T")

ROWS_PER_STATEMENT: Final = 1000
"""Row changes of a rebuild held in memory at a time."""


class PostgresStore(StoreHandle[Engine, RowTables], Reads):
    """A ledger in one schema. Made by ``open_postgres``; see ``store.contract.Store``."""

    def __init__(
        self,
        place: PostgresPlace,
        *,
        ledger_id: str,
        tables: RowTables,
        readers: Readers,
        clock: DatabaseClock,
        writer: GroupWriter[Job],
        engine: Engine | None,
        notices: tuple[str, ...] = (),
    ) -> None:
        super().__init__(self._ask, tables, clock.now_ms)
        self._place = place
        self._shown, self._named = place.shown, {"place": place.shown}
        self._ledger_id = ledger_id
        self._readers = readers
        self._clock = clock
        self._writer = writer
        self._engine = engine
        self.notices = notices
        """What the server cannot keep as promised, in words; also logged as warnings."""
        abandoned_after_fork(self)

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """Durable, and shared by machines."""
        return Capabilities(durable=True, shared=True, engine="postgresql")

    @property
    def place(self) -> PostgresPlace:
        """Where it lies."""
        return self._place

    def now_ms(self) -> int:
        """See ``Store.now_ms``: the database's clock, by an offset measured once a minute."""
        return self._clock.now_ms()

    # ---- writing -------------------------------------------------------------------------------------------------

    def append(self, units: Sequence[Unit]) -> Future[list[Outcome]]:
        """See ``Store.append``.

        A call from an event loop's thread never blocks: a full queue refuses at once. Raises what says that this
        handle cannot write at all: ``StoreReadOnly``, ``StoreClosed``, ``HandleForked``, ``QueueFull``.
        """
        self._writing()
        jobs = [plan_unit(self._tables, unit) for unit in units]
        events = sum(job.events for job in jobs)
        size = sum(job.size for job in jobs)
        return self._writer.submit(jobs, events, size, block=not on_event_loop())

    def claim(
        self, stream_id: str, owner: str, ttl_ms: int, expect_token: int, unit: Unit | None = None
    ) -> Claimed:
        """See ``Store.claim``."""
        job = None if unit is None else plan_unit(self._tables, unit)

        def landed(claimed: Claimed, connection: BoundedConnection) -> bool:
            return leases.stands(connection, self._place.schema, claimed.lease)

        return self._transact(
            lambda transaction: leases.claim(transaction, stream_id, owner, ttl_ms, expect_token, job), landed
        )

    def renew(self, lease: Lease, ttl_ms: int) -> Lease:
        """See ``Store.renew``."""
        return self._transact(lambda transaction: leases.renew(transaction, lease, ttl_ms))

    def release(self, lease: Lease) -> None:
        """See ``Store.release``."""
        self._transact(lambda transaction: leases.release(transaction, lease))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """See ``Store.save_checkpoint``. Of each projection and version only the furthest is kept."""
        self._transact(lambda transaction: _save_checkpoint(transaction, self._place.schema, checkpoint))

    def rebuild_rows(self, stream_id: str | None, changes: Iterable[RowChange]) -> None:
        """See ``Store.rebuild_rows``. ``changes`` are taken a thousand at a time, inside the transaction."""
        handed = Handed(changes)

        def work(transaction: WriteTransaction) -> None:
            transaction.begin(() if stream_id is None else [stream_id])
            if stream_id is None:
                # Every append takes its heads first, so none can come between the events looked at and their rows.
                run(transaction.connection, f"LOCK TABLE {quoted(self._place.schema)}.head IN EXCLUSIVE MODE")
            _clear_rows(transaction, self._tables, stream_id)
            while some := list(islice(handed, ROWS_PER_STATEMENT)):
                for change in some:
                    check_change(self._tables.empty, change, frozenset())
                    check_beside(self._tables.table(change.table).spec, change, ())
                transaction.fetch_rows(touched(self._tables, some, ()))
                transaction.change_rows(some)
                transaction.flush_rows()
            transaction.written = True

        with handed.own_errors():
            self._transact(work, again="never")
        if stream_id is None:
            self._tables.stale = frozenset()

    def load(self, items: Iterable[LoadItem], unit: UnitOf | None = None) -> Receipt | None:
        """See ``Store.load``."""
        handed, asked = Handed(items), Handed(asked_for(unit))

        def work(transaction: WriteTransaction) -> Receipt | None:
            begin_load(transaction)
            load(transaction, self._tables, handed)
            last = next(asked, None)
            transaction.written = True
            return None if last is None else record_with(transaction, plan_unit(self._tables, last))

        with handed.own_errors(), asked.own_errors():
            return self._transact(work, again="never")

    def standing(self) -> Standing:
        """See ``Store.standing``."""
        return standing_of({str(name) for (name,) in self._ask(self._tables.ask_standing, ())})

    def stand(self, standing: Standing, unit: Unit | None = None) -> Receipt | None:
        """See ``Store.stand``."""
        job = None if unit is None else plan_unit(self._tables, unit)

        def work(transaction: WriteTransaction) -> Receipt | None:
            leases.begin_with(transaction, job)
            # Every append takes its heads first: those before this are in, and those behind it see the mark.
            run(transaction.connection, f"LOCK TABLE {quoted(self._place.schema)}.head IN EXCLUSIVE MODE")
            receipt = None if job is None else leases.require(transaction, job)
            self._tables.mark_standing(transaction.connection, standing)
            transaction.written = True
            return receipt

        before, self._tables.despite = self._tables.despite, self.standing()
        try:
            receipt = self._transact(work, again="never")
        finally:
            self._tables.despite = before
        self._tables.standing = standing
        return receipt

    def despite(self, standing: Standing) -> None:
        """See ``Store.despite``."""
        self._tables.despite = standing

    def remove_content(
        self, stream_id: str, parts: Sequence[tuple[int, int]], ground: str, unit: Unit | None = None
    ) -> int:
        """Remove sealed records, each named by (sequence, part), through the database's own function; how many.

        ``unit`` records the removal in the same transaction. Raises ``StreamNotFound``, what refuses the unit, or
        ``NotPermitted`` for a login without the role ``retention``.
        """
        sql = f"SELECT {quoted(self._place.schema)}.remove_content(%s, %s::bigint[], %s::smallint[], %s)"
        seqs, numbers = [seq for seq, _ in parts], [part for _, part in parts]
        return self._remove(stream_id, sql, (stream_id, seqs, numbers, stored_text(ground)), unit)

    def remove_stream(self, stream_id: str, ground: str, unit: Unit | None = None) -> int:
        """Remove a whole stream with all that is derived from it; how many events it had. See :meth:`remove_content`."""
        sql = f"SELECT {quoted(self._place.schema)}.remove_stream(%s, %s)"
        return self._remove(stream_id, sql, (stream_id, stored_text(ground)), unit)

    def _remove(self, stream_id: str, sql: str, params: Params, unit: Unit | None) -> int:
        job = None if unit is None else plan_unit(self._tables, unit)

        def work(transaction: WriteTransaction) -> int:
            leases.begin_with(transaction, job, stream_id)
            if stream_id not in transaction.heads:
                raise StreamNotFound(f"there is no stream {stream_id}", stream_id=stream_id)
            if job is not None:
                leases.require(transaction, job)
            ((removed,),) = fetch(transaction.connection, sql, params)
            transaction.written = True
            transaction.forget(stream_id)
            return int(removed)

        return self._transact(work, again="before_commit")

    def _transact(
        self,
        work: Callable[[WriteTransaction], T],
        landed: Callable[[T, BoundedConnection], bool] | None = None,
        *,
        again: Again = "always",
    ) -> T:
        """Run ``work`` as one transaction in the order of the queue; see ``Engine.transact``."""
        engine = self._writing()
        future = self._writer.call(lambda: engine.transact(work, landed, again=again))
        # What handles all that a ledger holds may take longer than the writer's patience with one append.
        return future.result() if again == "always" else future.result(LONG_S)

    # ---- reading -------------------------------------------------------------------------------------------------

    def _ask(self, sql: str, params: Params) -> list[tuple[Any, ...]]:
        self._writer.check_usable()
        return self._readers.ask(lambda connection: fetch(connection, sql, params))

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """See ``Store.snapshot``: one read transaction. Keep it short: it holds back vacuum and other feeds."""
        self._writer.check_usable()
        with self._readers.translated() as connection:
            # However long it lasts, each answer comes within the connection's own bound.
            connection.give_up_at = math.inf
            run(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # A snapshot is taken by the first statement, not by BEGIN.
            fetch(connection, "SELECT 1 FROM pg_current_snapshot()")

            def ask(sql: str, params: Params) -> list[tuple[Any, ...]]:
                self._writer.check_usable()
                try:
                    return fetch(connection, sql, params)
                except psycopg.Error as error:
                    raise translate(error, self._place.shown, "read") from error

            yield SnapshotReads(ask, self._tables, self._clock.now_ms, connection)
            if not connection.closed:
                run(connection, "ROLLBACK")

    def abandon(self) -> list[object]:
        """After a fork, in the child: the handles that must neither be used nor closed there."""
        held: list[object] = [*self._readers.abandon()]
        return held if self._engine is None else [*held, self._engine.abandon()]

    def close(self) -> None:
        """See ``Store.close``."""
        if self._writer.foreign:
            return
        if self._engine is not None:
            self._engine.hurry()
        finished = self._writer.close()
        self._readers.close()
        # Whoever still writes needs what it writes with; the process lets go of it when it ends.
        if self._engine is not None and finished:
            self._engine.drop()


def _save_checkpoint(transaction: WriteTransaction, schema: str, checkpoint: Checkpoint) -> None:
    transaction.begin([checkpoint.stream_id])
    head = check_checkpoint(checkpoint, transaction.heads.get(checkpoint.stream_id))
    run(
        transaction.connection,
        f"INSERT INTO {quoted(schema)}.checkpoint AS c"
        " (stream_id, projection, version, tenant, up_to_sequence, commitment, record)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (stream_id, projection, version) DO UPDATE"
        " SET up_to_sequence = excluded.up_to_sequence, commitment = excluded.commitment, record = excluded.record"
        " WHERE excluded.up_to_sequence >= c.up_to_sequence OR c.up_to_sequence > %s",
        (
            checkpoint.stream_id,
            stored_text(checkpoint.projection),
            checkpoint.version,
            head.tenant,
            checkpoint.up_to_sequence,
            checkpoint.commitment,
            checkpoint.record,
            # One that claims more than the ledger holds gives way: it is of a ledger that is no more.
            head.seq,
        ),
    )
    transaction.written = True


def _clear_rows(transaction: WriteTransaction, tables: RowTables, stream_id: str | None) -> None:
    for table in tables.declared.values():
        if table.spec.truth:
            continue
        if stream_id is None:
            run(transaction.connection, table.clear)
        elif table.clear_stream is not None:
            run(transaction.connection, table.clear_stream, (stored_text(stream_id),))
    if stream_id is None:
        run(transaction.connection, f"UPDATE {quoted(tables.schema)}.row_table SET stale = false WHERE stale")
