"""The group-commit writer: one lazily started thread per store and process turns waiting appends into batches.

A lone synchronous caller who finds nobody at work commits in place, one batch, then hands over: a leader that
kept leading held one caller for 360 to 690 ms (DESIGN 4). Everybody else waits on a future while the thread
drains a bounded queue without lingering, one transaction and one fsync a batch.

The writer knows no engine. It asks a :class:`BatchEngine` to commit and a :class:`Turn` for the right to write
among processes. Only its own thread ever blocks in the turn; callers keep deadlines.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from counterfoil.errors import (
    CounterfoilError,
    HandleForked,
    QueueFull,
    StoreBusy,
    StoreClosed,
)
from counterfoil.store.future import AppendFuture, answer, answered, as_ours
from counterfoil.store.unit import Outcome

BATCH_EVENTS_MAX = 512
"""Events in one transaction; a single request that holds more is committed alone and whole."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
QUEUE_EVENTS_MAX = 8 * BATCH_EVENTS_MAX
QUEUE_BYTES_MAX = 8 * BATCH_BYTES_MAX
WAIT_S = 30.0
"""How long a request waits for room, then for its turn, then for its answer, before it is told so."""

Job_contra = TypeVar("Job_contra", contravariant=True)
Job = TypeVar("Job")
T = TypeVar("T")


class BatchEngine(Protocol[Job_contra]):
    """One transaction for many jobs."""

    def commit(self, batch: Sequence[Job_contra]) -> list[Outcome]:
        """Record the jobs in one transaction and say for each, in order, what became of it.

        A :class:`~counterfoil.errors.CounterfoilError` raised here is the answer to every job: nothing can be
        said of any of them. The engine must be usable afterwards.
        """
        ...


class Turn(Protocol):
    """The right to write among processes."""

    def try_take(self) -> bool:
        """Take it if it is free; never blocks."""
        ...

    def take(self) -> None:
        """Wait for it."""
        ...

    def give(self) -> None:
        """Hand it on."""
        ...


class OpenTurn:
    """The turn of an engine that needs none, because its transactions queue by themselves."""

    def try_take(self) -> bool:
        """Always free."""
        return True

    def take(self) -> None:
        """Nothing to wait for."""

    def give(self) -> None:
        """Nothing to hand on."""


class _Request(Generic[Job]):
    """Jobs of one call, or one piece of work that needs a transaction of its own."""

    __slots__ = ("events", "future", "jobs", "size", "work")

    def __init__(self, jobs: Sequence[Job], events: int, size: int, work: Callable[[], Any] | None) -> None:
        self.jobs = jobs
        self.events = events
        self.size = size
        self.work = work
        self.future: AppendFuture[Any]


