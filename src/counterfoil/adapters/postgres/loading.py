"""Loading streams that were recorded elsewhere, inside one write transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import psycopg

from counterfoil.adapters.memory.tables import check_change
from counterfoil.adapters.postgres.cells import given_text
from counterfoil.adapters.postgres.connect import fetch, run
from counterfoil.adapters.postgres.heads import HeadState
from counterfoil.adapters.postgres.leases import require
from counterfoil.adapters.postgres.plan import Job, touched
from counterfoil.adapters.postgres.schema import quoted
from counterfoil.adapters.postgres.tables import RowTables
from counterfoil.adapters.postgres.transaction import WriteTransaction
from counterfoil.errors import InvalidUnit
from counterfoil.store.loading import (
    LOAD_BYTES_MAX,
    LOAD_EVENTS_MAX,
    LoadItem,
    LoadStream,
    LoadToken,
    check_begin,
    check_next,
    size_of,
)
from counterfoil.store.rows import RowChange
from counterfoil.store.unit import Receipt, StoredEvent

# The next item may take its time: it is read from a file, or from another ledger.
PATIENT: Final = "SELECT set_config('idle_in_transaction_session_timeout', '0', true)"


def begin_load(transaction: WriteTransaction) -> None:
    """Begin the transaction that everything is loaded in."""
    transaction.begin(())
    run(transaction.connection, PATIENT)


def load(transaction: WriteTransaction, tables: RowTables, items: Iterable[LoadItem]) -> None:
    """Place everything in order; what is held is written as soon as it is much."""
    head: HeadState | None = None
    size = 0
    changes: list[RowChange] = []
    for item in items:
        if isinstance(item, StoredEvent):
            check_next(*(("", 0) if head is None else (head.stream_id, head.seq)), item)
            assert head is not None
            transaction.put(head, item)
            size += size_of(item)
        elif isinstance(item, LoadStream):
            head = _begin(transaction, tables, item)
        elif isinstance(item, LoadToken):
            if head is None:
                raise InvalidUnit("what is loaded begins with a stream")
            head.token, head.leased_anew = max(head.token, item.token), True
        else:
            changes.append(item)
        if len(transaction.events) >= LOAD_EVENTS_MAX or size >= LOAD_BYTES_MAX:
            _write(transaction)
            size = 0
        if len(changes) >= LOAD_EVENTS_MAX:
            changes = _change(transaction, tables, changes)
    _write(transaction)
    _change(transaction, tables, changes)


def record_with(transaction: WriteTransaction, job: Job) -> Receipt:
    """Record the unit that goes with what was loaded."""
    if job.refusal is not None:
        raise job.refusal
    transaction.begin(
        [part.stream_id for part in job.streams],
        [(part.stream_id, event.event_id) for part in job.streams for event in part.events],
        job.keys,
        job.written,
        begun=True,
    )
    run(transaction.connection, PATIENT)
    return require(transaction, job)


def _begin(transaction: WriteTransaction, tables: RowTables, item: LoadStream) -> HeadState:
    genesis, schema = item.genesis, quoted(tables.schema)
    head = transaction.heads.get(genesis.stream_id)
    if head is None:
        rows = fetch(
            transaction.connection,
            "SELECT s.tenant, s.genesis, h.seq, h.hash, h.token, h.lease_owner, h.lease_until"
            f" FROM {schema}.stream s JOIN {schema}.head h USING (stream_id) WHERE stream_id = %s FOR UPDATE OF h",
            (genesis.stream_id,),
        )
        for tenant, text, seq, digest, token, owner, until in rows:
            shown = None if owner is None else given_text(owner)
            head = HeadState(genesis.stream_id, tenant, text, seq, digest, token, shown, until)
            transaction.heads[genesis.stream_id] = head
    check_begin(item, None if head is None else head.head())
    if head is None:
        head = transaction.create(genesis, item.tenant)
    transaction.move(head)
    return head


def _write(transaction: WriteTransaction) -> None:
    try:
        transaction.flush_events()
    except psycopg.errors.UniqueViolation as error:
        raise InvalidUnit("an event id stands twice in a stream that is loaded") from error


def _change(transaction: WriteTransaction, tables: RowTables, changes: list[RowChange]) -> list[RowChange]:
    if changes:
        for change in changes:
            check_change(tables.empty, change, frozenset())
        transaction.fetch_rows(touched(tables, changes, ()))
        transaction.change_rows(changes)
        transaction.flush_rows()
        transaction.written = True
    return []
