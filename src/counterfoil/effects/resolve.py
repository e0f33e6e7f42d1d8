"""Ending doubt by the recorded rule: ask, send again, or hand it to a human; shared by perform and recovery."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from typing import Any, Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.core.event import Draft
from counterfoil.effects import events
from counterfoil.effects.attempt import Overtaken, Work, intend, observe, record, send
from counterfoil.effects.decide import (
    AskHuman,
    Case,
    Leave,
    LookUp,
    ReviewCause,
    SendAgain,
    WaitUntil,
    next_step,
)
from counterfoil.effects.doubt import Absent, Answer, CannotTell, Found, answer_of
from counterfoil.effects.outcome import (
    MESSAGE_CHARACTERS_MAX,
    Verdict,
    error_content,
    judge_found,
    told_content,
)
from counterfoil.effects.standing import Standing
from counterfoil.effects.state import IN_REVIEW, review_of
from counterfoil.effects.suitable import RESTS_ON_KEY
from counterfoil.errors import EffectHeld, Fenced, GuardFailed, InputError, ToolInvalid
from counterfoil.errors.base import text_of
from counterfoil.flow.context import LEASE_MARGIN_MS
from counterfoil.flow.requests import Call, CallResult, Flow, Now, Raised, Returned, Wait


class Parked(Struct, frozen=True):
    """The doubt stays: a human has been asked (``review``), or a later recovery goes on (``effect``)."""

    cause: Literal["review", "effect"]
    waits_for: str
    why: str


Resolution = Verdict | Parked
"""How an effect ended, or what it waits for."""


def first_case(work: Work, *, ended: bool) -> Case:
    """The doubt as it is taken up. ``ended``: the last attempt was a call of this worker that has come back."""
    return Case(
        doubt=work.doubt,
        deadline_ms=work.deadline_ms,
        attempt=work.attempt,
        lookups=work.lookups,
        ended=ended,
        attempts_here=1 if ended else 0,
    )


def resolve(work: Work, case: Case, *news: Draft) -> Flow[Resolution]:
    """Follow the doubt rule until the effect is decided, a human is asked, or enough was tried for now.

    ``news`` is what is already known and not yet recorded; it goes into the next append. Raises
    :class:`Overtaken` when an answer came by another way, ``LeaseLost``, or what parked the run meanwhile.
    """
    try:
        return (yield from _resolve(work, case, news))
    except Fenced as fenced:
        raise work.scope.latch(work.scope.lost()) from fenced
    except EffectHeld as held:
        # The doubt stays what it is: nothing is sent to end it, and a later recovery goes on.
        return Parked("effect", work.effect_id, held.message)
    except GuardFailed as moved:
        row = moved.fields["row"]
        raise Overtaken(None if row is None else Standing.of(row)) from moved


def look_back(work: Work, *, may_be_done: bool) -> Flow[Resolution | None]:
    """In a ledger that was restored: whether this effect was carried out in the lost stretch, asked before its first call.

    None where the call may go out: the provider says that it was not done, takes the same key only once, or the tool
    touches nothing. ``may_be_done`` says that its key can have been used then; where only a person can tell, one is
    asked. Raises as :func:`resolve`.
    """
    case = first_case(work, ended=True)
    try:
        match work.doubt:
            case "lookup" | "lookup_then_key":
                found, case, news = yield from _look_up(work, case, 0)
                if found is not None:
                    return found
                if case.answer == "cannot_tell":
                    return (yield from _ask_human(work, case, "cannot_tell", news))
                yield from record(work, news)
                return None
            case "review" if may_be_done:
                return (yield from _ask_human(work, case, "by_review", ()))
            case _:
                return None
    except Fenced as fenced:
        raise work.scope.latch(work.scope.lost()) from fenced
    except GuardFailed as moved:
        row = moved.fields["row"]
        raise Overtaken(None if row is None else Standing.of(row)) from moved


def _resolve(work: Work, case: Case, news: tuple[Draft, ...]) -> Flow[Resolution]:
    while True:
        now: int = yield Now()
        step = _possible(work, next_step(case, now))
        match step:
            case AskHuman(cause):
                return (yield from _ask_human(work, case, cause, news))
            case Leave():
                yield from record(work, news)
                return Parked(
                    "effect", work.effect_id, "its outcome is unknown and could not be found out yet"
                )
            case WaitUntil(time_ms):
                yield from record(work, news)
                yield from work.handle.interruptibly(Wait((time_ms - now) / 1000))
                news = ()
            case LookUp(delay_ms):
                yield from record(work, news)
                found, case, news = yield from _look_up(work, case, delay_ms)
                if found is not None:
                    return found
            case SendAgain(delay_ms):
                decided, case, news = yield from _send_again(work, case, delay_ms, news)
                if decided is not None:
                    return decided
            case _:
                assert_never(step)


def _possible(work: Work, step: AskHuman | Leave | WaitUntil | LookUp | SendAgain) -> Any:
    """What today's code cannot do any more goes to a human: the rule is the recorded one, the tool is today's."""
    parameters = work.tool.parameters
    match step:
        case LookUp():
            able = work.tool.doubt.lookup is not None
        case SendAgain():
            able = not work.schema_changed and (work.doubt not in RESTS_ON_KEY or parameters.takes_key)
        case _:
            return step
    return step if able and _readable(work) else AskHuman("schema_changed")


def _readable(work: Work) -> bool:
    try:
        work.fresh_arguments()
    except InputError:
        return False
    return True


# ---- asking the provider -----------------------------------------------------------------------------------------


def _look_up(work: Work, case: Case, delay_ms: int) -> Flow[tuple[Verdict | None, Case, tuple[Draft, ...]]]:
    """Ask the provider. A found outcome is recorded together with the answer; any other waits for what follows."""
    if delay_ms:
        yield from work.handle.interruptibly(Wait(delay_ms / 1000))
    scope, tool = work.scope, work.tool
    scope.check()
    now: int = yield Now()
    yield from scope.held(now + round(tool.timeout_s * 1000) + LEASE_MARGIN_MS)
    assert tool.doubt.lookup is not None
    arguments = tool.lookup_arguments(work.fresh_arguments(), work.key)
    call = Call(f"the lookup of {tool.name}", tool.doubt.lookup, kwargs=arguments, timeout_s=tool.timeout_s)
    result: CallResult = yield from work.handle.interruptibly(call)
    if isinstance(result, Returned) and inspect.iscoroutine(result.value):
        # A plain function that hands on the coroutine of an async one is a lookup as good as any, in async code.
        if tool.asynchronous:
            result = yield from work.handle.interruptibly(
                replace(call, fn=_awaited, kwargs={"answer": result.value})
            )
        else:
            result.value.close()
    if isinstance(result, Raised) and not isinstance(result.error, Exception):
        raise result.error
    answered: int = yield Now()
    answer, content = _answer(result)
    work.lookups += 1
    if isinstance(answer, Found):
        verdict = judge_found(tool, answer)
        told = events.looked_up(scope, work.latest, "found", work.lookups, content)
        yield from observe(work, verdict, told, events.observed(scope, work.latest, verdict, "lookup"))
        return verdict, case, ()
    absent = isinstance(answer, Absent)
    told = events.looked_up(scope, work.latest, "absent" if absent else "cannot_tell", work.lookups, content)
    case = replace(
        case,
        answer="absent" if absent else "cannot_tell",
        answered_ms=answered,
        reached=isinstance(result, Returned),
        lookups=work.lookups,
        lookups_here=case.lookups_here + 1,
        absent_here=case.absent_here + absent,
    )
    return None, case, (told,)


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _answer(result: CallResult) -> tuple[Answer, Mapping[str, Any]]:
    """The provider's answer and its content. A question that did not get through cannot tell."""
    if isinstance(result, Raised):
        return CannotTell("the lookup raised"), {
            "answer": "not reached",
            "error": error_content(result.error),
        }
    if not isinstance(result, Returned):
        return CannotTell("the lookup gave no answer in time"), {
            "answer": "not reached",
            "error": {"class": "TimeoutError"},
        }
    answer = answer_of(result.value)
    match answer:
        case Found(outcome, found):
            # The result itself is recorded with the observation that follows; here only how it was found.
            return answer, {"answer": "found", "outcome": outcome} | (
                {} if outcome == "succeeded" else told_content(found)
            )
        case Absent():
            return answer, {"answer": "absent"}
        case CannotTell(reason):
            return answer, {"answer": "cannot_tell", "reason": text_of(reason)[:MESSAGE_CHARACTERS_MAX]}


