"""The checks of an append, in the order of the contract: duplicate, stream, fenced, expected, guards."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterfoil.adapters.sqlite.connect import fetch
from counterfoil.adapters.sqlite.heads import HeadState
from counterfoil.adapters.sqlite.plan import GuardStep, Job
from counterfoil.adapters.sqlite.transaction import WriteTransaction
from counterfoil.core.event import Prepared, same_event, splice
from counterfoil.core.forms import time_text
from counterfoil.errors import (
    ChainBroken,
    CounterfoilError,
    EventIdReused,
    Fenced,
    GuardFailed,
    PartialDuplicate,
    StreamExists,
    StreamNotFound,
    WrongSequence,
)
from counterfoil.store.rows import STATE_COLUMN, VERSION_COLUMN, Absent, Row
from counterfoil.store.unit import ANY, Head, Position, Receipt, StreamAppend

IDS_PER_QUERY: Final = 500
"""Below the least number of variables that any build of SQLite allows in a statement."""

HASH_HEX: Final = 64

_NO_TOKENS: Final[Mapping[str, int]] = {}


@dataclass(slots=True)
class Recorded:
    """An event that the stream already holds, as the duplicate check sees it."""

    event_id: str
    sequence: int
    recorded_at_ms: int
    header: bytes
    hash: bytes


def find_recorded(
    connection: sqlite3.Connection, stream_id: str, event_ids: Sequence[str]
) -> dict[str, Recorded]:
    """Those of these events that the stream holds, by id."""
    found: dict[str, Recorded] = {}
    for start in range(0, len(event_ids), IDS_PER_QUERY):
        ids = event_ids[start : start + IDS_PER_QUERY]
        rows = fetch(
            connection,
            "SELECT event_id, seq, recorded_at, header, hash FROM event"
            " WHERE stream = (SELECT number FROM stream WHERE stream_id = ?)"
            f" AND event_id IN ({', '.join('?' * len(ids))})",
            (stream_id, *ids),
        )
        found |= {row[0]: Recorded(*row) for row in rows}
    return found


def check_duplicate(connection: sqlite3.Connection, job: Job) -> Receipt | None:
    """The original receipt if all events of the unit are recorded, None if none is.

    Raises EventIdReused or PartialDuplicate (FORMAT 5).
    """
    positions: list[Position] = []
    missing: list[str] = []
    for part in job.streams:
        ids = [event.event_id for event in part.events]
        recorded = find_recorded(connection, part.stream_id, ids) if ids else {}
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
    again = splice(event, known.sequence, time_text(known.recorded_at_ms), previous)
    if again == known.header:
        return []
    return same_event(
        splice(event, known.sequence, time_text(known.recorded_at_ms), "0" * HASH_HEX), known.header
    )


def refusal_of(transaction: WriteTransaction, job: Job) -> CounterfoilError | None:
    """Why the unit must not be recorded now, duplicates apart; None if it may."""
    try:
        check(transaction, job, _NO_TOKENS)
    except CounterfoilError as error:
        return error
    return None


def check(transaction: WriteTransaction, job: Job, tokens: Mapping[str, int]) -> None:
    """Stream, fenced, expected, guards; each over all streams before the next begins.

    ``tokens`` holds the fencing tokens that a claim is about to set. Raises what the unit is refused with.
    """
    heads = [_head_for(transaction, part) for part in job.streams]
    for part, head in zip(job.streams, heads):  # noqa: B905 - one for each, made a line above
        if part.token is not None:
            _check_token(part, head, tokens)
    for part, head in zip(job.streams, heads):  # noqa: B905 - as above
        if part.expected is not ANY:
            _check_expected(part, head)
    if job.guards:
        transaction.flush_rows()
        for step in job.guards:
            _check_guard(transaction, step)


def _head_for(transaction: WriteTransaction, part: StreamAppend) -> HeadState | None:
    head = transaction.head(part.stream_id)
    if head is None and part.create is None:
        raise StreamNotFound(f"there is no stream {part.stream_id}", stream_id=part.stream_id)
    if head is not None and part.create is not None and part.create.text != head.genesis:
        raise StreamExists(f"stream {part.stream_id} exists with another genesis", stream_id=part.stream_id)
    return head


def _check_token(part: StreamAppend, head: HeadState | None, tokens: Mapping[str, int]) -> None:
    newest = tokens.get(part.stream_id, 0 if head is None else head.token)
    if part.token != newest:
        raise fenced(part.stream_id, part.token or 0, newest, head)


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


def _check_guard(transaction: WriteTransaction, step: GuardStep) -> None:
    guard = step.guard
    rows = fetch(transaction.connection, step.table.get, guard.key)
    row = step.table.row(rows[0]) if rows else None
    if not _holds(step, row):
        raise GuardFailed(
            f"a row of {guard.table} is not as the caller expected it",
            hint="the error's field `row` holds the row as it is now; decide again",
            table=guard.table,
            key=guard.key,
            row=row,
        )


def _holds(step: GuardStep, row: Row | None) -> bool:
    guard = step.guard
    if isinstance(guard, Absent):
        return row is None
    if row is None or (guard.version is not None and row[VERSION_COLUMN] != guard.version):
        return False
    return not guard.states or row[STATE_COLUMN] in guard.states


def require(transaction: WriteTransaction, job: Job, tokens: Mapping[str, int] | None = None) -> Receipt:
    """Record a unit that must succeed with the rest of its transaction. Raises what refuses it."""
    if job.refusal is not None:
        raise job.refusal
    receipt = check_duplicate(transaction.connection, job)
    if receipt is None:
        check(transaction, job, tokens or _NO_TOKENS)
        receipt = transaction.place(job)
    return receipt
