"""Running blocking user code with a deadline: daemon threads that are kept and handed the next call."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from counterfoil.flow.requests import CallResult, Raised, Returned, TimedOut

IDLE_THREADS_MAX = 32
"""Threads kept for the next call; more are made when needed and end after their call."""

_Job = tuple[contextvars.Context, Callable[..., Any], tuple[Any, ...], Mapping[str, Any], "Future[Any]"]

_idle: list[SimpleQueue[_Job]] = []
_idle_lock = threading.Lock()


def call_in_thread(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], timeout_s: float
) -> CallResult:
    """Call ``fn`` in another thread with this context copied, and wait at most ``timeout_s`` seconds.

    Python cannot stop a thread, so a call that outlives its deadline, or a caller that is interrupted, runs on as a
    daemon and its end is handed out as ``late``.
    """
    future: Future[Any] = Future()
    try:
        # Inside, so that an interrupt never loses sight of a call that has just begun.
        _start(future, fn, args, kwargs)
        failure = future.exception(timeout_s)
    except FutureTimeout:
        return TimedOut(future)
    except BaseException as interrupt:
        return Raised(interrupt, future)
    return Raised(failure) if failure is not None else Returned(future.result())


def start_in_thread(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Future[Any]:
    """Call ``fn`` in another thread with this context copied; the future cannot be cancelled."""
    future: Future[Any] = Future()
    _start(future, fn, args, kwargs)
    return future


def _start(
    future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    future.set_running_or_notify_cancel()
    _hand_over((contextvars.copy_context(), fn, args, kwargs, future))


def _hand_over(job: _Job) -> None:
    with _idle_lock:
        queue = _idle.pop() if _idle else None
    if queue is None:
        queue = SimpleQueue()
        threading.Thread(target=_work, args=(queue,), name="counterfoil-call", daemon=True).start()
    queue.put(job)


def _work(queue: SimpleQueue[_Job]) -> None:
    while True:
        context, fn, args, kwargs, future = queue.get()
        try:
            result = context.run(fn, *args, **kwargs)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        del context, fn, args, kwargs, future
        with _idle_lock:
            if len(_idle) >= IDLE_THREADS_MAX:
                return
            _idle.append(queue)


def awaitable(future: Future[Any]) -> asyncio.Future[Any]:
    """``future`` for the running event loop. Cancelling it changes nothing about the call; the loop may end first."""
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


def late_future(work: asyncio.Future[Any]) -> Future[Any]:
    """A thread-safe future that ends as ``work`` ends; ``work`` keeps running."""
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
