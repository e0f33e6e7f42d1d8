"""Typed constructors of the events about effects: one function an event type, public fields named (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from counterfoil.abc.policy import Ruling
from counterfoil.core.event import Draft
from counterfoil.core.forms import time_text
from counterfoil.effects.decide import ATTEMPTS_MAX, ReviewCause, recorded_word
from counterfoil.effects.doubt import DoubtKind
from counterfoil.effects.identity import Occurrence
from counterfoil.effects.outcome import Verdict
from counterfoil.effects.state import review_of
from counterfoil.flow.drafting import Writes

Source = Literal["call", "lookup", "callback", "import"]


class Attempt(Struct, frozen=True):
    """One attempt at an effect: its number, and the intention that every later event of it is caused by."""

    effect_id: str
    number: int
    intended_event_id: str


class Intention(Struct, frozen=True):
    """What ``effect.intended`` says of the tool and the call."""

    tool: str
    tool_version: str
    schema: str
    doubt: DoubtKind
    touches: tuple[str, ...]
    arguments: Mapping[str, Any]
    idempotency_key: str
    binding: str
    occurrence: Occurrence | None = None
    identity: tuple[str, ...] | None = None
    """The arguments that the call is known by, where they are not all."""
    takes_over: str | None = None
    approval_id: str | None = None
    proposed: Mapping[str, Any] | None = None
    """The arguments that were asked for, where a policy allowed others."""
    compensates: str | None = None


def decision_proposed(
    by: Writes,
    effect_id: str,
    tool: str,
    tool_version: str,
    binding: str,
    arguments: Mapping[str, Any],
    occurrence: Occurrence | None,
    place: Occurrence | None,
) -> Draft:
    """What the agent wants, before anybody judged it."""
    content: dict[str, Any] = {"arguments": arguments}
    if place is not None:
        content["place"] = {"path": place[0], "number": place[1]}
    if occurrence is not None:
        content["occurrence"] = {"path": occurrence[0], "number": occurrence[1]}
    data = {"effect_id": effect_id, "tool": tool, "tool_version": tool_version, "binding": binding}
    return by.draft("decision.proposed", data, content)


def policy_evaluated(
    by: Writes,
    effect_id: str,
    policy: tuple[str, str],
    ruling: Ruling,
    binding: str,
    content: Mapping[str, Any],
    *,
    enforced: bool = True,
) -> Draft:
    """What the policy (its name and revision) said; ``binding`` is that of the call it is about, as it allows it.

    ``enforced`` False: it was only recorded, and the call is made as it was asked for.
    """
    data: dict[str, Any] = {
        "effect_id": effect_id,
        "policy": policy[0],
        "revision": policy[1],
        "outcome": ruling.outcome,
        "rules": list(ruling.rules),
        "binding": binding,
    }
    if not enforced:
        data["enforced"] = False
    return by.draft("policy.evaluated", data, content)


def intended(by: Writes, effect_id: str, attempt: int, deadline_ms: int, what: Intention) -> Draft:
    """Before the call. The key stands in plain text only here (FORMAT 8)."""
    content: dict[str, Any] = {"arguments": what.arguments, "idempotency_key": what.idempotency_key}
    if what.touches:
        content["target"] = {"touches": list(what.touches)}
    if what.occurrence is not None:
        content["occurrence"] = {"path": what.occurrence[0], "number": what.occurrence[1]}
    if what.identity is not None:
        content["identity"] = list(what.identity)
    if what.takes_over is not None:
        content["takes_over"] = what.takes_over
    if what.proposed is not None:
        content["proposed"] = what.proposed
    data = {
        "effect_id": effect_id,
        "tool": what.tool,
        "tool_version": what.tool_version,
        "schema": what.schema,
        "doubt": what.doubt,
        "binding": what.binding,
        "deadline": time_text(deadline_ms),
    }
    if what.approval_id is not None:
        data["approval_id"] = what.approval_id
    if what.compensates is not None:
        data["compensates"] = what.compensates
    return by.draft("effect.intended", data, content, attempt=attempt)


def observed(
    by: Writes, attempt: Attempt, verdict: Verdict, source: Source = "call", latency_ms: int | None = None
) -> Draft:
    """After the call, or after a lookup that found the effect."""
    return _observation(by, "effect.observed", attempt, verdict, source, latency_ms, None)


def late_observed(
    by: Writes, attempt: Attempt, verdict: Verdict, token: int | None, source: Source = "call"
) -> Draft:
    """An answer that came after its call was given up or its worker had lost the run."""
    return _observation(by, "effect.late_observed", attempt, verdict, source, None, token)


def _observation(
    by: Writes,
    event_type: str,
    attempt: Attempt,
    verdict: Verdict,
    source: Source,
    latency_ms: int | None,
    token: int | None,
) -> Draft:
    data: dict[str, Any] = {"effect_id": attempt.effect_id, "outcome": verdict.outcome, "source": source}
    if verdict.error_class is not None:
        data["error_class"] = verdict.error_class
    if latency_ms is not None:
        data["latency_ms"] = max(0, latency_ms)
    if token is not None:
        data["fencing_token"] = token
    return by.draft(
        event_type,
        data,
        verdict.content,
        attempt=attempt.number,
        causation_event_id=attempt.intended_event_id,
    )


def looked_up(
    by: Writes,
    attempt: Attempt,
    answer: Literal["found", "absent", "cannot_tell"],
    lookup: int,
    content: Mapping[str, Any],
) -> Draft:
    """The provider was asked for the ``lookup``-th time."""
    return by.draft(
        "effect.looked_up",
        {"effect_id": attempt.effect_id, "answer": answer, "lookup": lookup},
        content,
        attempt=attempt.number,
        causation_event_id=attempt.intended_event_id,
    )


def retry_decided(
    by: Writes,
    attempt: Attempt,
    error_class: str,
    delay_ms: int,
    error: Mapping[str, Any],
    *,
    retry: bool = True,
    attempts_max: int = ATTEMPTS_MAX,
) -> Draft:
    """The same call goes out again with the same key, ``delay_ms`` after this is recorded; or it does not."""
    return by.draft(
        "retry.decided",
        {
            "effect_id": attempt.effect_id,
            "error_class": error_class,
            "retry": retry,
            "attempts_max": attempts_max,
            "delay_ms": delay_ms,
            "same_key": True,
        },
        {"error": error} if error else None,
        attempt=attempt.number,
        causation_event_id=attempt.intended_event_id,
    )


def review_requested(by: Writes, attempt: Attempt, cause: ReviewCause, known: Mapping[str, Any]) -> Draft:
    """No way out is left to the machine: a human is asked."""
    return by.draft(
        "effect.review_requested",
        {"effect_id": attempt.effect_id, "review_id": review_of(attempt.effect_id), "cause": cause},
        known,
        causation_event_id=attempt.intended_event_id,
    )


def review_assigned(by: Writes, review_id: str, assignee: str, content: Mapping[str, Any]) -> Draft:
    """A person is asked to settle it; ``assignee`` is the id of their data key in this stream (FORMAT 3)."""
    return by.draft("review.assigned", {"review_id": review_id, "assignee": assignee}, content)


def repeated(by: Writes, effect_id: str, first_event_id: str) -> Draft:
    """The effect was asked for again; its recorded outcome was handed out and nothing was sent."""
    return by.draft(
        "effect.repeated",
        {"effect_id": effect_id, "first": first_event_id},
    )


def contradicted(by: Writes, attempt: Attempt, state: str, outcome: str | None, verdict: Verdict) -> Draft:
    """What is now found differs from what was recorded (DESIGN 2.6)."""
    recorded = recorded_word(state, outcome)
    return by.draft(
        "effect.contradicted",
        {
            "effect_id": attempt.effect_id,
            "review_id": review_of(attempt.effect_id),
            "recorded": recorded,
            "found": verdict.outcome,
        },
        {"recorded": {"state": recorded, "outcome": outcome}, "found": dict(verdict.content)},
        attempt=attempt.number,
        causation_event_id=attempt.intended_event_id,
    )


def settled(
    by: Writes,
    effect_id: str,
    outcome: Literal["succeeded", "rejected", "failed", "abandoned"],
    content: Mapping[str, Any],
) -> Draft:
    """A named human says how it ended. ``content`` is part 0; the person's name goes under their own key."""
    return by.draft(
        "effect.settled",
        {"effect_id": effect_id, "review_id": review_of(effect_id), "outcome": outcome},
        content,
    )
