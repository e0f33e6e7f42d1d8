"""The ends of a run's block: the scope that code inside sees, and what is recorded when the block is left."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from msgspec import Struct, field

from counterfoil.abc import Host, Policy
from counterfoil.core.catalogue import Registry
from counterfoil.core.values import to_json
from counterfoil.errors import (
    CounterfoilError,
    Divergence,
    LeaseLost,
    RunCancelled,
    RunStopped,
    RunSuspended,
    RunWaiting,
)
from counterfoil.errors.base import text_of
from counterfoil.flow.calls import off_the_loop, to_the_end
from counterfoil.flow.context import LEASE_MARGIN_MS, RunScope
from counterfoil.flow.drive import adrive, drive
from counterfoil.flow.loops import comes_from_outside, is_cancellation, running_loop
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Flow
from counterfoil.runtime.admit import Entered
from counterfoil.runtime.budgets.check import Budgets
from counterfoil.runtime.children.decide import STOPPING
from counterfoil.runtime.children.nursery import Nursery
from counterfoil.runtime.heartbeat import Heartbeat
from counterfoil.runtime.leave import (
    Ended,
    Left,
    Waits,
    end_flow,
    leaves_open,
    left_note,
    rest_flow,
    suspension_cause,
    suspension_in,
    terminal_of,
)
from counterfoil.runtime.open_streams import close_streams
from counterfoil.runtime.shutdown import WATCH, interrupted_loop
from counterfoil.runtime.spec import RunSpec
from counterfoil.runtime.trees import Tree, Trees
from counterfoil.runtime.turn import Turning
from counterfoil.runtime.waiting import waiting
from counterfoil.store.unit import Lease

T = TypeVar("T")


class RunHost(Struct, frozen=True):
    """What a ledger handle lends to its runs."""

    ports: Ports
    registry: Registry
    heartbeat: Heartbeat
    owner: str
    policy: Policy | None = None
    turns: bool = False
    host: Host = field(default_factory=Host)
    trees: Trees = field(default_factory=Trees)
    nursery: Nursery | None = None


def make_scope(
    host: RunHost, spec: RunSpec, entered: Entered, asynchronous: bool, deadline_s: float | None
) -> RunScope:
    """The scope of one entry into a run. An ended run has a lease that is nobody's."""
    lease = entered.lease or Lease(entered.stream_id, 0, host.owner, 0)
    live = entered.terminal is None and deadline_s is not None
    scope = RunScope(
        host.ports,
        stream_id=entered.stream_id,
        run_id=entered.run_id,
        agent=spec.agent,
        lease=lease,
        asynchronous=asynchronous,
        agent_version=spec.agent_version,
        history=entered.history,
        terminal=entered.terminal,
        deadline_ms=host.ports.now_ms() + round((deadline_s or 0) * 1000) if live else None,
        policy=host.policy,
        seen=entered.sequence,
    )
    scope.part(Turning).on = host.turns
    scope.part(Budgets).begin(entered.spec or spec)
    scope.part(Tree).share(host.trees)
    return scope


class Ending(Struct, frozen=True):
    """How the run's own code wants it to end."""

    terminal: str
    output: Any


class Outcome(Struct):
    """How the block was left, filled in before anything is raised. ``terminal`` None: the run is open or waits."""

    terminal: str | None = None


def leave(
    host: RunHost,
    spec: RunSpec,
    scope: RunScope,
    error: BaseException | None,
    ending: Ending,
    outcome: Outcome,
) -> None:
    """Wait for calls in flight, record how the block was left, give the lease up. Raises what the caller should see."""
    if scope.terminal is not None:
        outcome.terminal = scope.terminal
        _tell_again(spec, scope, error)
        return
    closing = _closing(scope, error)
    try:
        impatient = _wait_idle(scope)
        left = drive(_left_flow(scope, closing, ending), host.ports)
        drive(_stops_flow(host, scope, left), host.ports)
    except BaseException as failure:  # noqa: BLE001 - whatever it is, it is raised again below
        _not_recorded(spec, scope, closing, failure)
    finally:
        _give_up(host, scope)
    outcome.terminal = left.terminal if isinstance(left, Ended) else None
    if impatient is not None:
        raise impatient
    _tell(spec, scope, closing, left)


