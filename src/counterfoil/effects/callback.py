"""What a provider says by itself about an effect, found by its key: kept once, never overwriting (DESIGN 2.4 and 2.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.core import canonical
from counterfoil.core.event import Draft
from counterfoil.core.ids import derived_id, is_id
from counterfoil.core.values import to_json
from counterfoil.effects import events
from counterfoil.effects.decide import Late, judge_late
from counterfoil.effects.doubt import OUTCOMES, Outcome
from counterfoil.effects.identity import successor_index
from counterfoil.effects.late import TRIES_MAX, consequences
from counterfoil.effects.outcome import MESSAGE_CHARACTERS_MAX, PROVIDER_ID_CHARACTERS_MAX, Verdict
from counterfoil.effects.standing import Standing, effect_now, key_now
from counterfoil.effects.state import OPEN
from counterfoil.errors import (
    EffectNotFound,
    EventIdReused,
    GuardFailed,
    IdempotencyConflict,
    InvalidForm,
    PartialDuplicate,
    StoreBusy,
)
from counterfoil.flow.drafting import Outsider
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, Entry, EventsById, Flow, NewId, Now, Read, UnitDraft
from counterfoil.store.unit import Receipt

FOLLOWERS_MAX: Final = 1_000
"""Effects that may have taken one key over, one after the other."""


class Callback(Struct, frozen=True):
    """What the provider says. ``result`` is what the tool would have returned, for the code that resumes.

    ``delivery`` is the provider's own id of this message: the same one again is the same message. Without it, the same
    words about the same effect are. ``attempt`` says which attempt a failure is about, if the provider tells them apart.
    """

    outcome: Outcome
    result: Any = None
    provider_id: str | None = None
    message: str = ""
    delivery: str | None = None
    attempt: int | None = None
    content: dict[str, Any] = field(default_factory=dict)

    def checked(self) -> Callback:
        """With its content in recordable form. Raises an InputError that names what is wrong."""
        if self.outcome not in OUTCOMES:
            raise InvalidForm(
                f"a callback says {', '.join(OUTCOMES)}",
                hint="a provider that is still working on it says nothing yet",
                argument="outcome",
            )
        if self.result is not None and self.outcome != "succeeded":
            raise InvalidForm("only what succeeded has a result; say the rest in message", argument="result")
        content: dict[str, Any] = {}
        if self.outcome == "succeeded" and self.result is not None:
            content["result"] = to_json(self.result, "result")
        if self.provider_id is not None:
            content["provider_effect_id"] = to_json(self.provider_id, "provider_id")[
                :PROVIDER_ID_CHARACTERS_MAX
            ]
        if self.outcome != "succeeded":
            words = self.message or f"the provider said by itself: {self.outcome}"
            content["error"] = {
                "class": "Callback",
                "message": to_json(words, "message")[:MESSAGE_CHARACTERS_MAX],
            }
            if self.outcome == "failed":
                content["error"]["kind"] = "NotDone"
        if self.delivery is not None:
            content["delivery"] = to_json(self.delivery, "delivery")
        return replace(self, content=content)

    @property
    def verdict(self) -> Verdict:
        """As an observation."""
        return Verdict(self.outcome, self.content, None if self.outcome == "succeeded" else "Callback")


class Heard(Struct, frozen=True):
    """What a callback came to, and the effect's state now.

    ``done``: ``decided`` (it ended the doubt), ``confirmed`` (it says what was known), ``contradicted`` (a person is
    asked), ``repeated`` (it was heard before), ``ignored`` (it may be about an older attempt and says nothing of this one).
    """

    effect_id: str
    stream_id: str
    tool: str
    state: str
    done: Literal["decided", "confirmed", "contradicted", "repeated", "ignored"]


_DONE: Final[Mapping[Late, Literal["confirmed", "contradicted", "ignored"]]] = {
    "keep": "confirmed",
    "reopen": "contradicted",
    "contradict": "contradicted",
    "ignore": "ignored",
}


def hear(ports: Ports, key: str, said: Callback, tool: str | None = None) -> Flow[Heard]:
    """Keep what a provider said about the effect with this idempotency key, or with this id.

    Needs no lease and no token, and may come at any time: while the call is under way, after its answer, late, twice,
    or after a person has settled it. Raises ``EffectNotFound``, ``IdempotencyConflict`` when the key belongs to another
    tool, or an InputError.
    """
    said = said.checked()
    effect_id = yield from _find(ports, key)
    for _ in range(TRIES_MAX):
        effect = yield from effect_now(effect_id)
        if effect is None:
            raise _unknown(effect_id)
        if tool is not None and effect.tool != tool:
            raise IdempotencyConflict(
                f"this key belongs to effect {effect_id} of tool {effect.tool}, not of {tool}",
                hint="tell the tools of different providers apart in their keys",
                effect_id=effect_id,
                tool=effect.tool,
            )
        heard = yield from _hear(ports, effect, said)
        if heard is not None:
            return heard
    raise StoreBusy(f"effect {effect_id} kept changing while a callback was recorded; nothing was recorded")


def _find(ports: Ports, key: str) -> Flow[str]:
    """The effect that has the key now: the last of those that took it over from one that was not done."""
    if is_id(key, "eff"):
        effect = yield from effect_now(key)
        if effect is None or not ports.owns(effect.stream_id):
            raise _unknown(key)
        return key
    found = yield from key_now((ports.tenant, ports.index("effect", key)))
    if found is None:
        raise EffectNotFound(
            "no effect of this tenant has this idempotency key",
            hint="its intention is durable before its call, so it is another ledger, another tenant or another key",
        )
    if found.effect_id is None:
        raise EffectNotFound(
            "an effect was carried out under this key, and its record has been erased",
            hint="what it says can be kept nowhere any more",
        )
    for _ in range(FOLLOWERS_MAX):
        follower = yield from key_now((ports.tenant, successor_index(ports.index, found.effect_id or "")))
        if follower is None or follower.effect_id is None:
            break
        found = follower
    return found.effect_id or ""


def _unknown(effect_id: str) -> EffectNotFound:
    return EffectNotFound(
        f"there is no effect {effect_id} in this ledger",
        hint="`counterfoil ls effects` lists them",
        effect_id=effect_id,
    )


def _hear(ports: Ports, effect: Standing, said: Callback) -> Flow[Heard | None]:
    """One look and one append; None when the effect moved in between."""
    event_id = _event_id(ports, effect, said)
    known: list[Any] = yield Read(EventsById(effect.stream_id, (event_id,)))
    if known:
        return _heard(effect, "repeated")
    # A failure that is not tied to an attempt may be that of the first: it says nothing of a later one.
    number = said.attempt or (effect.attempt if said.outcome != "failed" else 1)
    meaning = judge_late(effect.state, effect.outcome, effect.attempt, said.outcome, number)
    if meaning == "ignore" or (meaning == "keep" and effect.state == said.outcome == "failed"):
        return _heard(effect, "ignored" if meaning == "ignore" else "confirmed")
    attempt = events.Attempt(effect.effect_id, number, effect.intended_event_id)
    now: int = yield Now()
    by = Outsider(event_id, now, effect.run_id)
    drafts: list[Draft] = [events.late_observed(by, attempt, said.verdict, None, "callback")]
    for draft in consequences(by, meaning, effect, attempt, said.verdict):
        other_id: str = yield NewId("evt")
        drafts.append(replace(draft, event_id=other_id))
    try:
        unit = UnitDraft((Entry(effect.stream_id, tuple(drafts)),), (effect.unchanged,))
        receipt: Receipt = yield Append(unit)
    except GuardFailed:
        return None
    except (EventIdReused, PartialDuplicate):
        return _heard(effect, "repeated")
    decided = meaning == "keep" and effect.state in OPEN
    after = yield from effect_now(effect.effect_id)
    if receipt.duplicate:
        # The same message, delivered twice within a millisecond: another one recorded it in the same words.
        return _heard(after or effect, "repeated")
    return _heard(after or effect, "decided" if decided else _DONE[meaning])


def _event_id(ports: Ports, effect: Standing, said: Callback) -> str:
    """Made of what is said, so that a message that is delivered twice is recorded once."""
    words: Any = (
        {"delivery": said.delivery}
        if said.delivery is not None
        else [said.outcome, said.attempt, said.content]
    )
    material = ports.material(effect.stream_id)
    source = ["callback", effect.effect_id]
    return derived_id("evt", material.keyed("derived-id", source, canonical.encode(words)))


def _heard(
    effect: Standing, done: Literal["decided", "confirmed", "contradicted", "repeated", "ignored"]
) -> Heard:
    return Heard(effect.effect_id, effect.stream_id, effect.tool, effect.state, done)
