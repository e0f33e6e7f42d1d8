"""Running blocking user code with a deadline: daemon threads that are kept and handed the next call."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
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

    Python cannot stop a thread, so a call that outlives its deadline runs on as a daemon and its end is handed
    out as ``TimedOut.late``.
    """
    future: Future[Any] = Future()
    _hand_over((contextvars.copy_context(), fn, args, kwargs, future))
    try:
        failure = future.exception(timeout_s)
    except FutureTimeout:
        return TimedOut(future)
    return Raised(failure) if failure is not None else Returned(future.result())


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