# ---- sending again -----------------------------------------------------------------------------------------------


def _send_again(
    work: Work, case: Case, delay_ms: int, news: tuple[Draft, ...]
) -> Flow[tuple[Verdict | None, Case, tuple[Draft, ...]]]:
    """A new attempt under the same key, decided and intended before it is made."""
    error = dict(news[-1].parts[0].value).get("error", {}) if news and news[-1].parts else {}
    try:
        work.artifacts.found()
    except ToolInvalid:
        # Without what it refers to it cannot be sent; the doubt stays, and what is known of it is kept.
        yield from record(work, news)
        raise
    decided = events.retry_decided(work.scope, work.latest, _why(case, news), delay_ms, error)
    yield from record(work, (*news, decided))
    if delay_ms:
        yield from work.handle.interruptibly(Wait(delay_ms / 1000))
    work.scope.check()
    work.attempt += 1
    yield from intend(work, work.in_doubt)
    verdict, observation = yield from send(work)
    if verdict.outcome != "unknown":
        return verdict, case, ()
    case = replace(
        case,
        deadline_ms=work.deadline_ms,
        attempt=work.attempt,
        attempts_here=case.attempts_here + 1,
        ended=True,
        answer=None,
        lookups_here=0,
        absent_here=0,
    )
    return None, case, (observation,)


def _why(case: Case, news: tuple[Draft, ...]) -> str:
    """The class of what went before: of the error, or that nothing was found, or that nothing was observed."""
    if case.answer == "absent":
        return "Absent"
    recorded = [draft.data.get("error_class") for draft in news]
    return str(recorded[-1]) if recorded and recorded[-1] else "Unobserved"


# ---- asking a human ----------------------------------------------------------------------------------------------


def _ask_human(work: Work, case: Case, cause: ReviewCause, news: tuple[Draft, ...]) -> Flow[Parked]:
    known: dict[str, Any] = {
        "attempts": case.attempt,
        "lookups": case.lookups,
        "last_answer": case.answer,
    }
    if cause == "schema_changed":
        parameters = work.tool.parameters
        known["schema"] = {"recorded": work.schema, "now": parameters.schema}
        known["tool_version_now"] = work.tool.version
        known["arguments"] = parameters.unfit(work.recorded)
    yield from record(work, (*news, events.review_requested(work.scope, work.latest, cause, known)))
    return Parked("review", review_of(work.effect_id), f"a human is asked how it ended ({cause})")


def waiting_for(effect_id: str, effect: Standing | None) -> Parked:
    """What a run waits for whose effect is open in the hands of somebody else."""
    if effect is not None and effect.state == "contradicted":
        return Parked(
            "review",
            review_of(effect_id),
            "two answers are recorded that contradict each other; a human says which holds",
        )
    if effect is not None and effect.state in IN_REVIEW:
        return Parked("review", review_of(effect_id), "a human is asked how it ended")
    return Parked("effect", effect_id, "another worker is at it")
