"""A decorated tool's call as a flow: validated, intended, called, observed; or found on record and handed out again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from counterfoil.approvals.rows import APPROVALS
from counterfoil.effects import events
from counterfoil.effects.asked import Asked, understood
from counterfoil.effects.attempt import Overtaken, Work, append, append_patiently, send
from counterfoil.effects.handle import Handle
from counterfoil.effects.holding import intend_unless_held
from counterfoil.effects.outcome import Verdict, answer_of_event, error_label
from counterfoil.effects.permit import UNASKED
from counterfoil.effects.permitting import hand_out_refusal, permitted, recorded_refusal
from counterfoil.effects.refusals import is_refusal
from counterfoil.effects.resolve import Parked, first_case, look_back, resolve, waiting_for
from counterfoil.effects.retrying import until_due
from counterfoil.effects.rows import EFFECT_KEYS
from counterfoil.effects.standin import StandIn
from counterfoil.effects.standing import KeyStanding, Standing, effect_now, key_now
from counterfoil.effects.state import FINAL, IN_DOUBT, IN_REVIEW, OPEN
from counterfoil.errors import EffectInFlight, Fenced, GuardFailed, IdempotencyConflict, RowsDiffer
from counterfoil.flow.context import LEASE_MARGIN_MS, RunScope
from counterfoil.flow.requests import Flow, NewId, Wait
from counterfoil.store.rows import Absent, Guard

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool

SIBLING_STEP_S = 0.01
"""How often a call looks whether an equal call of the same run has come to its end."""

SHOWN_DIGITS = 12
"""Of a digest in a message: enough to see that two differ."""


def perform(scope: RunScope, tool: Tool[..., Any], arguments: Mapping[str, Any], handle: Handle) -> Flow[Any]:
    """Perform a tool's call once, whatever crashes; the same call of a resumed run gets the recorded outcome.

    Returns what the tool returned. Raises Rejected, NotDone, EffectFailed, EffectInFlight, IdempotencyConflict, an
    InputError that names the argument, ``RunSuspended`` or ``LeaseLost``.
    """
    scope.check()
    stand_in = scope.part(StandIn)
    if stand_in.answer is not None:
        return (yield from stand_in.answer(scope, tool, arguments, handle))
    asked = understood(scope, tool, arguments, handle)
    refusal = recorded_refusal(asked)
    if refusal is not None:
        hand_out_refusal(asked, refusal)
    effect = yield from asked.past.find(asked.identity.key_index)
    if effect is not None:
        return (yield from _on_record(asked, effect))
    if scope.terminal is not None or asked.past.repeats_others or asked.unfit() is not None:
        key = yield from key_now(asked.key_row)
        if key is not None:
            return (yield from _key_taken(asked, key))
    return (yield from _first_call(asked, Absent(EFFECT_KEYS.name, asked.key_row)))


def propose(
    scope: RunScope, tool: Tool[..., Any], arguments: Mapping[str, Any], handle: Handle
) -> Flow[str | None]:
    """Ask people about a call before it is made, so that several may wait together; the approval, if there is one.

    The call itself is made as ever, and finds what was asked. Raises as :func:`perform` does for wrong arguments.
    """
    scope.check()
    if scope.part(StandIn).answer is not None:
        return None
    asked = understood(scope, tool, arguments, handle)
    # The call is yet to come: whatever number it would have, it has then.
    scope.give_back("effect", asked.identity.key_index, asked.number, "")
    if asked.occurrence is not None:
        scope.give_back(tool.name, asked.identity.arguments_index, asked.occurrence[1], asked.occurrence[0])
    if asked.place is not None:
        scope.give_back("place", tool.name, asked.place[1], asked.place[0])
    effect = yield from asked.past.find(asked.identity.key_index)
    if effect is not None:
        return None
    asked.check_sendable()
    permit = yield from permitted(replace(asked, place=None), ahead=True)
    return permit.approval_id


# ---- a call that is not on record --------------------------------------------------------------------------------


def _first_call(asked: Asked, *guards: Guard, takes_over: str | None = None) -> Flow[Any]:
    """Intend and carry out. That the key is taken is seen by the guard, so a fresh key costs no read."""
    asked.check_sendable()
    permit = yield from permitted(asked)
    effect_id: str = permit.effect_id or (yield NewId("eff"))
    work = asked.work(effect_id, takes_over=takes_over, permit=permit)
    asked.past.began(asked.identity.key_index, effect_id, asked.handle)
    try:
        try:
            yield from intend_unless_held(asked, work, *guards)
            asked.decisions.keep(permit.decided)
            asked.past.begun_here.add(effect_id)
        except GuardFailed as taken:
            asked.past.forget(asked.identity.key_index, effect_id)
            key = None if taken.fields["table"] == APPROVALS.name else _taken_key(asked, taken)
        else:
            return (yield from _carry_out(asked, work))
    finally:
        asked.past.ended(effect_id, asked.handle)
    if key is None:
        # The approval was taken back, or used elsewhere, at the last moment: look again.
        return (yield from _first_call(asked, *guards, takes_over=takes_over))
    return (yield from _key_taken(asked, key))


def _taken_key(asked: Asked, taken: GuardFailed) -> KeyStanding:
    """The row of the key that turned out to belong to somebody."""
    row = taken.fields["row"]
    if taken.fields["table"] == EFFECT_KEYS.name and row is not None:
        return KeyStanding.of(row)
    raise EffectInFlight(
        f"the key of this {asked.tool.name} call was taken by another run just now",
        hint="try again",
        tool=asked.tool.name,
    ) from taken


def _carry_out(asked: Asked, work: Work) -> Flow[Any]:
    """From the durable intention to what the caller gets."""
    resolution: Verdict | Parked
    error: BaseException | None = None
    try:
        known = yield from _done_before(asked, work)
        if known is not None:
            return _handed_out(asked, work, known)
        resolution, observation = yield from send(work)
        if resolution.outcome == "unknown":
            error = resolution.error
            resolution = yield from resolve(work, first_case(work, ended=True), observation)
    except Overtaken as other:
        return (yield from _elsewise(asked, work, other))
    if work.retry_due_ms is not None:
        return (yield from _again(asked, work, work.retry_due_ms))
    return _handed_out(asked, work, resolution, error)


def _done_before(asked: Asked, work: Work) -> Flow[Verdict | Parked | None]:
    """What a restored ledger finds out before a call goes out; nothing in any other, at no cost."""
    if not asked.scope.ports.looks_back():
        return None
    # A key made of the run was used before only if this run was at work before.
    may_be_done = asked.tool.named_by_key or bool(asked.scope.history)
    return (yield from look_back(work, may_be_done=may_be_done))


def _again(asked: Asked, work: Work, due_ms: int) -> Flow[Any]:
    """The tool's policy makes one more attempt under the same key, unless the effect has moved on meanwhile."""
    yield from until_due(work, due_ms)
    effect = yield from effect_now(work.effect_id)
    if effect is None or effect.state != "failed":
        return (yield from _elsewise(asked, work, Overtaken(effect)))
    return (yield from _next_attempt(asked, effect))


def _handed_out(
    asked: Asked, work: Work, resolution: Verdict | Parked, error: BaseException | None = None
) -> Any:
    if isinstance(resolution, Parked):
        raise _parked(asked, work, resolution, error)
    if resolution.outcome == "failed":
        asked.past.calls(work.effect_id).failed_here += 1
    return resolution.hand_out()


def _parked(asked: Asked, work: Work, parked: Parked, error: BaseException | None = None) -> BaseException:
    """Park the run; what the tool raised is the cause of what is raised, and only its class stands in the words."""
    raised = "" if error is None else f"its call ended with {error_label(error)}; "
    reason = asked.scope.suspend(
        f"effect {work.effect_id} of tool {work.tool.name} is in doubt: {raised}{parked.why}",
        cause=parked.cause,
        waits_for=(parked.waits_for,),
    )
    if error is not None and reason.__cause__ is None and reason not in _chain(error):
        reason.__cause__ = error
    return reason


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it came from; a tool may have wrapped the very suspension of an inner one."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in chain:
        chain.append(following)
        following = following.__cause__ or following.__context__
    return chain


def _elsewise(asked: Asked, work: Work, other: Overtaken) -> Flow[Any]:
    """The doubt was ended by another way while this worker was at it: what is recorded first is the outcome."""
    effect = other.effect
    if effect is None or effect.state in OPEN:
        raise _parked(asked, work, waiting_for(work.effect_id, effect))
    if effect.state == "failed":
        asked.past.calls(work.effect_id).failed_here += 1
    if other.agreed is not None:
        return other.agreed.hand_out()
    event = yield from asked.past.decision(effect)
    return answer_of_event(event)


