"""The rows of effects, keys and reviews with names and types, as the flows read them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Self

from msgspec import Struct

from counterfoil.effects.decide import ReviewCause
from counterfoil.effects.doubt import DoubtKind
from counterfoil.effects.rows import EFFECT_KEYS, EFFECTS, REVIEWS
from counterfoil.effects.state import EffectState
from counterfoil.errors import RowsDiffer
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, RowOf
from counterfoil.store.rows import Key, RowIs


class _Typed(Struct, frozen=True):
    """Made of a row: the columns its fields are named after."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """The typed view of a row."""
        return cls(**{name: row[name] for name in cls.__struct_fields__})


class Standing(_Typed, frozen=True):
    """How an effect stands (a row of ``effects``)."""

    effect_id: str
    stream_id: str
    run_id: str
    tool: str
    schema: str | None
    doubt: DoubtKind
    state: EffectState
    outcome: str | None
    attempt: int
    lookups: int
    deadline_ms: int | None
    key_index: str | None
    arguments_index: str | None
    first_event_id: str
    first_sequence: int
    intended_event_id: str
    outcome_sequence: int | None
    intended_at_ms: int
    row_version: int

    @property
    def unchanged(self) -> RowIs:
        """Guard: nothing has happened to the effect since."""
        return RowIs(EFFECTS.name, (self.effect_id,), version=self.row_version)


class KeyStanding(_Typed, frozen=True):
    """Whom a key belongs to (a row of ``effect_keys``); ``settled`` when erasure has reduced it (FORMAT 8)."""

    state: str
    effect_id: str | None


class ReviewStanding(_Typed, frozen=True):
    """How a review stands (a row of ``reviews``)."""

    review_id: str
    effect_id: str
    stream_id: str
    run_id: str | None
    state: str
    cause: ReviewCause
    outcome: str | None
    row_version: int

    @property
    def still_open(self) -> RowIs:
        """Guard: nobody has settled or reopened it since."""
        return RowIs(REVIEWS.name, (self.review_id,), frozenset({"open"}), self.row_version)


def effect_now(effect_id: str) -> Flow[Standing | None]:
    """The effect as it stands in the ledger, or None."""
    row = yield Read(RowOf(EFFECTS.name, (effect_id,)))
    return None if row is None else Standing.of(row)


def pointed_event(effect: Standing, sequence: int, types: Collection[str]) -> Flow[Event]:
    """The event of this effect that its row points to, and no other: a row is only a copy of what events say.

    Raises :class:`counterfoil.errors.RowsDiffer` when another event stands there, or none.
    """
    found: list[Event] = yield Read(Events(effect.stream_id, after=sequence - 1, limit=1))
    if not found or found[0].sequence != sequence:
        raise row_differs(effect, sequence, "there is none")
    event = found[0]
    if event.type not in types or event.data.get("effect_id") != effect.effect_id:
        raise row_differs(effect, sequence, f"it is another one ({event.type})")
    return event


def row_differs(effect: Standing, sequence: int | None, wrong: str) -> RowsDiffer:
    """The error for a row that points to what is not there."""
    return RowsDiffer(
        f"the row of effect {effect.effect_id} points to event {sequence} of {effect.stream_id}, and {wrong}",
        effect_id=effect.effect_id,
        stream_id=effect.stream_id,
        sequence=sequence,
    )


def key_now(key: Key) -> Flow[KeyStanding | None]:
    """The key (tenant, index value) as it stands in the ledger, or None."""
    row = yield Read(RowOf(EFFECT_KEYS.name, key))
    return None if row is None else KeyStanding.of(row)


def review_now(review_id: str) -> Flow[ReviewStanding | None]:
    """The review as it stands in the ledger, or None."""
    row = yield Read(RowOf(REVIEWS.name, (review_id,)))
    return None if row is None else ReviewStanding.of(row)
