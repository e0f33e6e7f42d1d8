"""Leaving a run: what its end is called, and the records that end it or put it to rest (DESIGN 6, 7, 11)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from counterfoil.approvals.events import expired
from counterfoil.approvals.standing import open_approvals
from counterfoil.core.event import Draft
from counterfoil.effects.decisions import Decisions
from counterfoil.errors import (
    AccessError,
    ApprovalDenied,
    ApprovalMismatched,
    BudgetExceeded,
    Divergence,
    EventIdReused,
    GuardFailed,
    IntegrityError,
    InternalError,
    ModelFailed,
    PartialDuplicate,
    PolicyDenied,
    RunCancelled,
    RunSuspended,
    SlotMoved,
    StoreError,
    StreamNotFound,
    WrongSequence,
)
from counterfoil.errors.base import text_of
from counterfoil.flow.context import RunScope
from counterfoil.flow.loops import is_cancellation
from counterfoil.flow.requests import Flow, HeadOf, Read, RowOf
from counterfoil.runtime import events, rows
from counterfoil.runtime.budgets.check import exceeded_drafts
from counterfoil.runtime.children.kin import RunEnd, kin_at_end
from counterfoil.runtime.children.settle import settle_purged
from counterfoil.runtime.doubt import WAITS_MAX, open_effects, waiting_on
from counterfoil.runtime.inputs import unread_inputs
from counterfoil.runtime.line import next_in_line
from counterfoil.runtime.outcome import error_content
from counterfoil.runtime.recording import draft, record
from counterfoil.runtime.resume import Record
from counterfoil.runtime.turn import kept_turn
from counterfoil.store.rows import Row
from counterfoil.store.unit import Head, at

TRIES_MAX = 100
"""How often the end of a run is decided anew because somebody else appended to the conversation meanwhile."""


class Ended(Struct, frozen=True):
    """The run has ended."""

    terminal: str


class Waits(Struct, frozen=True):
    """The run was put to rest; ``waits_for`` are the ids it waits for."""

    cause: str
    waits_for: tuple[str, ...]


Left = Ended | Waits


# ---- what happened, in the words of DESIGN 6 -----------------------------------------------------------------------


def suspension_in(error: BaseException | None) -> RunSuspended | None:
    """The suspension in an exception, also inside exception groups (a TaskGroup wraps what its tasks raise)."""
    if isinstance(error, RunSuspended):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(
            (found for inner in error.exceptions if (found := suspension_in(inner)) is not None), None
        )
    return None


def terminal_of(error: BaseException) -> str:
    """The terminal of a run that this exception left."""
    match error:
        case RunCancelled():
            return error.terminal
        case _ if isinstance(error, GeneratorExit) or is_cancellation(error):
            # A generator that is closed ran for somebody who went away.
            return "cancelled"
        case KeyboardInterrupt():
            return "interrupted"
        case SystemExit():
            return "shutdown"
        case ModelFailed():
            return "provider_failure"
        case PolicyDenied() | ApprovalDenied() | ApprovalMismatched() | BudgetExceeded():
            return "policy_stop"
        case WrongSequence() | GuardFailed() | EventIdReused() | PartialDuplicate() | SlotMoved():
            return "storage_conflict"
        case BaseExceptionGroup():
            found = {terminal_of(inner) for inner in error.exceptions}
            return found.pop() if len(found) == 1 else "runtime_failure"
        case _:
            return "runtime_failure"


def leaves_open(error: BaseException) -> bool:
    """Whether the run stays open after this: the ledger or its keys failed, not the run.

    It goes on when that is mended.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(leaves_open(inner) for inner in error.exceptions)
    return isinstance(error, (StoreError, AccessError, IntegrityError, InternalError, Divergence))


# ---- the flows -----------------------------------------------------------------------------------------------------


def end_flow(
    scope: RunScope, terminal: str, *, output: Any = None, error: BaseException | None = None
) -> Flow[Left]:
    """Record ``run.finished``; a run that would end well with an effect in doubt is put to rest instead.

    The decision rests on what was read, so it is appended at that head or taken again (DESIGN 2.15).
    """
    for _ in range(TRIES_MAX):
        head: Head | None = yield Read(HeadOf(scope.stream_id))
        if head is None:
            return (yield from gone_flow(scope, terminal, output=output, error=error))
        if terminal == "success" and (effects := (yield from open_effects(scope.stream_id, scope.run_id))):
            cause, waits_for = waiting_on(effects)
            return (yield from rest_flow(scope, cause, waits_for, "an effect has no outcome yet"))
        told = None if error is None else error_content(error)
        said = events.run_finished(terminal, scope.part(Record).tally.data, output=output, error=told)
        released = yield from _released(scope)
        lapsed = [*(yield from _lapsed(scope)), *exceeded_drafts(scope)]
        try:
            finished = draft(scope, said)
            kept = yield from kept_turn(scope, finished)
            kin = yield from kin_at_end(
                RunEnd(
                    scope.stream_id,
                    scope.run_id,
                    terminal,
                    finished.event_id,
                    scope.actor,
                    output,
                    told,
                    scope.ports,
                )
            )
            yield from record(
                scope,
                *lapsed,
                finished,
                *kept,
                *kin.drafts,
                *released,
                expected=at(head.sequence),
                guards=kin.guards,
                others=kin.entries,
            )
        except (WrongSequence, GuardFailed, StreamNotFound):
            continue
        return Ended(terminal)
    raise WrongSequence(
        f"others appended to the conversation {TRIES_MAX} times while run {scope.run_id} was ending",
        hint="the run is open; run the same code again",
        run_id=scope.run_id,
    )


def gone_flow(
    scope: RunScope, terminal: str, *, output: Any = None, error: BaseException | None = None
) -> Flow[Left]:
    """The conversation was purged under the run: nothing more can be recorded there. A child's parent is told all the same.

    Raises ``StreamNotFound`` for a run that is nobody's child.
    """
    told = None if error is None else error_content(error)
    end = RunEnd(scope.stream_id, scope.run_id, terminal, scope.run_id, scope.actor, output, told)
    if not (yield from settle_purged(end, scope.ports)):
        raise StreamNotFound(
            f"the conversation of run {scope.run_id} was purged while it ran", stream_id=scope.stream_id
        )
    return Ended(terminal)


def _lapsed(scope: RunScope) -> Flow[list[Draft]]:
    """What people were asked and nobody will use any more; a run that asked nobody reads nothing."""
    if not scope.part(Decisions):
        return []
    approvals = yield from open_approvals(scope.run_id)
    return [expired(scope, approval.approval_id, approval.effect_id) for approval in approvals]


def rest_flow(scope: RunScope, cause: events.WaitCause, waits_for: tuple[str, ...], note: str) -> Flow[Waits]:
    """Record ``run.suspended``; with the policy ``start`` the slot is offered to an input that waits."""
    kept = waits_for[:WAITS_MAX]
    conversation: Row | None = yield Read(RowOf(rows.CONVERSATIONS, (scope.stream_id,)))
    free = conversation is not None and conversation["while_suspended"] == "start"
    released = (yield from _next_deferred(scope)) if free else []
    yield from record(scope, draft(scope, events.run_suspended(cause, kept, note)), *released)
    return Waits(cause, kept)


def suspension_cause(suspended: RunSuspended) -> events.WaitCause:
    """The cause as the header may show it."""
    return events.wait_cause(suspended.cause) or "effect"


def _released(scope: RunScope) -> Flow[list[Draft]]:
    """The inputs that get their turn when this run ends: those it absorbed and never read, and the next in line."""
    unread = yield from unread_inputs(scope)
    drafts = [draft(scope, events.admission_released(admission_id, "live_run")) for admission_id in unread]
    return [*drafts, *(yield from _next_deferred(scope))]


def _next_deferred(scope: RunScope) -> Flow[list[Draft]]:
    row = yield from next_in_line(scope.stream_id)
    if row is None:
        return []
    return [draft(scope, events.admission_released(str(row["admission_id"]), "live_run"))]


def left_note(error: BaseException | None) -> str:
    """A note for ``run.suspended`` on what left the run, for people."""
    return "" if error is None else f"{type(error).__name__}: {text_of(error)}"[:1000]
