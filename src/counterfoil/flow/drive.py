"""The two drivers, ``drive`` for threads and ``adrive`` for tasks: the only orchestration written twice."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol, TypeVar, assert_never

from counterfoil.errors import InputError
from counterfoil.flow.calls import awaitable, call_in_thread, late_future, off_the_loop, start_in_thread
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import (
    Append,
    Call,
    CallResult,
    Flow,
    NewId,
    Now,
    PutArtifact,
    Raised,
    Random,
    Read,
    Release,
    Renew,
    Request,
    Returned,
    TimedOut,
    Wait,
)
from counterfoil.store.unit import Claimed, Receipt

T = TypeVar("T")


class Watcher(Protocol):
    """Sees every request of the flows driven in its context. What it raises is not thrown into the flow.

    The flow is left where it stands instead, as it is when its process dies: this is how the crash matrix stops a
    flow before and after every request (DESIGN 5).
    """

    def before(self, request: Request) -> None:
        """The request is about to be carried out."""
        ...

    def after(self, request: Request) -> None:
        """The request was carried out, or failed; the flow has not seen the answer."""
        ...


_watcher: ContextVar[Watcher | None] = ContextVar("counterfoil_watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Show ``watcher`` every request of the flows driven inside, in this context and those copied from it."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def drive(flow: Flow[T], ports: Ports) -> T:
    """Run a flow to its end on this thread and return its result.

    Errors of an answer are thrown into the flow at its yield, so that it may record them or give up.
    """
    watcher = _watcher.get()
    try:
        request = next(flow)
        while True:
            if watcher is not None:
                watcher.before(request)
            try:
                answer = _answer(request, ports)
            except BaseException as error:
                if watcher is not None:
                    watcher.after(request)
                request = flow.throw(error)
            else:
                if watcher is not None:
                    watcher.after(request)
                request = flow.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def adrive(flow: Flow[T], ports: Ports) -> T:
    """Run a flow to its end in this task and return its result. Blocking user code goes to a thread."""
    watcher = _watcher.get()
    try:
        request = next(flow)
        while True:
            if watcher is not None:
                watcher.before(request)
            try:
                answer = await _aanswer(request, ports)
            except BaseException as error:
                if watcher is not None:
                    watcher.after(request)
                request = flow.throw(error)
            else:
                if watcher is not None:
                    watcher.after(request)
                request = flow.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def _answer(request: Request, ports: Ports) -> Any:
    match request:
        case Append():
            return _noted(request, ports.append(request.unit, request.claim))
        case Read():
            return ports.read(request.query)
        case Call():
            return _call(request)
        case PutArtifact():
            return ports.put_artifact(request)
        case Wait():
            if request.polling:
                time.sleep(request.seconds)
            return ports.sleep(request.seconds)
        case Renew():
            return request.holder.hold_lease(request.until_ms)
        case Release():
            return ports.release(request.lease)
        case Now() | NewId() | Random():
            return _local(request, ports)
        case _:
            assert_never(request)


async def _aanswer(request: Request, ports: Ports) -> Any:
    import asyncio

    match request:
        case Append():
            return _noted(request, await ports.aappend(request.unit, request.claim))
        case Read():
            return await ports.aread(request.query)
        case Call():
            return await _acall(request)
        case PutArtifact():
            # Files are read, written and synced: the event loop does not wait for that.
            return await asyncio.to_thread(ports.put_artifact, request)
        case Wait():
            if request.polling:
                await asyncio.sleep(request.seconds)
            return await ports.asleep(request.seconds)
        case Renew():
            return await off_the_loop(request.holder.hold_lease, request.until_ms)
        case Release():
            return await off_the_loop(ports.release, request.lease)
        case Now() | NewId() | Random():
            return _local(request, ports)
        case _:
            assert_never(request)


def _noted(request: Append, answer: Receipt | Claimed) -> Receipt | Claimed:
    if request.noted is not None:
        request.noted(answer)
    return answer


def _local(request: Now | NewId | Random, ports: Ports) -> Any:
    match request:
        case Now():
            return ports.now_ms()
        case NewId():
            return ports.new_id(request.prefix)
        case Random():
            return ports.random_bits(request.bits)
        case _:
            assert_never(request)


def _call(request: Call) -> CallResult:
    if inspect.iscoroutinefunction(request.fn):
        return Raised(
            InputError(
                f"{request.name} is an async function and was called in a sync run",
                hint="use `async with ledger.run(...)`, or declare a plain function",
            )
        )
    try:
        if request.timeout_s is None:
            return Returned(request.fn(*request.args, **request.kwargs))
        return call_in_thread(request.fn, request.args, request.kwargs, request.timeout_s)
    except BaseException as error:
        return Raised(error)


async def _acall(request: Call) -> CallResult:
    """Await async code as a task of its own, or run blocking code in a thread; give up after the timeout.

    Whoever cancels this task gets it back. Code that runs on all the same is handed out as ``late``.
    """
    import asyncio

    late: Callable[[], Future[Any]]
    if inspect.iscoroutinefunction(request.fn):
        work: asyncio.Future[Any] = asyncio.ensure_future(request.fn(*request.args, **request.kwargs))
        late = partial(late_future, work)
    else:
        thread = start_in_thread(request.fn, request.args, request.kwargs)
        work = awaitable(thread)
        late = partial(_same, thread)
    try:
        done, _ = await asyncio.wait({work}, timeout=request.timeout_s)
    except asyncio.CancelledError as error:
        if not work.done():
            if request.shielded:
                return Raised(error, late())
            work.cancel()
            return Raised(error)
        # The answer was there before the interruption was seen: it is the answer.
        done = {work}
    if not done:
        return TimedOut(late())
    failure = asyncio.CancelledError() if work.cancelled() else work.exception()
    return Raised(failure) if failure is not None else Returned(work.result())


def _same(future: Future[Any]) -> Future[Any]:
    return future
