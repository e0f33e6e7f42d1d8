"""Correcting a recorded fact: a new fact beside it says what is right, who says so and why; nothing is edited (seed 004)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from counterfoil.core.values import from_json, to_json
from counterfoil.errors import NotFoundError
from counterfoil.flow.drafting import Outsider, Person
from counterfoil.flow.event import Event
from counterfoil.flow.requests import (
    Append,
    Entry,
    Events,
    EventsById,
    Flow,
    NewId,
    Now,
    Read,
    Rows,
    UnitDraft,
)
from counterfoil.repair import events
from counterfoil.repair.rows import CORRECTIONS
from counterfoil.store.rows import Key, Row

PAGE_ROWS = 500


class Corrected(Struct, frozen=True):
    """The correction as it stands. ``repeated``: the same person had said the same before and nothing was written."""

    event_id: str
    corrects: str
    stream_id: str
    repeated: bool = False


class Fact(Struct, frozen=True):
    """A recorded event with everything that was said of it since, the oldest first."""

    event: Event
    corrections: tuple[Event, ...]

    @property
    def value(self) -> Any:
        """The right value: that of the last correction; the event's own content where there is none.

        Raises :class:`counterfoil.errors.ContentUnavailable` when it is erased, withheld, missing or damaged.
        """
        if not self.corrections:
            return from_json(dict(self.event.content))
        return from_json(self.corrections[-1].content["value"])


def correct_fact(
    stream_id: str, event_id: str, value: Any, *, person: Person, reason: str, evidence: Any = None
) -> Flow[Corrected]:
    """Record what is right in place of what an event says. The event stays as it was recorded.

    The last correction is in force; the same one again changes nothing. Raises ``NotFoundError``, or an InputError for
    what cannot be recorded.
    """
    fact = yield from fact_now(stream_id, event_id)
    if fact.corrections and _says(fact.corrections[-1], value, reason, person):
        return Corrected(fact.corrections[-1].event_id, event_id, stream_id, repeated=True)
    new_id: str = yield NewId("evt")
    now: int = yield Now()
    by = Outsider(new_id, now, fact.event.header.run_id, person)
    draft = events.corrected(by, event_id, value, reason, evidence, person)
    yield Append(UnitDraft((Entry(stream_id, (draft,)),)))
    return Corrected(new_id, event_id, stream_id)


def _says(correction: Event, value: Any, reason: str, person: Person) -> bool:
    content = correction.content_or_none() or {}
    by = content.get("by")
    name = by.get("name") if isinstance(by, Mapping) else None
    return (name, content.get("reason"), content.get("value")) == (
        person.name,
        to_json(reason, "reason"),
        to_json(value, "value"),
    )


def fact_now(stream_id: str, event_id: str) -> Flow[Fact]:
    """An event with its corrections. Raises ``NotFoundError``."""
    found: list[Event] = yield Read(EventsById(stream_id, (event_id,)))
    if not found:
        raise NotFoundError(f"there is no event {event_id} in {stream_id}", event_id=event_id)
    rows = yield from _correction_rows(event_id)
    sequences = [int(row["sequence"] or 0) for row in rows if row["stream_id"] == stream_id]
    corrections = yield from _events_at(stream_id, sequences)
    return Fact(found[0], tuple(corrections))


def _correction_rows(event_id: str) -> Flow[list[Row]]:
    found: list[Row] = []
    after: Key | None = None
    while True:
        query = Rows(CORRECTIONS.name, "by_corrected", (event_id,), PAGE_ROWS, after)
        page: list[Row] = yield Read(query)
        found += page
        if len(page) < PAGE_ROWS:
            return found
        after = CORRECTIONS.place_in("by_corrected", page[-1])


def _events_at(stream_id: str, sequences: Sequence[int]) -> Flow[list[Event]]:
    found: list[Event] = []
    for sequence in sequences:
        found += yield Read(Events(stream_id, after=sequence - 1, limit=1))
    return found
