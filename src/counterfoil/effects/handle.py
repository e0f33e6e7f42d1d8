"""How the caller of an async tool reaches the perform that runs as a task of its own: it may leave, not stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar, Token
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from counterfoil.flow.lanes import in_main_lane
from counterfoil.flow.loops import running_loop
from counterfoil.flow.requests import Call, Flow, Wait

if TYPE_CHECKING:
    import asyncio

    from counterfoil.effects.attempt import Work
    from counterfoil.flow.context import RunScope

_performing: ContextVar[tuple[Handle, ...]] = ContextVar("counterfoil_performing", default=())


class Handle:
    """One perform as its caller sees it.

    A perform belongs to the run, not to the caller's task (DESIGN 7): cancelling the caller never tears it down in
    the middle of an append. While it waits for the outside it is told, records that the outcome is unknown and ends;
    everywhere else it sees ``left`` before it begins the next thing.
    """

    __slots__ = ("_waiting", "in_main_lane", "landing", "left", "outer", "own_task", "unrecorded")

    def __init__(self, *, own_task: bool = False) -> None:
        self.left: bool = False
        self.own_task: bool = own_task
        """Whether the perform is a task of its own, so that its waiting holds up nobody."""
        self.outer: tuple[Handle, ...] = _performing.get()
        """The performs whose tools this call was made from."""
        self._waiting = False
        self.unrecorded: Work | None = None
        """What would have been done, if the ledger could have recorded the intention."""
        self.in_main_lane: bool = in_main_lane()
        """Whether the call was made where order means something: there it is also known by its place."""
        self.landing: Callable[[], None] | None = None
        """Ends the run's count of this call; taken over by whoever goes on watching it."""

    def at_work(self, scope: RunScope, what: str) -> AtWork:
        """A block of the run's that counts as a call in flight; what is called inside was called from this perform."""
        return AtWork(self, scope, what)

    def take_over(self) -> Callable[[], None] | None:
        """The call's landing, for whoever goes on watching it: the end of its block no longer ends the count."""
        landing, self.landing = self.landing, None
        return landing

    def may_wait_for(self, others: Iterable[Handle]) -> bool:
        """Whether waiting for these performs can end.

        It cannot from inside the tool of one of them, nor where it would hold up the event loop they may need.
        """
        if not set(self.outer).isdisjoint(others):
            return False
        return self.own_task or running_loop() is None

    def interruptibly(self, request: Call | Wait) -> Flow[Any]:
        """Yield a request during which the caller may leave at once."""
        self._waiting = True
        try:
            return (yield request)
        finally:
            self._waiting = False

    def leave(self, task: asyncio.Task[Any]) -> None:
        """The caller was cancelled: interrupt ``task`` if it waits for the outside, and let it end by itself."""
        self.left = True
        if self._waiting:
            task.cancel()
        task.add_done_callback(_seen)


class AtWork:
    """See :meth:`Handle.at_work`. A class, because every effect makes one and generators take three times as long."""

    __slots__ = ("_handle", "_scope", "_token", "_what")

    def __init__(self, handle: Handle, scope: RunScope, what: str) -> None:
        self._handle = handle
        self._scope = scope
        self._what = what
        self._token: Token[tuple[Handle, ...]]

    def __enter__(self) -> None:
        handle, scope = self._handle, self._scope
        scope.take_off(self._what)
        handle.landing = partial(scope.land, self._what)
        self._token = _performing.set((*handle.outer, handle))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _performing.reset(self._token)
        landing = self._handle.take_over()
        if landing is not None:
            landing()


def _seen(task: asyncio.Task[Any]) -> None:
    # The caller is gone: what the task raised is in the ledger, and asyncio need not complain that nobody looked.
    if not task.cancelled():
        task.exception()