# ---- a call that is on record -------------------------------------------------------------------------------------


def _key_taken(asked: Asked, key: KeyStanding) -> Flow[Any]:
    """The key belongs to an effect already: of this run, or of another."""
    if key.state == "settled" or key.effect_id is None:
        raise IdempotencyConflict(
            f"{asked.tool.name} was carried out under this key before, and its record has been erased",
            hint="it is not sent again; use another key if this is meant to be another effect",
            tool=asked.tool.name,
        )
    effect = yield from effect_now(key.effect_id)
    if effect is None:
        # A key is bound in the append that makes its effect, so this row was lost since.
        raise RowsDiffer(
            f"the key of this {asked.tool.name} call belongs to effect {key.effect_id}, which has no row",
            effect_id=key.effect_id,
        )
    return (yield from _on_record(asked, effect))


def _on_record(asked: Asked, effect: Standing) -> Flow[Any]:
    _check_same(asked, effect)
    if effect.run_id == asked.scope.run_id:
        return (yield from _own(asked, effect))
    return (yield from _of_another_run(asked, effect))


def _check_same(asked: Asked, effect: Standing) -> None:
    """The same key with another tool or other arguments is a conflict (FORMAT 8); the version does not matter."""
    if effect.tool == asked.tool.name and effect.arguments_index in (None, asked.identity.arguments_index):
        return
    recorded, given = (
        str(effect.arguments_index)[:SHOWN_DIGITS],
        asked.identity.arguments_index[:SHOWN_DIGITS],
    )
    raise IdempotencyConflict(
        f"the key of this {asked.tool.name} call belongs to effect {effect.effect_id} of tool {effect.tool} with "
        f"arguments {recorded}…; this call has arguments {given}…",
        hint="one key is one effect: give another effect another key, or repeat the call as it was",
        effect_id=effect.effect_id,
        tool=effect.tool,
        recorded=recorded,
        given=given,
    )


def _own(asked: Asked, effect: Standing) -> Flow[Any]:
    """An effect of this run: answered silently as often as it was answered before, then as a repeat (case S11)."""
    calls = asked.past.calls(effect.effect_id)
    failure = calls.failure(asked.number)
    if failure is not None and not is_refusal(failure):
        return answer_of_event(failure)
    if effect.state in FINAL:
        silent = asked.number <= calls.answered and effect.effect_id not in asked.past.begun_here
        return (yield from _answer(asked, effect, silent=silent))
    if asked.past.live(effect.effect_id):
        return (yield from _with_sibling(asked, effect))
    if effect.effect_id in asked.past.begun_here:
        # A sibling may have come to its end between the look at the effect and the look at who is busy with it.
        effect = (yield from effect_now(effect.effect_id)) or effect
        if effect.state in FINAL:
            return (yield from _answer(asked, effect, silent=False))
    if effect.state == "failed":
        if calls.retry_due_ms is not None:
            due_ms, calls.retry_due_ms = calls.retry_due_ms, None
            return (yield from _again(asked, _taken_up(asked, effect), due_ms))
        return (yield from _next_attempt(asked, effect))
    if effect.state in IN_DOUBT:
        return (yield from _end_doubt(asked, _taken_up(asked, effect)))
    raise _parked(asked, _taken_up(asked, effect), waiting_for(effect.effect_id, effect))


def _with_sibling(asked: Asked, effect: Standing) -> Flow[Any]:
    """Another task or thread of this run is busy with the effect: what comes of it is this call's answer too.

    Bounded by the effect's deadline; then, and where waiting could not end, the caller is told that it is in flight.
    """
    while busy := asked.past.live(effect.effect_id):
        now = asked.scope.ports.now_ms()
        if _overdue(effect, now):
            # A further attempt under the doubt rule has a deadline of its own.
            effect = (yield from effect_now(effect.effect_id)) or effect
        if _overdue(effect, now) or not asked.handle.may_wait_for(busy):
            raise _in_flight(asked, effect)
        yield from asked.handle.interruptibly(Wait(SIBLING_STEP_S, polling=True))
        asked.scope.check()
    effect = (yield from effect_now(effect.effect_id)) or effect
    if effect.state in FINAL:
        return (yield from _answer(asked, effect, silent=False))
    return (yield from _on_record(asked, effect))


