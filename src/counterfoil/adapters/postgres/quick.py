"""A batch in one round trip: judged on what this handle remembers, and written only if all of that is still so.

The units are judged as ever, by the oracle's code, but on heads and rows as this handle last wrote them. Everything is
then sent as one statement, which is a transaction: heads and rows are compared with the memory as they are written, in the
order in which every writer locks them. Where anything is another than remembered, nothing is recorded and the batch goes
the usual way. Nobody is ever refused on a memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg

from counterfoil.adapters.memory.tables import Table
from counterfoil.adapters.postgres.arrays import Bigints, Blobs, Smallints, Texts
from counterfoil.adapters.postgres.cells import rows_json
from counterfoil.adapters.postgres.connect import ask
from counterfoil.adapters.postgres.heads import HeadMemory, HeadState
from counterfoil.adapters.postgres.lone import UNIQUE_VIOLATION, Attempt
from counterfoil.adapters.postgres.plan import Job
from counterfoil.adapters.postgres.routines import MOVED
from counterfoil.adapters.postgres.schema import quoted
from counterfoil.adapters.postgres.transaction import LOOK, WriteTransaction, marks
from counterfoil.store.rows import Absent, Key, Put, Row
from counterfoil.store.unit import Outcome, Receipt

EVENTS_MAX: Final = 256
"""A batch of more events goes by COPY."""
ROWS_MAX: Final = 64
"""Rows of one table in a batch: each is compared with each that is remembered."""

_REFUSED: Final = frozenset({MOVED[:2], "22", "23", "25", "40", "42", "55"})
"""Classes of SQLSTATE that say that a statement failed, and not that the connection did."""

_TYPES: Final = (
    *("int8[]", "int8[]", "text[]", "text[]", "text[]", "bytea[]", "bytea[]"),
    *("int8[]", "int8[]", "int2[]", "bytea[]"),
)
_MARKS: Final = (
    "%s::int8, %s::int8, "
    + marks(("text", "int8", "bytea", "int8", "int8", "bytea"))
    + ", %s::int8, "
    + ", ".join(f"%s::{name}" for name in _TYPES)
)


def remember(transaction: WriteTransaction, memory: HeadMemory, jobs: Sequence[Job]) -> bool:
    """Give the transaction what is remembered in place of what is there; False when something is not."""
    if sum(job.events for job in jobs) > EVENTS_MAX or not all(job.events for job in jobs):
        return False
    streams = {part.stream_id for job in jobs for part in job.streams}
    if any(part.create is not None for job in jobs for part in job.streams) or any(job.held for job in jobs):
        return False
    rows = _rows(transaction, memory, jobs)
    if rows is None:
        return False
    heads: dict[str, HeadState] = {}
    for stream_id in streams:
        known = memory.get(stream_id)
        if known is None:
            return False
        heads[stream_id] = known.state(stream_id)
    transaction.remember(heads, rows)
    return True


def _rows(
    transaction: WriteTransaction, memory: HeadMemory, jobs: Sequence[Job]
) -> dict[str, dict[Key, Row | None]] | None:
    """The rows that decide, by table and key. A row that somebody puts, or wants absent, is taken to be absent."""
    found: dict[str, dict[Key, Row | None]] = {}
    guessed: set[tuple[str, Key]] = set()
    for job in jobs:
        absent = {(guard.table, guard.key) for guard in job.unit.guards if isinstance(guard, Absent)}
        for change in job.unit.rows:
            if isinstance(change, Put):
                spec = transaction.tables.table(change.table).spec
                absent.add((change.table, tuple(change.values[name] for name in spec.key)))  # type: ignore[misc]  # plain: checked by plan_unit
        guessed |= absent
    for job in jobs:
        for name, keys in job.keys.items():
            table = found.setdefault(name, {})
            for key in keys:
                row = memory.row(name, key)
                if row is None and (name, key) not in guessed:
                    return None
                table[key] = row
    watched = {name for name in found if transaction.tables.table(name).spec.watched}
    written = frozenset().union(*(job.written for job in jobs))
    return None if watched & written or any(len(keys) > ROWS_MAX for keys in found.values()) else found


def append_quick(
    transaction: WriteTransaction,
    memory: HeadMemory,
    outcomes: Sequence[Outcome],
    before: Mapping[str, HeadState],
    attempt: Attempt,
) -> bool:
    """Write and commit what units have made of their memory; False when that is not how things are."""
    judged = all(isinstance(outcome, Receipt) and not outcome.duplicate for outcome in outcomes)
    if not judged or _removes(transaction):
        return False
    connection = transaction.connection
    calls = [(f"{quoted(transaction.tables.schema)}.append_quick({_MARKS})", _events(transaction, before))]
    calls += _row_calls(transaction)
    attempt.sent, attempt.answer = True, list(outcomes)
    try:
        # Called in the order in which they stand there, each statement in them with a snapshot of its own.
        ask(
            connection,
            f"SELECT {', '.join(sql for sql, _ in calls)}",
            [one for _, given in calls for one in given],
        )
    except psycopg.Error as error:
        # Whatever the server refuses by an answer is rolled back.
        attempt.sent = (error.sqlstate or "")[:2] not in _REFUSED
        if error.sqlstate not in {MOVED, UNIQUE_VIOLATION}:
            raise
        if error.diag.message_detail and error.sqlstate == MOVED:
            memory.contend(error.diag.message_detail)
        memory.forget_rows((name, key) for name, table in transaction.rows_before().items() for key in table)
        return False
    return True


def _removes(transaction: WriteTransaction) -> bool:
    return any(
        row is not None and key not in transaction.rows[name].rows
        for name, before in transaction.rows_before().items()
        for key, row in before.items()
    )


def _events(transaction: WriteTransaction, before: Mapping[str, HeadState]) -> list[Any]:
    ids = sorted(before)
    number = {stream_id: place for place, stream_id in enumerate(ids, 1)}
    old, new = [before[one] for one in ids], [transaction.heads[one] for one in ids]
    events, records = transaction.events, transaction.contents
    return [
        transaction.lock_ms,
        transaction.tables.versions,
        Texts(ids),
        Bigints([head.seq for head in old]),
        Blobs([head.hash for head in old]),
        Bigints([head.token for head in old]),
        Bigints([head.seq for head in new]),
        Blobs([head.hash for head in new]),
        transaction.now_ms,
        Bigints([number[event[0]] for event in events]),
        Bigints([event[1] for event in events]),
        Texts([event[2] for event in events]),
        Texts([event[3] for event in events]),
        Texts([event[4] for event in events]),
        Blobs([event[7] for event in events]),
        Blobs([event[8] for event in events]),
        Bigints([number[record[0]] for record in records]),
        Bigints([record[1] for record in records]),
        Smallints([record[2] for record in records]),
        Blobs([record[4] for record in records]),
    ]


def _row_calls(transaction: WriteTransaction) -> list[tuple[str, list[Any]]]:
    """In the order of the tables' names, as every writer locks them."""
    made: list[tuple[str, list[Any]]] = []
    for name, before in sorted(transaction.rows_before().items()):
        table, now = transaction.tables.table(name), transaction.rows[name]
        if table.spec.watched:
            made.append((LOOK.removeprefix("SELECT "), [table.table]))
        made.append((table.swap, [rows_json(rows) if rows else None for rows in _swap(table, before, now)]))
    return made


def _swap(table: Any, before: Mapping[Key, Row | None], now: Table) -> tuple[list[Any], ...]:
    fresh, changed, was, kept, none = [], [], [], [], []
    for key, old in before.items():
        new = now.rows.get(key)
        if old is None and new is not None:
            fresh.append(new)
        elif old is None:
            none.append(table.keyed(key))
        elif new is old:
            kept.append(old)
        elif new is not None:
            changed.append(new)
            was.append(old)
    return fresh, changed, was, kept, none
