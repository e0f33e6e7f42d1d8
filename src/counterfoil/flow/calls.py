"""Running blocking user code with a deadline: daemon threads that are kept and handed the next call."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from counterfoil.flow.requests import CallResult, Raised, Returned, TimedOut

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

IDLE_THREADS_MAX = 32
"""Threads kept for the next call; more are made when needed and end after their call."""


class Started:
    """One call that is under way.

    Whoever waits does so on a bare lock: a Future costs a condition, and with it twice as long as the hand-over
    itself. A Future is made only for who comes for the answer later.
    """

    __slots__ = ("_args", "_context", "_ended", "_fn", "_kwargs", "_late", "result")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._context = contextvars.copy_context()
        self._fn, self._args, self._kwargs = fn, args, kwargs
        self._late: Future[Any] | None = None
        self.result: Returned | Raised | None = None
        self._ended = threading.Lock()
        self._ended.acquire()

    def run(self) -> None:
        """Call it, and keep what it returns or raises."""
        try:
            self.result = Returned(self._context.run(self._fn, *self._args, **self._kwargs))
        except BaseException as error:
            self.result = Raised(error)

    def wait(self, timeout_s: float) -> None:
        """Return when the call has ended, or after so many seconds."""
        self._ended.acquire(timeout=max(0.0, timeout_s))

    @property
    def has_future(self) -> bool:
        """Whether somebody may come for the answer later."""
        return self._late is not None

    def tell(self) -> None:
        """Wake who waits and settle the future of who comes later."""
        self._ended.release()
        self._settle()

    def later(self) -> Future[Any]:
        """A future that cannot be cancelled and ends as the call does; also when it has ended by now."""
        late = self._late
        if late is None:
            late = Future()
            late.set_running_or_notify_cancel()
            self._late = late
        # The call sets its result, then looks for a future; here it is the other way round, so one of both sees both.
        self._settle()
        return late

    def _settle(self) -> None:
        late, result = self._late, self.result
        if late is None or result is None:
            return
        with suppress(InvalidStateError):
            if isinstance(result, Returned):
                late.set_result(result.value)
            else:
                late.set_exception(result.error)


class _Worker:
    """A daemon thread and the place where its next call is put."""

    __slots__ = ("_call", "_go")

    def __init__(self, call: Started) -> None:
        self._call: Started | None = call
        self._go = threading.Lock()
        threading.Thread(target=self._run, name="counterfoil-call", daemon=True).start()

    def take(self, call: Started) -> None:
        """The next call; only for a worker that is idle."""
        self._call = call
        self._go.release()

    def _run(self) -> None:
        while True:
            self._go.acquire()
            call, self._call = self._call, None
            assert call is not None, "a worker is woken with a call"
            call.run()
            # Idle before who waits is told, so that calls in a row find this thread again; but what hangs on a future
            # may take its time, and nobody may be handed this thread meanwhile.
            if call.has_future:
                call.tell()
                kept = self._rest()
            else:
                kept = self._rest()
                call.tell()
            del call
            if not kept:
                return

    def _rest(self) -> bool:
        """Wait for the next call, unless enough threads wait already."""
        if len(_idle) >= IDLE_THREADS_MAX:
            return False
        _idle.append(self)
        return True


# Without a lock: append and pop of a list are one step each, and a thread too many does no harm.
_idle: list[_Worker] = []

# After a fork, in the child, the threads are the parent's.
os.register_at_fork(after_in_child=_idle.clear)


def call_in_thread(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], timeout_s: float
) -> CallResult:
    """Call ``fn`` in another thread with this context copied, and wait at most ``timeout_s`` seconds.

    Python cannot stop a thread, so a call that outlives its deadline, or a caller that is interrupted, runs on as a
    daemon and its end is handed out as ``late``.
    """
    call = Started(fn, args, kwargs)
    try:
        # Inside, so that an interrupt never loses sight of a call that has just begun.
        _start(call)
        call.wait(timeout_s)
    except BaseException as interrupt:
        return Raised(interrupt, call.later())
    return call.result or TimedOut(call.later())


def start_in_thread(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Future[Any]:
    """Call ``fn`` in another thread with this context copied; the future cannot be cancelled."""
    call = Started(fn, args, kwargs)
    future = call.later()
    _start(call)
    return future


def _start(call: Started) -> None:
    try:
        worker = _idle.pop()
    except IndexError:
        _Worker(call)
    else:
        worker.take(call)


def awaitable(future: Future[Any]) -> asyncio.Future[Any]:
    """``future`` for the running event loop. Cancelling it changes nothing about the call; the loop may end first."""
    import asyncio

    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[Any] = loop.create_future()

    def hand_on() -> None:
        if waiter.cancelled():
            return
        failure = future.exception()
        if failure is None:
            waiter.set_result(future.result())
        else:
            waiter.set_exception(failure)
            # A waiter that was given up is nobody's to retrieve, and asyncio need not complain about it.
            waiter.exception()

    def ended(_: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(hand_on)

    future.add_done_callback(ended)
    return waiter


async def off_the_loop(fn: Callable[..., T], *args: Any) -> T:
    """What ``fn`` returns or raises, called in another thread: for what may wait for a disk, a server or a lock.

    It is waited for to its end: whoever cancels the waiting task is heard at the task's next pause, since what was
    asked of a store happens all the same, and its answer must not be lost.
    """
    import asyncio

    work = awaitable(start_in_thread(fn, args, {}))
    interrupted = False
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            interrupted = True
    task = asyncio.current_task()
    if interrupted and task is not None:
        # The number of cancellations stays what it is, so that whoever counts them (asyncio.timeout) is not misled.
        task.uncancel()
        task.cancel()
    answer: T = work.result()
    return answer


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns or raises, run to its end whoever cancels meanwhile; a cancellation is raised afterwards."""
    import asyncio

    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except BaseException:
            break
    if cancelled is not None and not task.cancelled() and task.exception() is None:
        raise cancelled
    return task.result()


def late_future(work: asyncio.Future[Any]) -> Future[Any]:
    """A thread-safe future that ends as ``work`` ends; ``work`` keeps running."""
    import asyncio

    late: Future[Any] = Future()

    def ended(done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            late.set_exception(asyncio.CancelledError())
        elif (failure := done.exception()) is not None:
            late.set_exception(failure)
        else:
            late.set_result(done.result())

    work.add_done_callback(ended)
    return late