def _overdue(effect: Standing, now_ms: int) -> bool:
    return now_ms > (effect.deadline_ms or 0) + LEASE_MARGIN_MS


def _taken_up(asked: Asked, effect: Standing) -> Work:
    """A recorded effect, to go on with; rule, deadline and arguments are those of its intention."""
    return asked.work(
        effect.effect_id,
        permit=asked.decisions.recorded_permit(effect.effect_id),
        doubt=effect.doubt,
        attempt=effect.attempt,
        intended_event_id=effect.intended_event_id,
        deadline_ms=effect.deadline_ms or 0,
        lookups=effect.lookups,
        schema=effect.schema,
        began_ms=effect.intended_at_ms,
    )


def _end_doubt(asked: Asked, work: Work) -> Flow[Any]:
    """An earlier entry of this run left it in doubt; this one holds the lease, so it follows the rule."""
    asked.scope.frontier(f"the outcome of effect {work.effect_id}")
    asked.past.resumed(work.effect_id, asked.handle)
    try:
        resolution = yield from resolve(work, first_case(work, ended=False))
    except Overtaken as other:
        return (yield from _elsewise(asked, work, other))
    finally:
        asked.past.ended(work.effect_id, asked.handle)
    return _handed_out(asked, work, resolution)


def _next_attempt(asked: Asked, effect: Standing) -> Flow[Any]:
    """The last attempt was confirmed not done, and the code asks again: the same effect, one more attempt."""
    taken = yield from key_now(asked.row_after(effect))
    if taken is not None:
        # Another run has taken the key over since.
        return (yield from _key_taken(asked, taken))
    asked.check_sendable()
    work = _taken_up(asked, effect)
    permit = yield from permitted(asked, effect.effect_id)
    if permit is not UNASKED:
        work = replace(work, permit=permit, recorded=permit.recorded or asked.recorded)
    work.attempt += 1
    work.doubt = asked.tool.doubt.kind
    asked.past.resumed(work.effect_id, asked.handle)
    try:
        try:
            yield from intend_unless_held(asked, work, *asked.may_follow(effect))
            asked.decisions.keep(permit.decided)
        except GuardFailed as moved:
            if moved.fields["table"] == APPROVALS.name:
                return (yield from _next_attempt(asked, effect))
        else:
            return (yield from _carry_out(asked, work))
    finally:
        asked.past.ended(work.effect_id, asked.handle)
    # A sibling made the next attempt a moment before, or another run took the key over.
    return (yield from _with_sibling(asked, effect))


def _of_another_run(asked: Asked, effect: Standing) -> Flow[Any]:
    """A business key that another run has used: its recorded outcome, or the key if that effect was not done."""
    if effect.state in FINAL:
        silent = asked.number <= asked.past.calls(effect.effect_id).repeats
        return (yield from _answer(asked, effect, silent=silent))
    if effect.state != "failed":
        raise _in_flight(asked, effect)
    taken = yield from key_now(asked.row_after(effect))
    if taken is not None:
        return (yield from _key_taken(asked, taken))
    return (yield from _first_call(asked, *asked.may_follow(effect), takes_over=effect.effect_id))


def _answer(asked: Asked, effect: Standing, *, silent: bool) -> Flow[Any]:
    """Hand out what is recorded; what was not asked before is itself a fact: ``effect.repeated``."""
    if not silent:
        asked.scope.frontier(f"another call of effect {effect.effect_id}")
        draft = events.repeated(asked.scope, effect.effect_id, effect.first_event_id)
        try:
            yield from append_patiently(append(asked.scope, (draft,)))
        except Fenced as fenced:
            raise asked.scope.latch(asked.scope.lost()) from fenced
    event = yield from asked.past.decision(effect)
    return answer_of_event(event)


def _in_flight(asked: Asked, effect: Standing) -> EffectInFlight:
    waiting = effect.state in IN_REVIEW
    return EffectInFlight(
        f"effect {effect.effect_id} of tool {asked.tool.name} is {'in review' if waiting else 'under way or in doubt'}"
        " and is not sent again",
        hint="settle its review"
        if waiting
        else "try again later, or run `counterfoil recover` if its worker is gone",
        effect_id=effect.effect_id,
        run_id=effect.run_id,
        state=effect.state,
    )
