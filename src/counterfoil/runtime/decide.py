"""What becomes of an input, and how a run ends: pure rules over what was read (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never, get_args

from msgspec import Struct

from counterfoil.runtime.events import ClaimCause, DeferCause, WhileRunning, WhileSuspended
from counterfoil.runtime.state import (
    ABSORBED,
    DEFERRED,
    FINISHED,
    REJECTED,
    RUNNING,
    SUPERSEDED,
    SUSPENDED,
    AdmissionState,
    RunState,
)


class Situation(Struct, frozen=True):
    """What is known when an input asks for a run.

    ``admission`` is the one its dedupe key names and ``own`` the run of that admission. ``held`` says that the
    conversation's lease has not expired; ``running`` is the run in the slot, ``suspended`` those that wait.
    """

    while_running: WhileRunning = "queue"
    while_suspended: WhileSuspended = "start"
    admission: AdmissionState | None = None
    same_message: bool = True
    own: RunState | None = None
    held: bool = False
    lapsed: bool = False
    """The lease expired without being given up: its owner crashed or stalled."""
    running: RunState | None = None
    suspended: Sequence[RunState] = ()
    closed: bool = False
    now_ms: int = 0


class Start(Struct, frozen=True):
    """Begin a run. ``park`` is a run that a vanished worker left in the slot."""

    park: RunState | None = None


class Resume(Struct, frozen=True):
    """Go on with the input's own run. ``park`` as in :class:`Start`."""

    run: RunState
    cause: ClaimCause
    park: RunState | None = None


class Replay(Struct, frozen=True):
    """The input's run has ended: its record is handed out and nothing is touched."""

    run: RunState


class Defer(Struct, frozen=True):
    """Keep the input until the slot is free."""

    cause: DeferCause
    behind: RunState


class Absorb(Struct, frozen=True):
    """Hand the input to the run under way."""

    run: RunState


class Supersede(Struct, frozen=True):
    """End the run under way and begin with this input."""

    run: RunState


class Reject(Struct, frozen=True):
    """Refuse the input."""

    run: RunState | None
    why: str


class Busy(Struct, frozen=True):
    """Nothing to record: the slot is taken, come again."""

    run: RunState | None


class Ended(Struct, frozen=True):
    """The admission ended without a run of its own: absorbed, superseded or rejected."""

    admission: AdmissionState


class OtherMessage(Struct, frozen=True):
    """The dedupe key belongs to another message."""

    admission: AdmissionState


class NotYet(Struct, frozen=True):
    """The input waits for a time, or for a person to let it in; nothing to record."""

    admission: AdmissionState


class Known(Struct, frozen=True):
    """The input was taken in before: nothing to record."""

    admission: AdmissionState


class Keep(Struct, frozen=True):
    """Take the input in and let nobody run it yet: until a time, or, without one, until somebody takes it up."""

    until_ms: int | None = None


Decision = (
    Start | Resume | Replay | Defer | Absorb | Supersede | Reject | Busy | Ended | OtherMessage | NotYet
)


def decide(now: Situation) -> Decision:
    """What becomes of an input. The same dedupe key is the same run; a new one meets the two policies."""
    if now.admission is not None and not now.same_message:
        return OtherMessage(now.admission)
    if now.own is not None and now.own.state == FINISHED:
        return Replay(now.own)
    if now.admission is not None and now.admission.state in {ABSORBED, SUPERSEDED, REJECTED}:
        return Ended(now.admission)
    if now.own is not None:
        return _own(now, now.own)
    if now.closed:
        return Reject(None, "the conversation is closed")
    if now.admission is not None and not is_due(now.admission, now.now_ms):
        return NotYet(now.admission)
    if now.held:
        return _live(now)
    return _free(now)


def decide_keeping(
    now: Situation, until_ms: int | None
) -> Keep | Known | Defer | Absorb | Reject | OtherMessage:
    """What becomes of an input that nobody runs just now. The policies count, except that nothing is superseded:

    whoever takes a run's place has to be there to run. With a time they count when it has come.
    """
    if now.admission is not None:
        return Known(now.admission) if now.same_message else OtherMessage(now.admission)
    if until_ms is not None and until_ms > now.now_ms and not now.closed:
        return Keep(until_ms)
    decision = decide(now)
    match decision:
        case Supersede(run):
            return Defer("live_run", run)
        case Defer() | Absorb() | Reject():
            return decision
        case _:
            return Keep()


def is_due(admission: AdmissionState, now_ms: int) -> bool:
    """Whether an input may start, as far as it is concerned: it waits for no person, and its time has come."""
    if admission.state != DEFERRED or admission.cause not in ("until", "operator"):
        return True
    return admission.due_ms <= now_ms


def _own(now: Situation, own: RunState) -> Decision:
    if now.held:
        return Busy(now.running)
    other = now.running if now.running is not None and now.running.run_id != own.run_id else None
    taken_over = own.state == RUNNING and now.lapsed
    return Resume(own, "takeover" if taken_over else "resume", other)


def _live(now: Situation) -> Decision:
    """Somebody alive holds the slot. A lease without a run is a recovery at work or a run just ending."""
    if now.running is None or now.admission is not None:
        return Busy(now.running)
    match now.while_running:
        case "queue":
            return Defer("live_run", now.running)
        case "absorb":
            return Absorb(now.running)
        case "supersede":
            return Supersede(now.running)
        case "reject":
            return Reject(now.running, "a run is under way")
        case _:
            assert_never(now.while_running)


def _free(now: Situation) -> Decision:
    left = now.running
    waiting = [*now.suspended, *([left] if left is not None and left.resumable else [])]
    fresh = now.admission is None
    if waiting and (fresh or (now.admission is not None and now.admission.state == DEFERRED)):
        match now.while_suspended:
            case "start":
                pass
            case "queue":
                return Defer(_defer_cause(waiting[0]), waiting[0]) if fresh else Busy(waiting[0])
            case "reject":
                return Reject(waiting[0], "a run waits") if fresh else Busy(waiting[0])
            case _:
                assert_never(now.while_suspended)
    return Start(left)


def _defer_cause(behind: RunState) -> DeferCause:
    return "approval" if behind.state == SUSPENDED and behind.cause in {"approval", "review"} else "live_run"


# ---- how a run ends --------------------------------------------------------------------------------------------------

CHOSEN_TERMINALS = ("success", "policy_stop", "provider_stop", "output_rejected", "context_overflow")
"""What the run's own code may call its end; the others are worked out from what happened."""


def policy(name: str, value: str) -> str:
    """Check a policy by name; returns it. Raises ValueError."""
    allowed = get_args(WhileRunning if name == "while_running" else WhileSuspended)
    if value not in allowed:
        raise ValueError(f"{name} is one of {', '.join(allowed)}")
    return value
