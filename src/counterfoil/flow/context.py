"""The run that the calling code is inside of: its lease, its latch, its occurrence counters, its calls in flight.

``runtime`` makes a :class:`RunScope` and enters it; ``effects`` and ``approvals`` see only this, never ``runtime``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from typing import Any, TypeVar

from counterfoil.abc.policy import Policy
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.errors import Fenced, LeaseLost, NoRun, RunCancelled, RunClosed, RunSuspended
from counterfoil.flow.event import Event
from counterfoil.flow.outside import CANCELLING, Outside
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Events, Flow, HeadOf, Read, Renew
from counterfoil.store.unit import Head, Lease

T = TypeVar("T")

LEASE_TTL_MS = 30_000
LEASE_RENEW_MS = 10_000
LEASE_MARGIN_MS = 5_000
"""Left of the lease when the last answer of a call may arrive, so that it can still be recorded."""

_current: ContextVar[RunScope | None] = ContextVar("counterfoil_run", default=None)
_path: ContextVar[str] = ContextVar("counterfoil_step_path", default="")


class RunScope:
    """One entry into a run by one worker.

    ``history`` is what the ledger already held of this run when it was entered, in order; ``part`` gives feature
    packages a place of their own for what they make of it. ``terminal`` is set when the run has ended and only its
    record is handed out; ``deadline_ms`` is when the run may start nothing more, ``seen`` the sequence of the last event
    that this entry has recorded. All methods may be called from any thread.
    """

    def __init__(
        self,
        ports: Ports,
        *,
        stream_id: str,
        run_id: str,
        agent: str,
        lease: Lease,
        asynchronous: bool = False,
        agent_version: str | None = None,
        history: Sequence[Event] = (),
        terminal: str | None = None,
        deadline_ms: int | None = None,
        policy: Policy | None = None,
        seen: int | None = None,
    ) -> None:
        self.ports = ports
        self.stream_id = stream_id
        self.run_id = run_id
        self.agent = agent
        self.asynchronous = asynchronous
        self.history = history
        self.terminal = terminal
        self.deadline_ms = deadline_ms
        self.policy: Policy | None = policy
        self.bound: Callable[[], None] | None = None
        """What else the run is held to, asked at each :meth:`check`; it raises what it has latched."""
        self.outside: Outside = Outside(stream_id, seen)
        self.actor: Mapping[str, str] = {"type": "agent", "id": agent} | (
            {"identity_version": agent_version} if agent_version else {}
        )
        self._lease = lease
        self._latch: BaseException | None = None
        self._cancelled: RunCancelled | None = None
        self._closed = False
        self._occurrences: dict[tuple[str, str, str], int] = {}
        self._returned: dict[tuple[str, str, str], set[int]] = {}
        self._parts: dict[Any, Any] = {}
        self._flights: set[str] = set()
        self._idle_calls: list[Callable[[], None]] = []
        self._waiting = 0
        # One lock under two names: what only looks or counts takes the bare one, which is a call less each way.
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._renewing = threading.Lock()

    # ---- may this run go on? ----

    def check(self, *, approved: bool = False) -> None:
        """Raise what ended or parked this run; returns when it may start something new.

        A suspension is sticky: every later call of the run raises it again (DESIGN 7). A call that was under way
        when another one began to wait for an approval still asks for its own, and is made if it has been ``approved``.
        """
        if self._closed:
            raise RunClosed(
                f"run {self.run_id} has ended",
                hint="open a new run, or do this before the block ends",
                run_id=self.run_id,
            )
        if self._latch is not None and not (approved and _waits_for_approval(self._latch)):
            raise self._latch
        if self.outside.unlooked is not None:
            self.check_cancelled()
        if self.deadline_ms is not None and self.ports.now_ms() >= self.deadline_ms:
            raise self.latch(
                RunCancelled(f"the deadline of run {self.run_id} has passed", terminal="timeout")
            )
        if self.bound is not None:
            self.bound()

    def frontier(self, what: str, *, approved: bool = False) -> None:
        """As :meth:`check`, for something the record does not hold: an ended run does nothing new (DESIGN 6)."""
        self.check(approved=approved)
        if self.terminal is not None:
            raise RunClosed(
                f"run {self.run_id} ended as {self.terminal}, and its record does not hold {what}",
                hint="an input runs once: give a new message its own dedupe key",
                run_id=self.run_id,
                terminal=self.terminal,
            )

    def latch(self, reason: BaseException) -> BaseException:
        """Park the run for this reason; the first one stays. Returns the reason to raise."""
        with self._lock:
            if self._latch is None:
                self._latch = reason
            return self._latch

    # ---- did somebody cancel it? ----

    def cancelled(self) -> RunCancelled | None:
        """What was recorded outside to end this run; read only when somebody else has appended to the conversation."""
        after, up_to = self.outside.unlooked, self.outside.seen
        if self._cancelled is None and after is not None:
            said = self.ports.read(Events(self.stream_id, after, CANCELLING, self.run_id, 1))
            if said:
                self.cancel()
            self.outside.looked(after, up_to)
        return self._cancelled

    def check_cancelled(self) -> None:
        """Raise ``RunCancelled`` if somebody outside has cancelled the run."""
        if (cancelled := self.cancelled()) is not None:
            raise cancelled

    def cancel(self) -> None:
        """Somebody outside has recorded that this run is to end; it does at its next call."""
        with self._lock:
            if self._cancelled is None:
                self._cancelled = RunCancelled(f"run {self.run_id} was cancelled from outside")
            self.latch(self._cancelled)

    def suspend(self, message: str, *, cause: str, waits_for: tuple[str, ...] = ()) -> BaseException:
        """Latch a :class:`counterfoil.errors.RunSuspended` and return what to raise.

        A run that is suspended already waits for these too.
        """
        with self._lock:
            parked = self.latch(RunSuspended(message, cause=cause, waits_for=waits_for))
            if isinstance(parked, RunSuspended):
                parked.waits_for = tuple(dict.fromkeys((*parked.waits_for, *waits_for)))
            return parked

    @property
    def latched(self) -> BaseException | None:
        """Why the run is parked, if it is."""
        return self._latch

    def close(self) -> None:
        """The run's block has ended; later calls get ``RunClosed``."""
        with self._lock:
            self._closed = True

    # ---- lease ----

    @property
    def lease(self) -> Lease:
        """The lease as last renewed."""
        return self._lease

    @property
    def token(self) -> int:
        """The fencing token every append of the run carries."""
        return self._lease.token

    def hold_lease(self, until_ms: int) -> None:
        """Make the lease last at least until this time of the store's clock. Raises ``LeaseLost`` when taken over.

        A parked run still holds its lease for calls in flight; one that has ended has none, and raises ``RunClosed``.
        It may take as long as a commit, so a flow asks for it (:meth:`held`).
        """
        if self.terminal is not None:
            self.frontier("this call")
        # A lock of its own: while a store makes a renewal wait, nobody who only looks at the run waits with it.
        with self._renewing:
            if self._lease.expires_at_ms >= until_ms:
                return
            try:
                # A renewal costs a commit: a little more than asked spares the next calls theirs.
                wanted = until_ms - self.ports.now_ms() + LEASE_RENEW_MS
                self._lease = self.ports.renew(self._lease, wanted)
            except Fenced as lost:
                raise self.latch(self.lost()) from lost

    def held(self, until_ms: int) -> Flow[None]:
        """As :meth:`hold_lease`, in a flow; nothing is asked for where the lease lasts that long already."""
        if self.terminal is not None:
            self.frontier("this call")
        if self._lease.expires_at_ms < until_ms:
            yield Renew(self, until_ms)

    def owned(self) -> Flow[None]:
        """Raise ``LeaseLost`` if another worker owns the run now, in a flow: asked where an append found its event there.

        A store looks for the event before it looks at the token.
        """
        head: Head | None = yield Read(HeadOf(self.stream_id))
        if head is not None and head.token != self.token:
            raise self.latch(self.lost())

    def lost(self) -> LeaseLost:
        """The error of a worker whose conversation was taken over."""
        return LeaseLost(f"run {self.run_id} was taken over by another worker", token=self.token)

    # ---- identity of what the run does ----

    def occurrence(self, name: str, digest: str, scope: str | None = None) -> int:
        """1 for the first call with this name and argument digest in this scope, in program order; then 2, 3, …"""
        key = (step_path() if scope is None else scope, name, digest)
        with self._lock:
            returned = self._returned.get(key)
            if returned:
                number = min(returned)
                returned.discard(number)
                return number
            number = self._occurrences[key] = self._occurrences.get(key, 0) + 1
            return number

    def give_back(self, name: str, digest: str, number: int, scope: str) -> None:
        """That call came to nothing that was recorded: the next one like it takes its number.

        So a call that is tried again after the storage failed, or after a cancellation, is the same call to whoever
        resumes the run.
        """
        with self._lock:
            self._returned.setdefault((scope, name, digest), set()).add(number)

    def part(self, factory: Callable[[RunScope], T]) -> T:
        """The one object that ``factory`` makes for this scope; made on first use."""
        known: T | None = self._parts.get(factory)
        if known is not None:
            return known
        with self._lock:
            if factory not in self._parts:
                self._parts[factory] = factory(self)
            found: T = self._parts[factory]
            return found

    def seat(self, factory: Callable[[RunScope], T], part: T) -> None:
        """Put a part in the place of the one that ``factory`` would make, before anybody asks for it."""
        with self._lock:
            self._parts[factory] = part

    # ---- after a fork ----

    def inherited(self) -> None:
        """In the child of a fork: the threads of the calls in flight, and whoever held the lock, are the parent's."""
        # One lock under two names: what only looks or counts takes the bare one, which is a call less each way.
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._renewing = threading.Lock()
        self._flights.clear()
        self._idle_calls.clear()
        self._waiting = 0

    # ---- calls in flight ----

    def in_flight(self, what: str) -> AbstractContextManager[None]:
        """Count a call that a suspension must wait for. Raises as :meth:`check`, before anything of the call began.

        Check and count are one step under the latch's lock: who parks the run and then waits until it is idle
        either waits for this call or has refused it.
        """
        return _Flight(self, what)

    def take_off(self, what: str) -> None:
        """The beginning of what :meth:`in_flight` counts, for a block whose ends are two calls."""
        with self._lock:
            self.check()
            self._flights.add(what)

    def land(self, what: str) -> None:
        """The other end of :meth:`take_off`."""
        with self._lock:
            self._flights.discard(what)
            idle = [] if self._flights else self._idle_calls
            if idle:
                self._idle_calls = []
            if self._waiting:
                self._condition.notify_all()
        for call in idle:
            call()

    def wait_idle(self, timeout_s: float) -> bool:
        """Block until no call is in flight, at most ``timeout_s`` seconds; True when idle."""
        with self._condition:
            self._waiting += 1
            try:
                return self._condition.wait_for(lambda: not self._flights, timeout_s)
            finally:
                self._waiting -= 1

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call this once no call is in flight, from whichever thread ended the last one; at once if none is."""
        with self._lock:
            if self._flights:
                self._idle_calls.append(call)
                return
        call()

    # ---- drafts ----

    def draft(
        self,
        event_type: str,
        data: Mapping[str, Any] | None = None,
        content: Mapping[str, Any] | None = None,
        *,
        step_id: str | None = None,
        attempt: int | None = None,
        causation_event_id: str | None = None,
        actor: Mapping[str, str] | None = None,
    ) -> Draft:
        """An event draft of this run: id, time, actor and run filled in. ``content`` is JSON (core.values.to_json)."""
        return Draft(
            event_id=self.ports.new_id("evt"),
            event_type=event_type,
            occurred_at=time_text(self.ports.now_ms()),
            actor=self.actor if actor is None else actor,
            data={} if data is None else data,
            parts=(Part(content),) if content else (),
            run_id=self.run_id,
            step_id=step_id,
            attempt=attempt,
            causation_event_id=causation_event_id,
        )


class _Flight(AbstractContextManager[None]):
    """One call in flight; a class, because every effect makes one and a generator takes three times as long."""

    __slots__ = ("_scope", "_what")

    def __init__(self, scope: RunScope, what: str) -> None:
        self._scope = scope
        self._what = what

    def __enter__(self) -> None:
        self._scope.take_off(self._what)

    def __exit__(self, *_: object) -> None:
        self._scope.land(self._what)


def _waits_for_approval(reason: BaseException) -> bool:
    return isinstance(reason, RunSuspended) and reason.cause == "approval"


def current_scope() -> RunScope:
    """The run this code is inside of. Raises :class:`counterfoil.errors.NoRun` when the context did not travel here."""
    scope = _current.get()
    if scope is None:
        raise NoRun(
            "this call needs a run and there is none in this context",
            hint="call it inside `with ledger.run(...)`; in a thread pool or a bare thread pass `run.bind(fn)`",
        )
    return scope


def scope_or_none() -> RunScope | None:
    """As :func:`current_scope`, with None in place of the error."""
    return _current.get()


@contextmanager
def entered(scope: RunScope) -> Iterator[RunScope]:
    """Make ``scope`` the current run of this context."""
    token = enter_scope(scope)
    try:
        yield scope
    finally:
        leave_scope(token)


ScopeToken = tuple[Token[RunScope | None], Token[str]]


def enter_scope(scope: RunScope) -> ScopeToken:
    """As :func:`entered`, for a block whose ends are two calls. Steps are counted from the top again."""
    return _current.set(scope), _path.set("")


def leave_scope(token: ScopeToken) -> None:
    """The other end of :func:`enter_scope`; also when this end runs in another context than the first."""
    scope, path = token
    try:
        _current.reset(scope)
        _path.reset(path)
    except ValueError:
        # An async generator's block may be closed by another task: there is nothing here to restore.
        _current.set(None)


def step_path() -> str:
    """The path of memoised steps this code is inside of, such as ``plan#1/fetch#2``; empty at the top."""
    return _path.get()


@contextmanager
def inside_step(label: str) -> Iterator[None]:
    """Descend one step; identities inside are counted separately (DESIGN 6)."""
    token = _path.set(f"{_path.get()}/{label}" if _path.get() else label)
    try:
        yield
    finally:
        _path.reset(token)
