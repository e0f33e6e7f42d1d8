"""The writing side: transactions on the one connection that writes, run again where that is safe, never in silence.

Everything here runs in one thread at a time; the group-commit writer sees to that. An append may be run again after
any failure, a lost answer included, because its events have ids and the first thing the second try does is to look
them up under the head's lock (DESIGN 2.14).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeVar

import psycopg
from msgspec import Struct
from msgspec.structs import replace

from counterfoil.adapters.postgres.checks import check, check_duplicate
from counterfoil.adapters.postgres.clock import DatabaseClock
from counterfoil.adapters.postgres.connect import BoundedConnection, Patience, close_quietly, connect, run
from counterfoil.adapters.postgres.faults import DeadlinePassed, Verdict, translate, verdict
from counterfoil.adapters.postgres.heads import HeadMemory
from counterfoil.adapters.postgres.lone import append_lone
from counterfoil.adapters.postgres.place import PostgresPlace
from counterfoil.adapters.postgres.plan import Job, merged
from counterfoil.adapters.postgres.quick import append_quick, remember
from counterfoil.adapters.postgres.tables import RowTables
from counterfoil.adapters.postgres.transaction import WriteTransaction
from counterfoil.errors import AppendTimeout, CounterfoilError, StoreError
from counterfoil.store.unit import Outcome, Receipt, Refusal

T = TypeVar("T")
Work = Callable[[WriteTransaction], T]
Again = Literal["always", "before_commit", "never"]
"""When work may be run again: always (it is idempotent), while nothing was committed, or not (it uses something up)."""

PAUSE_S: Final = 0.02
PAUSE_S_MAX: Final = 1.0
"""First and longest pause before a transaction that failed is run again."""


_DEFAULTS: Final = ("synchronous_commit", "default_transaction_isolation")

WARM_S: Final = 2.0
"""So long after an answer a connection is taken to be there. After that a batch asks before it sends what cannot be taken
back, since a connection that died unnoticed would leave it in doubt."""

RACES_MAX: Final = 20
"""How often a row that was not there may turn out to be there: so often means that this login cannot see it."""


class Doubt(Exception):
    """The connection was lost while a commit was on its way. ``answer`` is what would have been told."""

    def __init__(self, error: CounterfoilError, answer: object) -> None:
        super().__init__(str(error))
        self.error = error
        self.answer = answer


class _Try(Struct):
    """One try of a transaction; ``sent`` once its commit may have reached the server, with the answer it would give."""

    sent: bool = False
    answer: object = None


class Engine:
    """One writing connection with what it remembers. ``clock`` dates events and leases."""

    def __init__(
        self, place: PostgresPlace, tables: RowTables, clock: DatabaseClock, patience: Patience
    ) -> None:
        self._place = place
        self._tables = tables
        self._clock = clock
        self._patience = patience
        self._connection: BoundedConnection | None = None
        self._heads = HeadMemory()
        self._closing = threading.Event()
        self._lone = True
        self._answered_at = -math.inf

    # ---- units -------------------------------------------------------------------------------------------------

    def commit(self, batch: Sequence[Job]) -> list[Outcome]:
        """Record a batch in one transaction; see ``store.writer.BatchEngine``.

        Raises AppendTimeout when the outcome is unknown at the deadline. What was surely not recorded is refused.
        """
        ready = [job for job in batch if job.refusal is None]
        told: list[Outcome] = self._record(ready) if ready else []
        outcomes = iter(told)
        return [Refusal(job.refusal) if job.refusal is not None else next(outcomes) for job in batch]

    def _record(self, jobs: Sequence[Job]) -> list[Outcome]:
        give_up_at = self._patience.call()
        doubted: list[Outcome] = []

        def once(connection: BoundedConnection, attempt: _Try) -> list[Outcome]:
            self._tables.look_again(connection)
            if len(jobs) == 1 and jobs[0].plain and self._lone and not doubted:
                receipt = append_lone(connection, self._heads, self._tables, jobs[0], self._clock, attempt)
                if receipt is not None:
                    return [receipt]
            elif self._lone and not doubted and time.monotonic() - self._answered_at < WARM_S:
                told = self._quickly(connection, attempt, jobs)
                if told is not None:
                    return told
            return self._transaction(
                connection, attempt, lambda transaction: _append(transaction, jobs), jobs
            )

        while True:
            try:
                outcomes = self._until(once, give_up_at, "write to")
            except Doubt as doubt:
                if not doubted and isinstance(doubt.answer, list):
                    doubted = doubt.answer
                if time.monotonic() >= give_up_at or self._closing.is_set():
                    raise self._unknown(doubt.error) from doubt
                self._pause(PAUSE_S, give_up_at)
            except CounterfoilError as error:
                if doubted:
                    raise self._unknown(error) from error
                if len(jobs) > 1 and not isinstance(error, StoreError):
                    # Something in one unit that no check foresaw must not take its neighbours along.
                    return [outcome for job in jobs for outcome in self._record([job])]
                return [Refusal(error)] * len(jobs)
            else:
                return _as_first_told(outcomes, doubted)

    def _quickly(
        self, connection: BoundedConnection, attempt: _Try, jobs: Sequence[Job]
    ) -> list[Outcome] | None:
        """The outcomes of a batch that is as this handle remembers everything, else None and nothing is recorded."""
        transaction = self._new_transaction(connection)
        transaction.now_ms = self._clock.now_ms()
        if not remember(transaction, self._heads, jobs):
            return None
        before = {stream_id: replace(head) for stream_id, head in transaction.heads.items()}
        outcomes = _append(transaction, jobs)
        if not append_quick(transaction, self._heads, outcomes, before, attempt):
            return None
        self._keep(transaction)
        return outcomes

    # ---- transactions ------------------------------------------------------------------------------------------

    def transact(
        self,
        work: Work[T],
        landed: Callable[[T, BoundedConnection], bool] | None = None,
        *,
        again: Again = "always",
    ) -> T:
        """Run ``work`` in one write transaction and commit it. What it raises leaves nothing behind.

        ``landed`` tells of a commit whose answer was lost whether it was recorded; without it, ``again`` says when
        ``work`` may be run a second time. Raises AppendTimeout when the outcome stays unknown.
        """
        give_up_at = self._patience.call() if again == "always" else self._patience.long()

        def once(connection: BoundedConnection, attempt: _Try) -> T:
            return self._transaction(connection, attempt, work, ())

        while True:
            try:
                return self._until(once, give_up_at, "write to", tries=1 if again == "never" else None)
            except Doubt as doubt:
                answer: T = doubt.answer  # type: ignore[assignment]  # what ``work`` returned
                if landed is not None and self._landed(landed, answer, give_up_at, doubt):
                    return answer
                if landed is not None or again != "always" or time.monotonic() >= give_up_at:
                    raise self._unknown(doubt.error) from doubt

    def _landed(
        self,
        landed: Callable[[T, BoundedConnection], bool],
        answer: T,
        give_up_at: float,
        doubt: Doubt,
    ) -> bool:
        try:
            return self._until(lambda connection, _: landed(answer, connection), give_up_at, "look into")
        except CounterfoilError as error:
            raise self._unknown(doubt.error) from error

    def _transaction(
        self, connection: BoundedConnection, attempt: _Try, work: Work[T], jobs: Sequence[Job]
    ) -> T:
        self._tables.look_again(connection)
        transaction = self._new_transaction(connection)
        try:
            if jobs:
                _begin(transaction, jobs)
            answer = work(transaction)
            attempt.answer = answer
            if transaction.dirty:
                attempt.sent = True
                transaction.commit()
            else:
                run(connection, "ROLLBACK")
        except CounterfoilError:
            self._roll_back(connection)
            raise
        except psycopg.Error:
            raise
        except BaseException:
            # An interrupt in the middle of an answer: what comes next on this connection is anybody's guess.
            self.drop()
            raise
        self._keep(transaction)
        return answer

    def _new_transaction(self, connection: BoundedConnection) -> WriteTransaction:
        return WriteTransaction(
            connection,
            self._tables.schema,
            self._tables,
            self._clock.injected,
            # Where little time is left, the server must say sooner that a lock was not to be had.
            min(self._patience.answer_s, connection.give_up_at - time.monotonic()),
        )

    def _keep(self, transaction: WriteTransaction) -> None:
        """Remember what a commit has left, so that the next one may be judged on it."""
        self._answered_at = time.monotonic()
        for head in transaction.heads_now():
            self._heads.keep(head)
        for name, before in transaction.rows_before().items():
            now = transaction.rows[name].rows
            for key in before:
                self._heads.keep_row(name, key, now.get(key))

    # ---- trying again ------------------------------------------------------------------------------------------

    def _until(
        self,
        once: Callable[[BoundedConnection, _Try], T],
        give_up_at: float,
        doing: str,
        *,
        tries: int | None = None,
    ) -> T:
        """Try until it is done, the error is final or the deadline has passed. Raises Doubt as soon as there is any."""
        pause_s, tried, races = PAUSE_S, 0, 0
        busy: CounterfoilError | None = None
        while True:
            connection, attempt, tried = None, _Try(), tried + 1
            try:
                connection = self._ready(give_up_at)
                return once(connection, attempt)
            except psycopg.Error as error:
                told = translate(error, self._place.shown, doing)
                what = verdict(error, connection)
                if what is not Verdict.AGAIN:
                    self.drop()
                elif connection is not None:
                    self._roll_back(connection)
                if attempt.sent and what is Verdict.LOST:
                    raise Doubt(told, attempt.answer) from error
                late = time.monotonic() + pause_s >= give_up_at or self._closing.is_set()
                races += isinstance(error, psycopg.errors.UniqueViolation)
                if what is Verdict.AGAIN:
                    busy = told
                elif isinstance(error, DeadlinePassed) and busy is not None:
                    # The last try was cut short while it waited for what the ones before had waited for.
                    told = busy
                if (
                    what is Verdict.FINAL
                    or late
                    or races >= RACES_MAX
                    or (tries is not None and tried >= tries)
                ):
                    raise told from error
                if what is Verdict.AGAIN:
                    # Lost a race: whoever won it is done in a moment.
                    self._pause(PAUSE_S, give_up_at)
                else:
                    self._pause(pause_s, give_up_at)
                    pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _pause(self, seconds: float, give_up_at: float) -> None:
        self._closing.wait(max(0.0, min(seconds, give_up_at - time.monotonic())))

    def _unknown(self, error: CounterfoilError) -> AppendTimeout:
        return AppendTimeout(
            f"whether this was recorded in {self._place.shown} cannot be told now: {error.message}",
            place=self._place.shown,
            outcome="unknown",
        )

    # ---- the connection ------------------------------------------------------------------------------------------

    def _ready(self, give_up_at: float) -> BoundedConnection:
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._connection = connect(
                self._place, give_up_at=give_up_at, writable=True, patience=self._patience
            )
            self._clock.measure(connection)
            told = run(
                connection, "SELECT current_setting(n) FROM unnest(%s::text[]) AS n", (list(_DEFAULTS),)
            )
            waits, isolation = (setting for (setting,) in told.fetchall())
            # Where the login's own defaults are others, only a transaction can say that it waits for the disk, and that
            # each of its statements sees what was committed before it.
            self._lone = waits not in ("off", "local") and isolation == "read committed"
        connection.give_up_at = give_up_at
        if self._clock.stale:
            self._clock.measure(connection)
        return connection

    def _roll_back(self, connection: BoundedConnection) -> None:
        try:
            if not connection.closed:
                run(connection, "ROLLBACK")
        except psycopg.Error:
            self.drop()

    def drop(self) -> None:
        """Close the connection; the next call opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            close_quietly(connection)

    def hurry(self) -> None:
        """From now on whatever fails is not tried again: the handle is being closed."""
        self._closing.set()

    def abandon(self) -> BoundedConnection | None:
        """After a fork, in the child: the connection, which must neither be used nor closed there."""
        connection, self._connection = self._connection, None
        return connection