async def leave_async(
    host: RunHost,
    spec: RunSpec,
    scope: RunScope,
    error: BaseException | None,
    ending: Ending,
    outcome: Outcome,
) -> None:
    """As :func:`leave`. A second cancellation meanwhile does not cut the record short; it is raised afterwards."""
    if scope.terminal is not None:
        outcome.terminal = scope.terminal
        _tell_again(spec, scope, error)
        return
    closing = _closing(scope, error)

    async def closed() -> Left | None:
        await _idle(scope)
        ended = await adrive(_left_flow(scope, closing, ending), host.ports)
        outcome.terminal = ended.terminal if isinstance(ended, Ended) else None
        await adrive(_stops_flow(host, scope, ended), host.ports)
        return ended

    try:
        left = await to_the_end(closed())
    except BaseException as failure:  # noqa: BLE001 - whatever it is, it is raised again below
        _not_recorded(spec, scope, closing, failure)
    finally:
        await off_the_loop(_give_up, host, scope)
    _tell(spec, scope, closing, left)


# ---- what is recorded ------------------------------------------------------------------------------------------------


class _Closing(Struct, frozen=True):
    """Why the block is left: what left it, and what had parked the run before."""

    error: BaseException | None
    reason: BaseException | None


def _closing(scope: RunScope, error: BaseException | None) -> _Closing:
    """The latch comes first: code that swallowed a suspension does not undo it."""
    suspended = suspension_in(error)
    if suspended is not None:
        scope.latch(suspended)
    reason = scope.latched
    if reason is None:
        scope.close()
        reason = error
    return _Closing(error, reason)


def _left_flow(scope: RunScope, closing: _Closing, ending: Ending) -> Flow[Left | None]:
    if not isinstance(closing.reason, LeaseLost):
        yield from close_streams(scope, left=True)
    left = yield from _recorded(scope, closing, ending)
    if isinstance(left, Waits) and (cancelled := scope.cancelled()) is not None:
        # Cancelled while it was put to rest: nobody would end it then. Its doubt stays and is recovered.
        left = yield from end_flow(scope, cancelled.terminal, error=cancelled)
    return left


def _stops_flow(host: RunHost, scope: RunScope, left: Left | None) -> Flow[None]:
    """The run's end has asked its children to end; what cannot be carried out here is finished by recovery."""
    if not isinstance(left, Ended) or left.terminal not in STOPPING or host.nursery is None:
        return
    from counterfoil.runtime.children.stop import Stopper, stop_children

    by = Stopper(host.nursery.host, host.ports, host.owner, scope.actor)
    try:
        yield from stop_children(scope.stream_id, by)
    except CounterfoilError:
        # The end is on record, and with it that they are to end: whoever recovers goes on from there.
        return


def _recorded(scope: RunScope, closing: _Closing, ending: Ending) -> Flow[Left | None]:
    match closing.reason:
        case LeaseLost():
            return None
        case RunSuspended() as suspended:
            cause = suspension_cause(suspended)
            return (yield from rest_flow(scope, cause, suspended.waits_for, str(suspended)))
        case Divergence() as diverged:
            return (yield from rest_flow(scope, "input", (), left_note(diverged)))
        case None:
            return (yield from end_flow(scope, ending.terminal, output=to_json(ending.output, "output")))
        case reason:
            if leaves_open(reason):
                return None
            return (yield from end_flow(scope, _terminal(reason), error=reason))


def _terminal(reason: BaseException) -> str:
    """What ended the run; a signal reaches an async run as a cancellation, which says nothing of where it came from."""
    if comes_from_outside(reason) and WATCH.received:
        return "shutdown"
    if is_cancellation(reason) and interrupted_loop():
        return "interrupted"
    return terminal_of(reason)


