"""The same event twice: which events of a unit are recorded already, and whether they are the same (FORMAT 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from counterfoil.core.event import Prepared, same_event, splice
from counterfoil.core.forms import time_text
from counterfoil.errors import ChainBroken, CounterfoilError, EventIdReused, PartialDuplicate
from counterfoil.store.unit import Position, Receipt, StreamAppend

HASH_HEX: Final = 64


class Recorded(Struct):
    """An event that a stream already holds, as the duplicate check sees it."""

    event_id: str
    sequence: int
    recorded_at_ms: int
    header: bytes
    hash: bytes


Find = Callable[[str, Sequence[str]], Mapping[str, Recorded]]
"""Those of these events that the stream holds, by id. Asked only for events of the unit."""


def receipt_of_recorded(streams: Sequence[StreamAppend], find: Find) -> Receipt | None:
    """The original receipt if all events of a unit are recorded, None if none is.

    Raises EventIdReused or PartialDuplicate (FORMAT 5).
    """
    positions: list[Position] = []
    missing: list[str] = []
    for part in streams:
        ids = [event.event_id for event in part.events]
        recorded = find(part.stream_id, ids) if ids else {}
        for event in part.events:
            known = recorded.get(event.event_id)
            if known is None:
                missing.append(event.event_id)
                continue
            _check_same(event, known)
            positions.append(
                Position(part.stream_id, known.sequence, known.event_id, known.recorded_at_ms, known.hash)
            )
    if not positions:
        return None
    if missing:
        raise PartialDuplicate(
            f"{len(positions)} events of this append are recorded, {len(missing)} are not",
            hint="append the missing ones by themselves, or the same unit as before",
            present=[place.event_id for place in positions],
            missing=missing,
        )
    return Receipt(tuple(positions), duplicate=True)


def _check_same(event: Prepared, known: Recorded) -> None:
    place = f"event {known.event_id} is recorded at {event.stream_id} {known.sequence}"
    try:
        members = _differing(event, known)
    except (CounterfoilError, TypeError, ValueError) as error:
        raise ChainBroken(f"{place}, but what is stored there is no event header: {error}") from error
    if members:
        raise EventIdReused(
            f"{place} with other content",
            hint="a new fact needs a new event id",
            stream_id=event.stream_id,
            sequence=known.sequence,
            event_id=known.event_id,
            members=members,
        )


def _differing(event: Prepared, known: Recorded) -> list[str]:
    """Names of the members that differ; stored bytes that fit the event around its slots need no parsing."""
    previous = known.header[len(event.head) : len(event.head) + HASH_HEX].decode("ascii", "replace")
    time = time_text(known.recorded_at_ms)
    if splice(event, known.sequence, time, previous) == known.header:
        return []
    return same_event(splice(event, known.sequence, time, "0" * HASH_HEX), known.header)
