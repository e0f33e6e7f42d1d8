"""What a provider's book says of an effect in doubt, recorded as an observation in the name of a person (DESIGN 2.4)."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec.structs import replace

from counterfoil.core.event import Draft, Part
from counterfoil.core.values import to_json
from counterfoil.effects import events
from counterfoil.effects.outcome import Verdict
from counterfoil.effects.settle import settle_effect
from counterfoil.effects.standing import Standing, effect_now
from counterfoil.effects.state import IN_DOUBT, review_of
from counterfoil.errors import GuardFailed
from counterfoil.flow.drafting import Outsider, Person
from counterfoil.flow.requests import Append, Entry, Flow, NewId, Now, UnitDraft
from counterfoil.reconcile.compare import Finding

TRIES_MAX: Final = 16
"""How often recording looks again because the effect moved between reading and writing."""

Done = Literal["settled", "moved"]


def record_booked(finding: Finding, person: Person, evidence: dict[str, Any]) -> Flow[Done]:
    """Record that the provider has booked it: a review is settled, and doubt that nobody was asked about is ended.

    ``evidence`` says which book and line. ``moved``: the effect is not in doubt any more, and nothing is written.
    """
    assert finding.effect_id is not None, "what settles doubt is about an effect"
    for _ in range(TRIES_MAX):
        effect = yield from effect_now(finding.effect_id)
        if effect is None:
            return "moved"
        if effect.state == "in_review":
            yield from settle_effect(
                review_of(effect.effect_id),
                "succeeded",
                person=person,
                reason="it stands in the provider's own book",
                evidence=evidence,
            )
            return "settled"
        if effect.state not in IN_DOUBT:
            return "moved"
        draft = yield from _observed(effect, finding, person, evidence)
        try:
            yield Append(UnitDraft((Entry(effect.stream_id, (draft,)),), (effect.unchanged,)))
        except GuardFailed:
            continue
        return "settled"
    return "moved"


def _observed(effect: Standing, finding: Finding, person: Person, evidence: dict[str, Any]) -> Flow[Draft]:
    event_id: str = yield NewId("evt")
    now: int = yield Now()
    by = Outsider(event_id, now, effect.run_id, person)
    content: dict[str, Any] = {"evidence": to_json(evidence, "evidence"), "by": {"$part": 1}}
    if finding.provider_id is not None:
        content["provider_effect_id"] = finding.provider_id
    attempt = events.Attempt(effect.effect_id, effect.attempt, effect.intended_event_id)
    draft = events.late_observed(by, attempt, Verdict("succeeded", content), None, "import")
    return replace(draft, parts=(*draft.parts, Part({"name": to_json(person.name, "by")}, key=person.key)))