def _tell(spec: RunSpec, scope: RunScope, closing: _Closing, left: Left | None) -> None:
    """Raise what the caller should see in place of what left the block; an exception from outside stays itself."""
    error, reason = closing.error, closing.reason
    if comes_from_outside(error) and not isinstance(reason, RunCancelled):
        return
    if isinstance(left, Waits) and not isinstance(reason, Divergence):
        why = str(reason) if isinstance(reason, RunSuspended) else ""
        # The cause is what parked the run, whose own cause is what its tool raised; an error that covers it is kept.
        covered = error is not None and suspension_in(error) is None
        raise waiting(scope.run_id, left.waits_for, left.cause, place=spec.place, why=why) from (
            error if covered else reason
        )
    if isinstance(reason, RunSuspended) and isinstance(left, Ended):
        reason = scope.cancelled() or reason
    if isinstance(reason, RunCancelled) and left is not None:
        raise _stopped(reason) from (error or reason)
    if error is None and reason is not None:
        # The block swallowed what had parked the run.
        raise reason


def _tell_again(spec: RunSpec, scope: RunScope, error: BaseException | None) -> None:
    """The run had ended before, so nothing is recorded; a call of it that is in doubt is waited for all the same."""
    suspended = suspension_in(error)
    if suspended is None or comes_from_outside(error):
        return
    why = f"the run has ended ({scope.terminal}), and {suspended}"
    cause = suspension_cause(suspended)
    raise waiting(scope.run_id, suspended.waits_for, cause, place=spec.place, why=why) from error


def _stopped(reason: RunCancelled) -> Exception:
    if reason.terminal == "timeout":
        return TimeoutError(str(reason))
    return RunStopped(str(reason), hint="its record says how far it came", terminal=reason.terminal)


def _not_recorded(spec: RunSpec, scope: RunScope, closing: _Closing, failure: BaseException) -> NoReturn:
    """The end could not be recorded: what left the block goes on, with a note, else the failure itself.

    A run that was parked says so all the same: that an effect is in doubt is more than that a disk is full.
    """
    error, reason = closing.error, closing.reason
    if (
        isinstance(reason, RunSuspended)
        and isinstance(failure, CounterfoilError)
        and not comes_from_outside(error)
    ):
        said = f"{reason}; that the run waits could not be recorded either: {failure.message}"
        raise _waiting_unrecorded(spec, scope, reason, said) from failure
    if error is None or isinstance(error, RunSuspended):
        raise failure
    error.add_note(f"counterfoil: the end of the run could not be recorded: {text_of(failure)}")
    raise error


def _waiting_unrecorded(spec: RunSpec, scope: RunScope, reason: RunSuspended, why: str) -> RunWaiting:
    told = waiting(scope.run_id, reason.waits_for, suspension_cause(reason), place=spec.place, why=why)
    told.hint = f"mend the ledger first; {told.hint}"
    return told


def _give_up(host: RunHost, scope: RunScope) -> None:
    host.heartbeat.remove(scope)
    with suppress(CounterfoilError):
        # A lease that cannot be given up expires by itself.
        host.ports.release(scope.lease)


# ---- waiting ---------------------------------------------------------------------------------------------------------


def _patience_s(scope: RunScope) -> float:
    """How long to wait for calls in flight: their answers can be recorded until shortly before the lease ends."""
    left_ms = scope.lease.expires_at_ms - scope.ports.now_ms() - LEASE_MARGIN_MS // 2
    return max(0.0, left_ms / 1000)


def _wait_idle(scope: RunScope) -> KeyboardInterrupt | None:
    """Whoever interrupts the waiting ends it; the record is made all the same, and then the interrupt goes on.

    Calls of an event loop that runs in this very thread cannot end while it waits: a sync block inside async code.
    """
    if running_loop() is not None:
        return None
    try:
        scope.wait_idle(_patience_s(scope))
    except KeyboardInterrupt as impatient:
        return impatient
    return None


async def _idle(scope: RunScope) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    idle = asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(idle.set)

    patience_s = _patience_s(scope)
    scope.when_idle(wake)
    with suppress(TimeoutError):
        await asyncio.wait_for(idle.wait(), patience_s)
