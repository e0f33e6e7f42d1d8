"""The checks of an append, in the order of the contract: duplicate, stream, fenced, expected, guards."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from counterfoil.adapters.shared.duplicates import Recorded, receipt_of_recorded
from counterfoil.adapters.shared.refusals import check_expected, check_stream, check_token
from counterfoil.adapters.sqlite.connect import fetch
from counterfoil.adapters.sqlite.packing import plain_header
from counterfoil.adapters.sqlite.plan import GuardStep, Job
from counterfoil.adapters.sqlite.transaction import WriteTransaction
from counterfoil.errors import CounterfoilError, GuardFailed, InternalError
from counterfoil.store.rows import Absent, Guard
from counterfoil.store.unit import ANY, Receipt

IDS_PER_QUERY: Final = 500
"""Below the least number of variables that any build of SQLite allows in a statement."""

_NO_TOKENS: Final[Mapping[str, int]] = {}


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
        found |= {row[0]: Recorded(row[0], row[1], row[2], plain_header(row[3]), row[4]) for row in rows}
    return found


def check_duplicate(connection: sqlite3.Connection, job: Job) -> Receipt | None:
    """See ``shared.duplicates.receipt_of_recorded``."""
    return receipt_of_recorded(job.streams, partial(find_recorded, connection))


def refusal_of(transaction: WriteTransaction, job: Job) -> CounterfoilError | None:
    """Why the unit must not be recorded now, duplicates apart; None if it may.

    Guards that a row change answers are left to it: what it meets then is no refusal, but has the unit checked alone.
    """
    try:
        _check(transaction, job, _NO_TOKENS, job.asked)
    except CounterfoilError:
        return _first_refusal(transaction, job)
    return None


def _first_refusal(transaction: WriteTransaction, job: Job) -> CounterfoilError:
    """What refuses the unit first: a guard that is left to a row change may stand before the one that failed."""
    try:
        check(transaction, job, _NO_TOKENS)
    except CounterfoilError as error:
        return error
    raise InternalError("a check failed that then held in the same transaction")


def check(transaction: WriteTransaction, job: Job, tokens: Mapping[str, int]) -> None:
    """Stream, fenced, expected, guards; each over all streams before the next begins.

    ``tokens`` holds the fencing tokens that a claim is about to set. Raises what the unit is refused with.
    """
    _check(transaction, job, tokens, job.guards)


def _check(
    transaction: WriteTransaction, job: Job, tokens: Mapping[str, int], guards: Sequence[GuardStep]
) -> None:
    heads = [transaction.head(part.stream_id) for part in job.streams]
    for part, head in zip(job.streams, heads):  # noqa: B905 - one for each, made a line above
        if head is None or part.create is not None:
            check_stream(part, head)
    for part, head in zip(job.streams, heads):  # noqa: B905 - as above
        if part.token is not None:
            check_token(part, head, tokens.get(part.stream_id))
    for part, head in zip(job.streams, heads):  # noqa: B905 - as above
        if part.expected is not ANY:
            check_expected(part, head)
    if guards:
        transaction.flush_rows()
        for step in guards:
            _check_guard(transaction, step)


def _check_guard(transaction: WriteTransaction, step: GuardStep) -> None:
    guard = step.guard
    found = fetch(transaction.connection, step.table.stands, guard.key)
    if not _holds(guard, found[0] if found else None):
        rows = fetch(transaction.connection, step.table.get, guard.key)
        row = step.table.row(rows[0]) if rows else None
        raise GuardFailed(
            f"a row of {guard.table} is not as the caller expected it",
            hint="the error's field `row` holds the row as it is now; decide again",
            table=guard.table,
            key=guard.key,
            row=row,
        )


def _holds(guard: Guard, found: tuple[Any, ...] | None) -> bool:
    """Whether a guard holds of a row's version and state (None: there is no such row)."""
    if found is None or isinstance(guard, Absent):
        return found is None and isinstance(guard, Absent)
    version, state = found
    if guard.version is not None and version != guard.version:
        return False
    return not guard.states or state in guard.states


def require(transaction: WriteTransaction, job: Job, tokens: Mapping[str, int] | None = None) -> Receipt:
    """Record a unit that must succeed with the rest of its transaction. Raises what refuses it."""
    if job.refusal is not None:
        raise job.refusal
    receipt = check_duplicate(transaction.connection, job)
    if receipt is None:
        check(transaction, job, tokens or _NO_TOKENS)
        receipt = transaction.place(job)
    return receipt
