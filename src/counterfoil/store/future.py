"""The future an append returns: a wait that ends by a deadline, and wakers that come in a chain.

Sixty threads woken at once would all want the interpreter lock, and the writer, who needs it several times in each
batch, would queue behind them. So the writer wakes the first waiter of a batch, and each waiter wakes the next
before it goes on; one that gives up passes it on too (DESIGN 4).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import Any, Final, TypeVar, cast

from counterfoil.errors import AppendTimeout, CounterfoilError, InternalError

T = TypeVar("T")

PASSED_ON_S: Final = 5.0
"""The longest a waiter that leaves in a hurry stays to pass the chain on."""


class AppendFuture(Future[T]):
    """An answer to come. Waiting without a timeout ends by the writer's own deadline, never in silence.

    ``withdraw`` takes a request that nobody has begun back and returns the error to tell, None if it has begun.
    """

    def __init__(
        self, withdraw: Callable[[AppendFuture[Any]], CounterfoilError | None], wait_s: float
    ) -> None:
        super().__init__()
        self._withdraw = withdraw
        self._wait_s = wait_s
        self._gate: threading.Lock | None = None
        self._next: AppendFuture[Any] | None = None

    def result(self, timeout: float | None = None) -> T:
        """The outcome.

        Without ``timeout``: after the writer's deadline a request nobody has begun is withdrawn and raises
        ``StoreBusy`` (nothing is recorded); one that is being recorded raises ``AppendTimeout`` after the same
        time again. With ``timeout``: plain ``TimeoutError``, and the append goes on.
        """
        if self._state == "FINISHED" and self._exception is None:
            # As most are when they are asked: without the lock, which nothing changes any more.
            answer: Any = self._result
            return cast("T", answer)
        if (
            timeout is None
            and not self.done()
            and not self._wait()
            and not self.give_up()
            and not self._wait()
        ):
            raise AppendTimeout(
                f"the append was not answered within {2 * self._wait_s:g} s; its outcome is unknown"
            )
        return super().result(timeout)

    def give_up(self) -> bool:
        """Withdraw a request that nobody has begun, failing it with ``StoreBusy``; whether it was withdrawn."""
        error = self._withdraw(self)
        if error is not None:
            self.set_exception(error)
        return error is not None

    def cancel(self) -> bool:
        """Refused: cancelling an awaiter never cancels its append (DESIGN 4)."""
        return False

    def _wait(self) -> bool:
        """Wait in the chain until the answer is there; False after the deadline."""
        with self._condition:
            if self.done():
                return True
            if self._gate is not None:
                # Another thread waits on this future already; the chain has one place for it.
                return self._condition.wait_for(self.done, self._wait_s)
            gate = self._gate = threading.Lock()
            gate.acquire()
        woken = False
        try:
            woken = gate.acquire(timeout=self._wait_s)
            return woken or self.done()
        finally:
            self._leave(gate, woken=woken)

    def _leave(self, gate: threading.Lock, *, woken: bool) -> None:
        with self._condition:
            answered = self.done()
            if not answered:
                self._gate = None
        if answered and (woken or gate.acquire(timeout=PASSED_ON_S)):
            following, self._next = self._next, None
            if following is not None:
                following.wake()

    @property
    def has_waiter(self) -> bool:
        """Whether a thread waits here for its place in the chain."""
        return self._gate is not None

    def follow(self, following: AppendFuture[Any]) -> None:
        """Have ``following`` woken after this one."""
        self._next = following

    def wake(self) -> None:
        """Let the thread that waits here go on; it wakes the next."""
        if self._gate is not None:
            self._gate.release()


_SHARED = threading.Condition()
"""Of all futures that were answered before anybody saw them: nobody will ever wait on it."""

# A thread of the parent may have held it at the moment of a fork.
os.register_at_fork(after_in_child=lambda: threading.Condition.__init__(_SHARED))


def answered(value: T) -> AppendFuture[T]:
    """A future that has its answer. Made without the lock and the condition that a lone append has no use for."""
    future: AppendFuture[T] = AppendFuture.__new__(AppendFuture)
    # What Future.__init__ sets, for the state it ends in.
    future.__dict__ = {
        "_condition": _SHARED,
        "_state": "FINISHED",
        "_result": value,
        "_exception": None,
        "_waiters": [],
        "_done_callbacks": [],
    }
    return future


def answer(futures: Sequence[AppendFuture[Any]], settle: Callable[[AppendFuture[Any], int], None]) -> None:
    """Settle every future, then wake the first of those somebody waits for; the others follow in a chain."""
    for index, future in enumerate(futures):
        settle(future, index)
    # A future gets its gate under the lock it is settled under, so from here on none appears.
    waited = [future for future in futures if future.has_waiter]
    for future, following in pairwise(waited):
        future.follow(following)
    if waited:
        waited[0].wake()


def as_ours(error: BaseException) -> CounterfoilError:
    """An error of our tree as it is; any other is a fault of ours, which names itself."""
    if isinstance(error, CounterfoilError):
        return error
    # What it says may repeat what was being written; that stays with the cause (FORMAT 11).
    wrapped = InternalError(f"the writer met {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped
