"""The states of an effect and what moves it: one table that the fold and the rows both follow (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from counterfoil.core.ids import check_id

EffectState = Literal[
    "intended", "succeeded", "rejected", "failed", "unknown", "in_review", "settled", "contradicted"
]

IN_DOUBT: Final = frozenset({"intended", "unknown"})
"""The last attempt has no observation, or ``unknown``."""

IN_REVIEW: Final = frozenset({"in_review", "contradicted"})
"""A human has to say how it ended."""

OPEN: Final = IN_DOUBT | IN_REVIEW
"""States in which a run cannot end with success (DESIGN 2.15)."""

FINAL: Final = frozenset({"succeeded", "rejected", "settled"})
"""Never sent again (DESIGN 2.3). ``failed`` is not among them: it may get another attempt."""


class Move(Struct, frozen=True):
    """What one kind of event does: the state it leads to, from those states only; any other stays as it is."""

    to: EffectState
    out_of: frozenset[str]


_LATE: Final = IN_DOUBT | {"in_review"}

MOVES: Final[Mapping[str, Move]] = {
    "effect.intended": Move("intended", IN_DOUBT | {"failed"}),
    "effect.observed succeeded": Move("succeeded", IN_DOUBT),
    "effect.observed rejected": Move("rejected", IN_DOUBT),
    "effect.observed failed": Move("failed", IN_DOUBT),
    "effect.observed unknown": Move("unknown", IN_DOUBT),
    # What comes late ends doubt, also while a human is asked, and never overwrites (DESIGN 2.6).
    "effect.late_observed succeeded": Move("succeeded", _LATE),
    "effect.late_observed rejected": Move("rejected", _LATE),
    "effect.late_observed failed": Move("failed", _LATE),
    "effect.review_requested": Move("in_review", IN_DOUBT),
    "effect.settled": Move("settled", IN_REVIEW),
    "effect.contradicted": Move("contradicted", FINAL | {"failed", "contradicted"}),
}
"""Kinds of events that are not listed (``effect.looked_up``, ``effect.repeated``) change no state."""


WAYS_OUT: Final[Mapping[EffectState, str]] = {
    "intended": "recover",
    "unknown": "recover",
    "in_review": "review settle",
    "contradicted": "review settle",
    "failed": "recover",
}
"""The command that leads out of each state that is not final; out of ``failed`` only where a retry is due."""


def move_of(event_type: str, data: Mapping[str, Any]) -> Move | None:
    """What an event of this type and public data does to its effect, or None."""
    return MOVES.get(event_type) or MOVES.get(f"{event_type} {data.get('outcome')}")


class Effect(NamedTuple):
    """One effect as its events tell it, from public fields alone (DESIGN 2.7).

    ``outcome`` is the last observed or settled one; ``lookups`` counts the answers of the provider so far.
    """

    effect_id: str
    state: EffectState
    tool: str
    tool_version: str
    doubt: str
    attempt: int = 1
    lookups: int = 0
    outcome: str | None = None
    review_id: str | None = None


def evolve(
    effect: Effect | None, event_type: str, data: Mapping[str, Any], attempt: int | None = None
) -> Effect | None:
    """The effect after one more of its events. An event that does not fit the state leaves it as it is."""
    if effect is None:
        return _first(data, attempt) if event_type == "effect.intended" else None
    if event_type == "effect.looked_up":
        return effect._replace(lookups=data["lookup"])
    move = move_of(event_type, data)
    if move is None or effect.state not in move.out_of:
        return effect
    return effect._replace(state=move.to, **_changes(event_type, data, attempt))


def _first(data: Mapping[str, Any], attempt: int | None) -> Effect:
    return Effect(
        effect_id=data["effect_id"],
        state="intended",
        tool=data["tool"],
        tool_version=data["tool_version"],
        doubt=data["doubt"],
        attempt=attempt or 1,
    )


def _changes(event_type: str, data: Mapping[str, Any], attempt: int | None) -> dict[str, Any]:
    if event_type == "effect.intended":
        return {
            "attempt": attempt or 1,
            "tool_version": data["tool_version"],
            "doubt": data["doubt"],
            "outcome": None,
        }
    if event_type in ("effect.observed", "effect.late_observed", "effect.settled"):
        return {"outcome": data["outcome"]}
    return {"review_id": data["review_id"]}


def review_of(effect_id: str) -> str:
    """The id of the review of this effect: the same ULID, so that every event of the effect can find it."""
    return f"rev_{check_id(effect_id, 'eff').partition('_')[2]}"
