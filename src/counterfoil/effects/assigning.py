"""A review is given to a named person, with the time by which it should be settled."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.core.values import to_json
from counterfoil.effects import events
from counterfoil.effects.settle import TRIES_MAX
from counterfoil.effects.standing import ReviewStanding, review_now
from counterfoil.errors import GuardFailed, ReviewNotFound, SettledAlready
from counterfoil.flow.drafting import Outsider, Person
from counterfoil.flow.requests import Append, Entry, Flow, NewId, Now, UnitDraft


class Assigned(Struct, frozen=True):
    """Whom a review was given to. ``due_at_ms`` None: at no particular time."""

    review_id: str
    effect_id: str
    stream_id: str
    assignee: str
    due_at_ms: int | None = None


def assign_review(
    review_id: str, *, assignee: Person, person: Person, note: str = "", due_at_ms: int | None = None
) -> Flow[Assigned]:
    """Give an open review to ``assignee``, in the name of ``person``; the last assignment counts.

    Raises :class:`counterfoil.errors.ReviewNotFound`, or :class:`counterfoil.errors.SettledAlready`.
    """
    for _ in range(TRIES_MAX):
        review = yield from review_now(review_id)
        if review is None:
            raise ReviewNotFound(f"there is no review {review_id}", review_id=review_id)
        if review.state != "open":
            raise SettledAlready(
                f"review {review_id} was settled as {review.outcome}",
                hint="there is nothing left to be done about it",
                review_id=review_id,
                outcome=review.outcome,
            )
        draft = yield from _draft(review, assignee, person, note, due_at_ms)
        try:
            yield Append(UnitDraft((Entry(review.stream_id, (draft,)),), (review.still_open,)))
        except GuardFailed:
            continue
        return Assigned(review_id, review.effect_id, review.stream_id, assignee.name, due_at_ms)
    raise SettledAlready(
        f"review {review_id} kept changing while it was assigned", hint="look at it and decide again"
    )


def _draft(
    review: ReviewStanding, assignee: Person, person: Person, note: str, due_at_ms: int | None
) -> Flow[Draft]:
    """The event: each person's name under their own key."""
    event_id: str = yield NewId("evt")
    now: int = yield Now()
    content: dict[str, Any] = {"assignee": {"$part": 1}, "by": {"$part": 2}}
    if note:
        content["note"] = to_json(note, "note")
    if due_at_ms is not None:
        content["due_at"] = time_text(due_at_ms)
    by = Outsider(event_id, now, review.run_id, person)
    draft = events.review_assigned(by, review.review_id, assignee.key.key_id, content)
    names = [Part({"name": to_json(each.name, "name")}, key=each.key) for each in (assignee, person)]
    return replace(draft, parts=(*draft.parts, *names))
