"""A lone append as one statement: compare the head, move it, insert events and records, commit (DESIGN 4)."""

from __future__ import annotations

from typing import Any, Final, Protocol

import psycopg

from counterfoil.adapters.postgres.clock import DatabaseClock
from counterfoil.adapters.postgres.connect import BoundedConnection, ask
from counterfoil.adapters.postgres.heads import HeadMemory, KnownHead
from counterfoil.adapters.postgres.plan import Job
from counterfoil.adapters.postgres.schema import quoted
from counterfoil.adapters.postgres.tables import RowTables
from counterfoil.core.event import event_hash, splice
from counterfoil.core.forms import time_text
from counterfoil.core.limits import SEQUENCE_MAX
from counterfoil.store.unit import ANY, Position, Receipt

EVENTS_MAX: Final = 8
"""A unit of more events goes by COPY."""

UNIQUE_VIOLATION: Final = "23505"


class Attempt(Protocol):
    """Where a try notes that its commit may have reached the server, and what it would answer."""

    sent: bool
    answer: object


def append_lone(
    connection: BoundedConnection,
    heads: HeadMemory,
    tables: RowTables,
    job: Job,
    clock: DatabaseClock,
    attempt: Attempt,
) -> Receipt | None:
    """The receipt, or None when the head or the row tables are not as last seen or a check needs a closer look."""
    (part,) = job.streams
    known = heads.get(part.stream_id)
    if known is None or not 0 < job.events <= EVENTS_MAX or known.seq + job.events > SEQUENCE_MAX:
        return None
    if part.expected is not ANY and (part.expected.absent or part.expected.sequence not in {None, known.seq}):
        return None
    positions, headers = _placed(job, known, clock.now_ms())
    receipt = Receipt(tuple(positions))
    attempt.sent, attempt.answer = True, [receipt]
    try:
        ((moved,),) = ask(connection, *_call(tables, job, known, positions, headers))
    except psycopg.Error as error:
        if error.sqlstate != UNIQUE_VIOLATION:
            raise
        moved = False  # an event of this id is there already: a closer look tells whether it is the same
    attempt.sent = False
    if not moved:
        heads.contend(part.stream_id)
        return None
    heads.move(part.stream_id, positions[-1].sequence, positions[-1].hash)
    return receipt


def _placed(job: Job, known: KnownHead, now_ms: int) -> tuple[list[Position], list[bytes]]:
    """Where the events will stand, and their headers."""
    (part,) = job.streams
    time, seq, digest = time_text(now_ms), known.seq, known.hash
    positions, headers = [], []
    for event in part.events:
        seq += 1
        header = splice(event, seq, time, digest.hex())
        digest = event_hash(header)
        headers.append(header)
        positions.append(Position(part.stream_id, seq, event.event_id, now_ms, digest))
    return positions, headers


_ONE: Final = (
    "text",
    "bigint",
    "bytea",
    "bigint",
    "bigint",
    "bytea",
    "bigint",
    "text",
    "text",
    "text",
    "bytea",
    "bytea",
)
_SOME: Final = (
    *("text", "bigint", "bytea", "bigint", "bigint", "bigint", "bytea", "bigint"),
    *("bigint[]", "text[]", "text[]", "text[]", "bytea[]", "bytea[]", "bigint[]", "smallint[]", "bytea[]"),
)


def _marks(types: tuple[str, ...]) -> str:
    return ", ".join(f"%s::{name}" for name in types)


_ONE_MARKS: Final = _marks(_ONE)
_SOME_MARKS: Final = _marks(_SOME)


def _call(
    tables: RowTables, job: Job, known: KnownHead, positions: list[Position], headers: list[bytes]
) -> tuple[str, list[Any]]:
    """The statement with its parameters: ``append_lone_event`` for one event with one record at most, else ``append_lone``."""
    (part,) = job.streams
    last = positions[-1]
    head = [part.stream_id, known.seq, known.hash, part.token, tables.versions]
    if len(headers) == 1 and len(part.events[0].records) <= 1:
        event = part.events[0]
        record = event.records[0] if event.records else None
        named = [event.event_id, event.event_type, event.run_id]
        params = [*head, last.hash, last.recorded_at_ms, *named, headers[0], record]
        return f"SELECT {quoted(tables.schema)}.append_lone_event({_ONE_MARKS})", params
    records = [
        (place.sequence, number, record)
        for place, event in zip(positions, part.events, strict=True)
        for number, record in enumerate(event.records)
    ]
    return f"SELECT {quoted(tables.schema)}.append_lone({_SOME_MARKS})", [
        *(*head, last.sequence, last.hash, last.recorded_at_ms),
        [place.sequence for place in positions],
        [event.event_id for event in part.events],
        [event.event_type for event in part.events],
        [event.run_id for event in part.events],
        headers,
        [place.hash for place in positions],
        [record[0] for record in records],
        [record[1] for record in records],
        [record[2] for record in records],
    ]
