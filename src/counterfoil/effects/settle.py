"""A named human says how an effect ended that no machine could find out (DESIGN 7)."""

from __future__ import annotations

from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.core.event import Draft, Part
from counterfoil.core.values import to_json
from counterfoil.effects import events
from counterfoil.effects.decide import judge_settlement
from counterfoil.effects.rows import EFFECTS
from counterfoil.effects.standing import ReviewStanding, review_now
from counterfoil.effects.state import IN_REVIEW
from counterfoil.errors import GuardFailed, InputError, KeyMissing, ReviewNotFound, SettledAlready
from counterfoil.flow.drafting import Outsider, Person
from counterfoil.flow.requests import Append, Entry, Flow, NewId, Now, UnitDraft
from counterfoil.store.rows import RowIs

SettledOutcome = Literal["succeeded", "rejected", "failed", "abandoned"]
"""``failed`` is confirmed not done; ``abandoned`` is not known and given up. None of them is sent again."""

TRIES_MAX = 16
"""How often a settlement looks again because the review moved between reading and writing."""


class Settled(Struct, frozen=True):
    """The settlement as it stands. ``repeated``: it had been settled like this before and nothing was written.

    ``without_content``: the conversation's key is missing, so outcome and person are recorded and the reason is not.
    """

    review_id: str
    effect_id: str
    stream_id: str
    outcome: str
    repeated: bool = False
    without_content: bool = False


def settle_effect(
    review_id: str,
    outcome: SettledOutcome,
    *,
    person: Person,
    reason: str,
    evidence: Any = None,
    result: Any = None,
) -> Flow[Settled]:
    """Settle a review. ``result`` is what the tool would have returned, for the code that resumes after a success.

    Settling again with the same outcome changes nothing. Where the conversation's key is missing, outcome and person
    alone are recorded, and ``result`` or ``evidence`` are refused: nobody could read them. Raises :class:`counterfoil.errors.ReviewNotFound`,
    :class:`counterfoil.errors.SettledAlready` for another outcome, or an InputError for what cannot be recorded.
    """
    if outcome not in get_args(SettledOutcome):
        raise InputError(
            f"a review is settled as {', '.join(get_args(SettledOutcome))}, not {str(outcome)[:40]!r}",
            hint="`failed` means confirmed not done; if nobody knows, it is abandoned",
        )
    if result is not None and outcome != "succeeded":
        raise InputError(
            "only a settlement as succeeded has a result", hint="put what is known into the reason"
        )
    content = _content(outcome, reason, evidence, result)
    for _ in range(TRIES_MAX):
        review = yield from review_now(review_id)
        if review is None:
            raise ReviewNotFound(f"there is no review {review_id}", review_id=review_id)
        match judge_settlement(review.state, review.outcome, outcome):
            case "same":
                return _settled(review, outcome, repeated=True)
            case "refuse":
                raise _already(review, outcome)
        draft = yield from _draft(review, outcome, content, person)
        try:
            try:
                yield _append(review, draft)
            except KeyMissing as missing:
                _check_bare(review, result, evidence, missing)
                yield _append(review, replace(draft, parts=()))
                return replace(_settled(review, outcome), without_content=True)
        except GuardFailed:
            continue
        return _settled(review, outcome)
    raise SettledAlready(
        f"review {review_id} kept changing while it was settled", hint="look at it and decide again"
    )


def _content(outcome: str, reason: str, evidence: Any, result: Any) -> dict[str, Any]:
    content: dict[str, Any] = {"reason": to_json(reason, "reason"), "by": {"$part": 1}}
    if evidence is not None:
        content["evidence"] = to_json(evidence, "evidence")
    if outcome == "succeeded":
        content["result"] = to_json(result, "result")
    return content


def _draft(
    review: ReviewStanding, outcome: SettledOutcome, content: dict[str, Any], person: Person
) -> Flow[Draft]:
    """The event: reason and result under the stream's key, the person's name under their own."""
    event_id: str = yield NewId("evt")
    now: int = yield Now()
    by = Outsider(event_id, now, review.run_id, person)
    draft = events.settled(by, review.effect_id, outcome, content)
    return replace(draft, parts=(*draft.parts, Part({"name": to_json(person.name, "by")}, key=person.key)))


def _append(review: ReviewStanding, draft: Draft) -> Append:
    still_waiting = RowIs(EFFECTS.name, (review.effect_id,), IN_REVIEW)
    return Append(UnitDraft((Entry(review.stream_id, (draft,)),), (review.still_open, still_waiting)))


def _check_bare(review: ReviewStanding, result: Any, evidence: Any, missing: KeyMissing) -> None:
    """Refuse what cannot be kept rather than drop it; the reason alone may go, for the outcome has to be said."""
    if result is not None or evidence is not None:
        raise KeyMissing(
            f"review {review.review_id} is about a conversation whose key is missing, so neither result nor evidence can be kept",
            hint="settle it without them: outcome and person are recorded, and the reason is not;"
            " if the key was not erased, restore the key store's last backup first",
            review_id=review.review_id,
            key_id=missing.fields.get("key_id"),
        ) from missing


def _settled(review: ReviewStanding, outcome: str, *, repeated: bool = False) -> Settled:
    return Settled(review.review_id, review.effect_id, review.stream_id, outcome, repeated=repeated)


def _already(review: ReviewStanding, outcome: str) -> SettledAlready:
    return SettledAlready(
        f"review {review.review_id} was settled as {review.outcome}; it cannot become {outcome}",
        hint="what was recorded stays: `counterfoil repair correct EVENT` records a correction beside it,"
        f" `counterfoil repair start {review.effect_id}` undoes what was done",
        review_id=review.review_id,
        outcome=review.outcome,
    )
