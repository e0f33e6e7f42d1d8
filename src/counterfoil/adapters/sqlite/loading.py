"""Loading streams that were recorded elsewhere, inside one write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from counterfoil.adapters.sqlite.faults import primary_code
from counterfoil.adapters.sqlite.heads import HeadState
from counterfoil.adapters.sqlite.plan import plan_rows
from counterfoil.adapters.sqlite.tables import RowTables
from counterfoil.adapters.sqlite.transaction import WriteTransaction
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
from counterfoil.store.unit import StoredEvent


def load(transaction: WriteTransaction, tables: RowTables, items: Iterable[LoadItem]) -> None:
    """Place everything in order; what is held ready is written as soon as it is much."""
    head: HeadState | None = None
    held = size = 0
    changes: list[RowChange] = []
    for item in items:
        if isinstance(item, StoredEvent):
            check_next(*(("", 0) if head is None else (head.stream_id, head.seq)), item)
            assert head is not None
            transaction.put(head, item)
            held, size = held + 1, size + size_of(item)
        elif isinstance(item, LoadStream):
            head = _begin(transaction, item)
        elif isinstance(item, LoadToken):
            if head is None:
                raise InvalidUnit("what is loaded begins with a stream")
            head.token = max(head.token, item.token)
        else:
            changes.append(item)
        if held >= LOAD_EVENTS_MAX or size >= LOAD_BYTES_MAX or len(changes) >= LOAD_EVENTS_MAX:
            _write(transaction, tables, changes)
            held, size, changes = 0, 0, []
    _write(transaction, tables, changes)


def _begin(transaction: WriteTransaction, item: LoadStream) -> HeadState:
    head = transaction.head(item.genesis.stream_id)
    check_begin(item, None if head is None else head.head())
    if head is None:
        head = transaction.create(item.genesis, item.tenant)
    transaction.move(head)
    return head


def _write(transaction: WriteTransaction, tables: RowTables, changes: list[RowChange]) -> None:
    if changes:
        transaction.change_rows(plan_rows(tables, changes, loaded=True))
    try:
        transaction.flush()
    except sqlite3.Error as error:
        if primary_code(error) != sqlite3.SQLITE_CONSTRAINT:
            raise
        raise InvalidUnit("an event id stands twice in a stream that is loaded") from error
