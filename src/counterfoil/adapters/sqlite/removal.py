"""The one audited path by which truth is removed: under a permit that cannot outlive its transaction.

Retention and erasure (FORMAT 13) call it; the facts they record go into the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from counterfoil.adapters.sqlite.heads import POSITION_FLOOR
from counterfoil.adapters.sqlite.runs import REMOVE_SPANS
from counterfoil.adapters.sqlite.schema import PARTS_PER_EVENT
from counterfoil.adapters.sqlite.tables import RowTables
from counterfoil.adapters.sqlite.transaction import WriteTransaction
from counterfoil.errors import StreamNotFound

GRANT: Final = "INSERT INTO permit (id, ground) VALUES (1, 'permit:' || ?)"
REVOKE: Final = "DELETE FROM permit"
# Before events go: their feed positions are never given to others, which a reader of the feed would pass over.
KEEP_FLOOR: Final = (
    f"INSERT INTO meta (name, value) VALUES ('{POSITION_FLOOR}', ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    " WHERE CAST(value AS INTEGER) < CAST(excluded.value AS INTEGER)"
)
REMOVE_RECORD: Final = (
    "DELETE FROM event_content WHERE slot ="
    f" (SELECT position FROM event WHERE stream = ? AND seq = ?) * {PARTS_PER_EVENT} + ?"
)
REMOVE_STREAM: Final = (
    "DELETE FROM event_content WHERE slot IN (SELECT c.slot FROM event e JOIN event_content c"
    f" ON c.slot BETWEEN e.position * {PARTS_PER_EVENT} AND e.position * {PARTS_PER_EVENT} + {PARTS_PER_EVENT - 1}"
    " WHERE e.stream = ?)",
    "DELETE FROM event WHERE stream = ?",
    REMOVE_SPANS,
    "DELETE FROM checkpoint WHERE stream = ?",
    "DELETE FROM head WHERE stream = ?",
    "DELETE FROM stream WHERE number = ?",
)


@contextmanager
def permit(transaction: WriteTransaction, ground: str) -> Iterator[None]:
    """Let guarded tables be changed inside this block; freed pages are overwritten (``secure_delete``)."""
    transaction.flush()
    transaction.cursor.execute("PRAGMA secure_delete = ON")
    transaction.cursor.execute(GRANT, (ground,))
    yield
    transaction.cursor.execute(REVOKE)
    transaction.cursor.execute("PRAGMA secure_delete = OFF")


def remove_content(
    transaction: WriteTransaction, stream_id: str, parts: Sequence[tuple[int, int]], ground: str
) -> int:
    """Remove sealed records, each named by (sequence, part); how many were there. Headers stay."""
    head = transaction.head(stream_id)
    if head is None:
        raise StreamNotFound(f"there is no stream {stream_id}", stream_id=stream_id)
    removed = 0
    with permit(transaction, ground):
        for sequence, part in parts:
            removed += transaction.cursor.execute(REMOVE_RECORD, (head.number, sequence, part)).rowcount
    return removed


def remove_stream(transaction: WriteTransaction, tables: RowTables, stream_id: str, ground: str) -> int:
    """Remove a whole stream with everything derived from it; how many events it had."""
    head = transaction.head(stream_id)
    if head is None:
        raise StreamNotFound(f"there is no stream {stream_id}", stream_id=stream_id)
    with permit(transaction, ground):
        transaction.cursor.execute(KEEP_FLOOR, (str(transaction.last_position),))
        for statement in REMOVE_STREAM:
            transaction.cursor.execute(statement, (head.number,))
        for table in tables.by_name.values():
            if table.clear_stream is not None:
                transaction.cursor.execute(table.clear_stream, (stream_id,))
    transaction.forget(stream_id)
    return head.seq
