"""The checks of an append on locked heads and rows, in the order of the contract: duplicate, fenced, expected, guards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterfoil.adapters.memory.tables import Table, check_guards
from counterfoil.adapters.postgres.heads import HeadState
from counterfoil.adapters.postgres.plan import Job
from counterfoil.core.event import Prepared, same_event, splice
from counterfoil.core.forms import time_text
from counterfoil.errors import (
    ChainBroken,
    CounterfoilError,
    EventIdReused,
    Fenced,
    PartialDuplicate,
    StreamExists,
    StreamNotFound,
    WrongSequence,
)
from counterfoil.store.unit import Head, Position, Receipt, StreamAppend

HASH_HEX: Final = 64

Recorded = dict[tuple[str, str], "Known"]
"""Events that are there already, by stream and event id."""


@dataclass(slots=True)
class Known:
    """An event that the stream already holds, as the duplicate check sees it."""

    event_id: str
    sequence: int
    recorded_at_ms: int
    header: bytes
    hash: bytes


def check_duplicate(recorded: Recorded, job: Job) -> Receipt | None:
    """The original receipt if all events of the unit are recorded, None if none is.

    Raises EventIdReused or PartialDuplicate (FORMAT 5).
    """
    positions: list[Position] = []
    missing: list[str] = []
    for part in job.streams:
        for event in part.events:
            known = recorded.get((part.stream_id, event.event_id))
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


def _check_same(event: Prepared, known: Known) -> None:
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


def _differing(event: Prepared, known: Known) -> list[str]:
    """Names of the members that differ; stored bytes that fit the event around its slots need no parsing."""
    time = time_text(known.recorded_at_ms)
    previous = known.header[len(event.head) : len(event.head) + HASH_HEX].decode("ascii", "replace")
    if splice(event, known.sequence, time, previous) == known.header:
        return []
    return same_event(splice(event, known.sequence, time, "0" * HASH_HEX), known.header)


def check(
    heads: Mapping[str, HeadState], tables: Mapping[str, Table], job: Job, tokens: Mapping[str, int]
) -> None:
    """Stream, fenced, expected, guards; each over all streams before the next begins.

    ``tokens`` holds the fencing tokens that a claim is about to set. Raises what the unit is refused with.
    """
    found = [_head_for(heads, part) for part in job.streams]
    for part, head in zip(job.streams, found, strict=True):
        newest = tokens.get(part.stream_id, 0 if head is None else head.token)
        if part.token is not None and part.token != newest:
            raise fenced(part.stream_id, part.token, newest, head)
    for part, head in zip(job.streams, found, strict=True):
        _check_expected(part, head)
    check_guards(tables, job.unit.guards)


def _head_for(heads: Mapping[str, HeadState], part: StreamAppend) -> HeadState | None:
    head = heads.get(part.stream_id)
    if head is None and part.create is None:
        raise StreamNotFound(f"there is no stream {part.stream_id}", stream_id=part.stream_id)
    if head is not None and part.create is not None and part.create.text != head.genesis:
        raise StreamExists(f"stream {part.stream_id} exists with another genesis", stream_id=part.stream_id)
    return head


def fenced(stream_id: str, token: int, newest: int, head: HeadState | None) -> Fenced:
    """The refusal of a stale token."""
    return Fenced(
        f"token {token} of stream {stream_id} is stale: the newest is {newest}",
        hint="somebody else has claimed it, or the lease was released; look again before you decide",
        stream_id=stream_id,
        token=newest,
        lease=None if head is None else head.lease(),
    )


def _check_expected(part: StreamAppend, state: HeadState | None) -> None:
    expected = part.expected
    sequence = 0 if state is None else state.seq
    if (expected.absent and state is not None) or expected.sequence not in {None, sequence}:
        wanted = "no stream" if expected.absent else f"sequence {expected.sequence}"
        head = Head(part.stream_id, 0, b"" if part.create is None else part.create.hash)
        raise WrongSequence(
            f"the caller expected {wanted}, but the head of {part.stream_id} is at sequence {sequence}",
            stream_id=part.stream_id,
            head=head if state is None else state.head(),
        )
