"""Answers that come after their call was given up: kept, and never overwriting what was recorded (DESIGN 2.6)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from counterfoil.core.event import Draft
from counterfoil.effects import events
from counterfoil.effects.decide import Late, judge_late
from counterfoil.effects.outcome import Verdict, judge_call
from counterfoil.effects.standing import Standing, effect_now
from counterfoil.errors import CounterfoilError, GuardFailed, InputError
from counterfoil.flow.calls import start_in_thread
from counterfoil.flow.context import RunScope
from counterfoil.flow.drafting import Writes
from counterfoil.flow.drive import drive
from counterfoil.flow.requests import Append, Entry, Flow, Raised, Returned, UnitDraft

if TYPE_CHECKING:
    from counterfoil.effects.attempt import Work

TRIES_MAX: Final = 16
"""How often a late answer looks again because the effect moved between reading and writing."""

_log = logging.getLogger("counterfoil.effects")


def record_late(work: Work, verdict: Verdict, attempt: events.Attempt | None = None) -> Flow[Standing | None]:
    """Keep an answer without a token, in the effect's own stream; a different one contradicts and opens a review.

    Returns how the effect stands then, or None when it is gone or moved too often to be judged.
    """
    attempt = attempt or work.latest
    for _ in range(TRIES_MAX):
        effect = yield from effect_now(attempt.effect_id)
        if effect is None:
            return None
        drafts = _drafts(work.scope, effect, attempt, verdict)
        if not drafts:
            return effect
        try:
            yield Append(UnitDraft((Entry(effect.stream_id, drafts),), (effect.unchanged,)))
        except GuardFailed:
            continue
        except InputError as refused:
            verdict = verdict.without_result(refused)
            continue
        return (yield from effect_now(attempt.effect_id))
    return None


def _drafts(
    scope: RunScope, effect: Standing, attempt: events.Attempt, verdict: Verdict
) -> tuple[Draft, ...]:
    meaning = judge_late(effect.state, effect.outcome, effect.attempt, verdict.outcome, attempt.number)
    if meaning == "ignore":
        return ()
    observed = events.late_observed(scope, attempt, verdict, scope.token)
    return (observed, *consequences(scope, meaning, effect, attempt, verdict))


def consequences(
    by: Writes, meaning: Late, effect: Standing, attempt: events.Attempt, verdict: Verdict
) -> Iterator[Draft]:
    """What follows from a late observation in the same append: that it contradicts, and a person who is asked."""
    if meaning == "contradict":
        yield events.contradicted(by, attempt, effect.state, effect.outcome, verdict)
    if meaning in ("contradict", "reopen"):
        known = {"recorded": effect.outcome, "found": verdict.outcome, "attempt": attempt.number}
        yield events.review_requested(by, attempt, "contradicted", known)


def watch(work: Work, call: Future[Any] | None, *, in_flight: bool = False) -> None:
    """Record the end of a call that is no longer waited for, whenever it comes, while this process lives.

    ``in_flight`` lets the run wait for it, bounded, before it gives up its lease: the caller was cancelled, but the
    call itself goes on. A tool that touches nothing has nothing to say late.
    """
    if call is None or work.doubt == "repeat":
        return
    attempt = work.latest
    landing = work.handle.take_over() if in_flight else None

    def ended(done: Future[Any]) -> None:
        # This may be the event loop's thread, which must not wait for a disk.
        start_in_thread(_keep, (work, attempt, done, landing), {})

    call.add_done_callback(ended)


def _keep(work: Work, attempt: events.Attempt, done: Future[Any], landing: Callable[[], None] | None) -> None:
    try:
        failure = None if done.cancelled() else done.exception()
        if done.cancelled():
            return
        verdict = judge_call(work.tool, Returned(done.result()) if failure is None else Raised(failure))
        if verdict.outcome == "unknown":
            return
        try:
            drive(record_late(work, verdict, attempt), work.scope.ports)
        except CounterfoilError as error:
            # The intention stands without a known outcome, so the effect is recovered like any other in doubt.
            _log.warning("a late answer for effect %s could not be recorded: %s", attempt.effect_id, error)
    finally:
        if landing is not None:
            landing()