class GroupWriter(Generic[Job]):
    """Collects appends into batches for one engine. Thread-safe; unusable after a fork."""

    def __init__(self, engine: BatchEngine[Job], turn: Turn | None = None, *, wait_s: float = WAIT_S) -> None:
        self._engine = engine
        self._turn: Turn = turn or OpenTurn()
        self._wait_s = wait_s
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._wake = threading.Condition(self._mutex)
        self._space = threading.Condition(self._mutex)
        self._idle = threading.Condition(self._mutex)
        self._free = threading.Condition(self._mutex)
        self._queue: deque[_Request[Job]] = deque()
        self._queued_events = 0
        self._queued_bytes = 0
        self._leading = False
        self._resting = False
        self._closing = False
        self._thread: threading.Thread | None = None

    # ---- callers ---------------------------------------------------------------------------------------------

    def submit(
        self, jobs: Sequence[Job], events: int, size: int, *, block: bool = True
    ) -> AppendFuture[list[Outcome]]:
        """Have the jobs recorded in one commit (with others, if any wait).

        ``block=False`` is for callers who must not wait (an event loop): never commits in place, and a full
        queue refuses at once. Raises ``QueueFull``, ``StoreClosed`` or ``HandleForked``.
        """
        return self._enter(_Request(jobs, events, size, None), block=block)

    def call(self, work: Callable[[], T]) -> AppendFuture[T]:
        """Run ``work`` as the only writer, in the order of the queue; it makes its own transaction."""
        future: AppendFuture[T] = self._enter(_Request((), 1, 0, work), block=True)
        return future

    def close(self) -> bool:
        """Refuse new requests, finish those waiting and stop the thread; idempotent.

        False when that took longer than the deadline: then the engine and the turn may still be in use.
        """
        if self.foreign:
            return False
        deadline = time.monotonic() + self._wait_s
        with self._mutex:
            self._closing = True
            self._wake.notify()
            self._space.notify_all()
            while (self._queue or self._leading) and time.monotonic() < deadline:
                self._idle.wait(deadline - time.monotonic())
            left = self._take_all()
            idle, thread = not self._leading, self._thread
        _fail(left, StoreClosed("the store was closed before this append was recorded"))
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
            idle = idle and not thread.is_alive()
        return idle

    def rest(self, timeout_s: float) -> bool:
        """Before a fork: let nobody write until :meth:`resume`; False when somebody still did after this time."""
        until_s = time.monotonic() + timeout_s
        if self.foreign or not self._mutex.acquire(timeout=timeout_s):
            return False
        try:
            self._resting = True
            while self._leading:
                if not self._free.wait(max(0.0, until_s - time.monotonic())) and self._leading:
                    return False
            self._leading = True
            return True
        finally:
            self._resting = False
            self._mutex.release()

    def resume(self) -> None:
        """After a fork, in the parent, where :meth:`rest` said that nobody writes."""
        self._hand_over()

    @property
    def foreign(self) -> bool:
        """Whether this handle came into this process by fork."""
        return self._pid != os.getpid()

    def check_usable(self) -> None:
        """Raise ``HandleForked`` or ``StoreClosed`` when this handle must not be used."""
        if self._pid != os.getpid():
            raise HandleForked(
                f"this handle was opened by process {self._pid} and came into process {os.getpid()} by fork",
                opened_by=self._pid,
            )
        if self._closing:
            raise StoreClosed("the store is closed", hint="open the ledger again")

    def _enter(self, request: _Request[Job], *, block: bool) -> AppendFuture[Any]:
        self.check_usable()
        with self._mutex:
            lead = block and not self._leading and not self._queue and not self._closing
            if lead:
                self._leading = True
            else:
                request.future = AppendFuture(self._withdraw, self._wait_s)
                self._enqueue(request, block=block)
        return self._lead_once(request) if lead else request.future

    def _enqueue(self, request: _Request[Job], *, block: bool) -> None:
        if not self._has_room(request) and not (block and self._wait_for_room(request)):
            raise QueueFull(
                f"{self._queued_events} events ({self._queued_bytes} bytes) wait to be recorded"
                + (f" and the queue stayed full for {self._wait_s:g} s" if block else ""),
                queued_events=self._queued_events,
                queued_bytes=self._queued_bytes,
            )
        if self._closing:
            raise StoreClosed("the store is closed", hint="open the ledger again")
        self._put(request, self._queue.append)

    def _put(self, request: _Request[Job], put: Callable[[_Request[Job]], None]) -> None:
        put(request)
        self._queued_events += request.events
        self._queued_bytes += request.size
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="counterfoil-writer", daemon=True)
            self._thread.start()
        elif not self._leading:
            self._wake.notify()

    def _has_room(self, request: _Request[Job]) -> bool:
        # A request larger than the whole queue must pass some time: alone.
        return not self._queue or (
            self._queued_events + request.events <= QUEUE_EVENTS_MAX
            and self._queued_bytes + request.size <= QUEUE_BYTES_MAX
        )

    def _wait_for_room(self, request: _Request[Job]) -> bool:
        return self._space.wait_for(lambda: self._closing or self._has_room(request), self._wait_s)

    def _withdraw(self, future: AppendFuture[Any]) -> CounterfoilError | None:
        """Take a request that nobody has begun out of the queue; the error to tell its caller, None if begun."""
        with self._mutex:
            waiting = [request for request in self._queue if request.future is future]
            if not waiting:
                return None
            self._queue.remove(waiting[0])
            self._release_room(waiting)
        return StoreBusy(
            f"another process or thread has held the store for {self._wait_s:g} s; nothing of this append is recorded"
        )

    # ---- whoever writes --------------------------------------------------------------------------------------

    def _lead_once(self, request: _Request[Job]) -> AppendFuture[Any]:
        """Commit the caller's own request in its own thread, if the turn is free right now."""
        try:
            taken = self._turn.try_take()
        except BaseException:
            self._hand_over()
            raise
        if not taken:
            request.future = AppendFuture(self._withdraw, self._wait_s)
            with self._mutex:
                self._put(request, self._queue.appendleft)
            self._hand_over()
            return request.future
        try:
            return answered(self._answers((request,))[0])
        except Exception as error:  # noqa: BLE001 - the answer to this request; an interrupt goes its own way
            failed: AppendFuture[Any] = AppendFuture(self._withdraw, self._wait_s)
            failed.set_exception(_as_ours(error))
            return failed
        finally:
            self._turn.give()
            self._hand_over()

    def _hand_over(self) -> None:
        with self._mutex:
            self._leading = False
            if self._resting:
                self._free.notify_all()
            if self._queue:
                self._wake.notify()
            elif self._closing:
                self._wake.notify()
                self._idle.notify_all()

    def _run(self) -> None:
        while self._wait_for_work():
            try:
                self._turn.take()
            except Exception as error:  # noqa: BLE001 - whatever the lock says, those who wait must hear it
                self._fail_waiting(error)
                continue
            with self._mutex:
                batch = self._take_batch()
            self._commit_holding_turn(batch)

    def _wait_for_work(self) -> bool:
        with self._mutex:
            while self._leading or not self._queue:
                if self._closing and not self._leading:
                    self._idle.notify_all()
                    return False
                self._wake.wait()
            self._leading = True
            return True

    def _fail_waiting(self, error: Exception) -> None:
        with self._mutex:
            waiting = self._take_all()
        _fail(waiting, _as_ours(error))
        self._hand_over()

    def _take_batch(self) -> list[_Request[Job]]:
        """The oldest requests within the bounds of a batch; work that needs its own transaction comes alone."""
        batch: list[_Request[Job]] = []
        events = size = 0
        while self._queue:
            request = self._queue[0]
            events += request.events
            size += request.size
            crowded = events > BATCH_EVENTS_MAX or size > BATCH_BYTES_MAX or request.work is not None
            if batch and crowded:
                break
            batch.append(self._queue.popleft())
            if request.work is not None:
                break
        self._release_room(batch)
        return batch

    def _take_all(self) -> list[_Request[Job]]:
        taken = list(self._queue)
        self._queue.clear()
        self._release_room(taken)
        return taken

    def _release_room(self, requests: Sequence[_Request[Job]]) -> None:
        for request in requests:
            self._queued_events -= request.events
            self._queued_bytes -= request.size
        self._space.notify_all()

    def _commit_holding_turn(self, batch: Sequence[_Request[Job]]) -> None:
        """Commit, hand the turn on, answer. Whatever happens, the turn is given and everybody is answered."""
        answers: list[Any] = []
        failure: BaseException | None = None
        try:
            answers = self._answers(batch)
        except BaseException as error:  # noqa: BLE001 - passed to every waiting future, and raised again below
            failure = error
        finally:
            self._turn.give()
            self._hand_over()
        if failure is not None:
            _fail(batch, _as_ours(failure))
        else:
            answer([request.future for request in batch], lambda future, n: future.set_result(answers[n]))
        if failure is not None and not isinstance(failure, Exception):
            raise failure

    def _answers(self, batch: Sequence[_Request[Job]]) -> list[Any]:
        if not batch:
            return []
        if batch[0].work is not None:
            return [batch[0].work()]
        if len(batch) == 1:
            return [self._engine.commit(batch[0].jobs)]
        outcomes = self._engine.commit([job for request in batch for job in request.jobs])
        answers, start = [], 0
        for request in batch:
            answers.append(outcomes[start : start + len(request.jobs)])
            start += len(request.jobs)
        return answers


def _fail(requests: Sequence[_Request[Any]], error: BaseException) -> None:
    answer([request.future for request in requests], lambda future, _: future.set_exception(error))


def _as_ours(error: BaseException) -> BaseException:
    return as_ours(error) if isinstance(error, Exception) else error