def _begin(transaction: WriteTransaction, jobs: Sequence[Job]) -> None:
    transaction.begin(
        [part.stream_id for job in jobs for part in job.streams],
        [(part.stream_id, event.event_id) for job in jobs for part in job.streams for event in part.events],
        merged(job.keys for job in jobs),
        frozenset().union(*(job.written for job in jobs)),
    )


def _append(transaction: WriteTransaction, jobs: Sequence[Job]) -> list[Outcome]:
    """Judge the units one after the other on what the ones before have left."""
    return [_admit(transaction, job) for job in jobs]


def _admit(transaction: WriteTransaction, job: Job) -> Outcome:
    try:
        receipt = check_duplicate(transaction.recorded, job)
        if receipt is not None:
            return receipt
        check(transaction.heads, transaction.rows, job, {})
        return transaction.place(job)
    except CounterfoilError as error:
        return Refusal(error)


def _as_first_told(outcomes: Sequence[Outcome], doubted: Sequence[Outcome]) -> list[Outcome]:
    """What a second try found recorded is no duplicate where the first try, whose answer was lost, recorded it."""
    if not doubted:
        return list(outcomes)
    return [
        replace(now, duplicate=False)
        if isinstance(now, Receipt) and isinstance(then, Receipt) and not then.duplicate
        else now
        for now, then in zip(outcomes, doubted, strict=True)
    ]
