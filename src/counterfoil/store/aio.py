"""Appending from asyncio: callers of one loop iteration become one append, woken once per loop and batch.

Cancelling an awaiter never cancels its append: the units were handed over, and their outcome is on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from counterfoil.errors import AppendTimeout, CounterfoilError, QueueFull
from counterfoil.store.contract import Store
from counterfoil.store.future import AppendFuture, as_ours
from counterfoil.store.unit import Outcome, Unit
from counterfoil.store.writer import BATCH_EVENTS_MAX, QUEUE_EVENTS_MAX, WAIT_S

if TYPE_CHECKING:
    import asyncio

IN_FLIGHT_MAX: Final = 2
"""Appends of one loop that the store holds at a time: one being committed, one to follow it at once."""
RETRY_S: Final = 0.01
"""Pause before a full queue of the store is tried again."""


class _Call(Struct):
    """One awaiter with its units and where its outcomes begin in the append that carries them."""

    units: Sequence[Unit]
    events: int
    waiter: asyncio.Future[list[Outcome]]


class _LoopState(Struct):
    """What one event loop has pending. Touched by that loop's thread only."""

    loop: asyncio.AbstractEventLoop
    pending: deque[_Call] = field(default_factory=deque)
    pending_events: int = 0
    in_flight: int = 0
    scheduled: bool = False
    full_since: float | None = None


class AsyncAppender:
    """Appends to a store from tasks of any number of event loops."""

    def __init__(self, store: Store, *, wait_s: float = WAIT_S) -> None:
        self._store = store
        self._wait_s = wait_s
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState] = WeakKeyDictionary()

    async def append(self, units: Sequence[Unit]) -> list[Outcome]:
        """Record independent units; one outcome for each in order. See ``Store.append``.

        Raises ``QueueFull`` when the store could not take them within the deadline, and ``AppendTimeout`` when it
        did not answer within it; cancelling the caller changes nothing about the append.
        """
        if not units:
            return []
        state = self._state()
        events = sum(unit.event_count for unit in units)
        if state.pending and state.pending_events + events > QUEUE_EVENTS_MAX:
            raise QueueFull(
                f"{state.pending_events} events of this event loop wait to be recorded",
                queued_events=state.pending_events,
            )
        call = _Call(units, events, state.loop.create_future())
        state.pending.append(call)
        state.pending_events += events
        self._schedule(state)
        return await call.waiter

    def _state(self) -> _LoopState:
        import asyncio

        loop = asyncio.get_running_loop()
        state = self._loops.get(loop)
        if state is None:
            state = self._loops[loop] = _LoopState(loop)
        return state

    def _schedule(self, state: _LoopState, delay_s: float = 0.0) -> None:
        if state.scheduled or not state.pending or state.in_flight >= IN_FLIGHT_MAX:
            return
        state.scheduled = True
        if delay_s:
            state.loop.call_later(delay_s, self._send, state)
        else:
            state.loop.call_soon(self._send, state)

    def _send(self, state: _LoopState) -> None:
        """Hand the callers gathered so far to the store as one append."""
        state.scheduled = False
        calls = _take(state)
        if not calls:
            return
        units = [unit for call in calls for unit in call.units]
        try:
            future = self._store.append(units)
        except QueueFull as error:
            self._wait_for_room(state, calls, error)
            return
        except CounterfoilError as error:
            _fail(calls, error)
            return
        state.full_since = None
        state.in_flight += 1
        self._await_answer(state, calls, future)
        self._schedule(state)

    def _wait_for_room(self, state: _LoopState, calls: Sequence[_Call], error: QueueFull) -> None:
        now = state.loop.time()
        if state.full_since is None:
            state.full_since = now
        if now - state.full_since > self._wait_s:
            state.full_since = None
            _fail(calls, error)
        else:
            state.pending.extendleft(reversed(calls))
            state.pending_events += sum(call.events for call in calls)
        self._schedule(state, RETRY_S)

    def _await_answer(self, state: _LoopState, calls: Sequence[_Call], future: Future[list[Outcome]]) -> None:
        timer = state.loop.call_later(self._wait_s, self._late, state, calls, future)

        def deliver() -> None:
            timer.cancel()
            state.in_flight -= 1
            _deliver(calls, future)
            self._schedule(state)

        def answered(_: Future[list[Outcome]]) -> None:
            # Called in the writer's thread. A loop that has been closed has nobody left to tell.
            if not state.loop.is_closed():
                state.loop.call_soon_threadsafe(deliver)

        if future.done():
            state.loop.call_soon(deliver)
        else:
            future.add_done_callback(answered)

    def _late(self, state: _LoopState, calls: Sequence[_Call], future: Future[list[Outcome]]) -> None:
        """The deadline: withdraw what nobody has begun, otherwise say that the outcome is unknown."""
        if future.done() or (isinstance(future, AppendFuture) and future.give_up()):
            return
        _fail(
            calls,
            AppendTimeout(f"the append was not answered within {self._wait_s:g} s; its outcome is unknown"),
        )
        # The slot is freed when the answer comes; until then the others have the remaining one.
        self._schedule(state)


def _take(state: _LoopState) -> list[_Call]:
    """Callers up to one batch of the writer; one that is larger goes alone."""
    taken: list[_Call] = []
    events = 0
    while state.pending:
        events += state.pending[0].events
        if taken and events > BATCH_EVENTS_MAX:
            break
        taken.append(state.pending.popleft())
    state.pending_events -= sum(call.events for call in taken)
    return taken


def _deliver(calls: Sequence[_Call], future: Future[list[Outcome]]) -> None:
    error = future.exception()
    if error is not None:
        _fail(calls, as_ours(error))
        return
    outcomes, start = future.result(), 0
    for call in calls:
        end = start + len(call.units)
        if not call.waiter.done():
            call.waiter.set_result(outcomes[start:end])
        start = end


def _fail(calls: Sequence[_Call], error: CounterfoilError) -> None:
    for call in calls:
        if not call.waiter.done():
            call.waiter.set_exception(error)
