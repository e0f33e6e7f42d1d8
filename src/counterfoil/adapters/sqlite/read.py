"""Reading: each call is one statement, so it sees one state; columns are handed out as they lie in the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from counterfoil.adapters.shared.strays import stray_of
from counterfoil.adapters.sqlite.checks import IDS_PER_QUERY
from counterfoil.adapters.sqlite.connect import Params
from counterfoil.adapters.sqlite.packing import plain_header
from counterfoil.adapters.sqlite.plan import check_key
from counterfoil.adapters.sqlite.runs import IN_RUN
from counterfoil.adapters.sqlite.schema import PARTS_PER_EVENT
from counterfoil.adapters.sqlite.strays import STRAYS
from counterfoil.adapters.sqlite.tables import RowTables
from counterfoil.errors import InvalidForm
from counterfoil.store.rows import Key, Row
from counterfoil.store.unit import Checkpoint, FeedPage, Head, Lease, StoredEvent, StoredStream, Stray

Query = Callable[[str, Params], list[tuple[Any, ...]]]

CURSOR_BYTES: Final = 8
NO_HEAD_ROW: Final = -1
"""The sequence shown for a stream whose head row is gone: no stream can be there."""

_COLUMNS: Final = "e.position, e.event_id, e.event_type, e.run_id, e.recorded_at, e.header, e.hash, e.seq"
_COLUMNS_BARE: Final = _COLUMNS.replace("e.header", "x'' AS header")
_IN_STREAM: Final = "e.stream = (SELECT number FROM stream WHERE stream_id = ?)"
_SLOTS: Final = (
    f"BETWEEN e.position * {PARTS_PER_EVENT} AND e.position * {PARTS_PER_EVENT} + {PARTS_PER_EVENT - 1}"
)
_HEAD_COLUMNS: Final = "s.stream_id, h.seq, h.hash, h.token, h.lease_owner, h.lease_until"


class Reads:
    """The reading half of the contract over anything that answers queries."""

    def __init__(self, query: Query, tables: RowTables) -> None:
        self._query = query
        self._tables = tables

    def head(self, stream_id: str) -> Head | None:
        """See ``Reader.head``."""
        rows = self._query(
            f"SELECT {_HEAD_COLUMNS} FROM stream s LEFT JOIN head h ON h.stream = s.number WHERE s.stream_id = ?",
            (stream_id,),
        )
        return _head(rows[0]) if rows else None

    def stream(self, stream_id: str) -> StoredStream | None:
        """See ``Reader.stream``."""
        found = self._streams("s.stream_id = ?", (stream_id,), 1)
        return found[0] if found else None

    def streams(self, tenant: str | None = None, after: str = "", limit: int = 100) -> list[StoredStream]:
        """See ``Reader.streams``."""
        if tenant is None:
            return self._streams("s.stream_id > ?", (after,), limit)
        return self._streams("s.tenant = ? AND s.stream_id > ?", (tenant, after), limit)

    def _streams(self, where: str, params: Params, limit: int) -> list[StoredStream]:
        rows = self._query(
            f"SELECT {_HEAD_COLUMNS}, s.tenant, s.kind, s.genesis"
            " FROM stream s LEFT JOIN head h ON h.stream = s.number"
            f" WHERE {where} ORDER BY s.stream_id LIMIT ?",
            (*params, max(limit, 0)),
        )
        return [StoredStream(row[0], row[6], row[7], row[8], _head(row)) for row in rows]

    def read(
        self,
        stream_id: str,
        after: int = 0,
        limit: int = 500,
        types: frozenset[str] | None = None,
        run_id: str | None = None,
        content: bool = True,
        headers: bool = True,
    ) -> list[StoredEvent]:
        """See ``Reader.read``."""
        params: list[Any]
        if run_id is None:
            source, order = "event e", "e.seq"
            where, params = f"{_IN_STREAM} AND e.seq > ?", [stream_id, after]
        else:
            source, order = IN_RUN, "r.from_seq, e.seq"
            where = "r.stream = (SELECT number FROM stream WHERE stream_id = ?) AND r.run_id = ?"
            params = [after, stream_id, run_id]
        if types is not None:
            where += f" AND e.event_type IN ({', '.join('?' * len(types))})"
            params += sorted(types)
        columns = _COLUMNS if headers else _COLUMNS_BARE
        chosen = f"SELECT {columns} FROM {source} WHERE {where} ORDER BY {order} LIMIT ?"
        return self._events(chosen, (*params, max(limit, 0)), stream_id, content=content)

    def find(self, stream_id: str, event_ids: Sequence[str]) -> list[StoredEvent]:
        """See ``Reader.find``."""
        found: list[StoredEvent] = []
        wanted = list(dict.fromkeys(event_ids))
        for start in range(0, len(wanted), IDS_PER_QUERY):
            ids = wanted[start : start + IDS_PER_QUERY]
            chosen = (
                f"SELECT {_COLUMNS} FROM event e WHERE {_IN_STREAM}"
                f" AND e.event_id IN ({', '.join('?' * len(ids))}) ORDER BY e.seq"
            )
            found += self._events(chosen, (stream_id, *ids), stream_id, content=True)
        if len(wanted) > IDS_PER_QUERY:
            found.sort(key=lambda event: event.position)
        return found

    def _events(self, chosen: str, params: Params, stream_id: str, *, content: bool) -> list[StoredEvent]:
        """Events of one stream, in the order in which the statement chooses them."""
        if not content:
            return [
                StoredEvent(
                    row[0], stream_id, row[7], row[1], row[2], row[3], row[4], plain_header(row[5]), row[6]
                )
                for row in self._query(chosen, params)
            ]
        rows = self._query(
            f"SELECT e.*, c.slot, c.record FROM ({chosen}) e LEFT JOIN event_content c ON c.slot {_SLOTS}",
            params,
        )
        return _with_content(rows, stream_id)

    def feed(self, cursor: bytes = b"", limit: int = 500) -> FeedPage:
        """See ``Reader.feed``. The cursor is the position of the last event seen, 8 bytes."""
        if cursor and len(cursor) != CURSOR_BYTES:
            raise InvalidForm(
                "this feed cursor was not made by this store", hint="begin again with an empty cursor"
            )
        after = int.from_bytes(cursor, "big")
        wanted = max(limit, 0)
        rows = self._query(
            f"SELECT e.*, c.slot, c.record FROM (SELECT {_COLUMNS},"
            " (SELECT stream_id FROM stream WHERE number = e.stream)"
            " FROM event e WHERE position > ? ORDER BY position LIMIT ?) e"
            f" LEFT JOIN event_content c ON c.slot {_SLOTS}",
            (min(after, (1 << 63) - 1), wanted + 1),
        )
        found = _with_content(rows)
        events = tuple(found[:wanted])
        reached = events[-1].position if events else after
        return FeedPage(events, reached.to_bytes(CURSOR_BYTES, "big"), caught_up=len(found) <= wanted)

    def recent(self, limit: int = 20) -> FeedPage:
        """See ``Reader.recent``."""
        # One more than asked for: the end must be known when none is asked for.
        rows = self._query("SELECT position FROM event ORDER BY position DESC LIMIT ?", (max(limit, 0) + 1,))
        if not rows:
            return FeedPage((), b"", caught_up=True)
        last = rows[0][0]
        before = rows[-1][0] if len(rows) > max(limit, 0) else 0
        page = self.feed(before.to_bytes(CURSOR_BYTES, "big"), max(limit, 0))
        events = tuple(event for event in page.events if event.position <= last)
        return FeedPage(events, last.to_bytes(CURSOR_BYTES, "big"), caught_up=True)

    def get(self, table: str, key: Key) -> Row | None:
        """See ``Reader.get``."""
        found = self._tables.table(table)
        check_key(found, key)
        rows = self._query(found.get, key)
        return found.row(rows[0]) if rows else None

    def select(
        self,
        table: str,
        index: str | None = None,
        prefix: Key = (),
        after: Key | None = None,
        limit: int = 100,
        descending: bool = False,
    ) -> list[Row]:
        """See ``Reader.select``."""
        found = self._tables.table(table)
        sql, params = found.pages.select(index, prefix, after, limit, descending=descending)
        return [found.row(row) for row in self._query(sql, params)]

    def count(self, table: str, index: str, prefix: Key, most: int) -> int:
        """See ``Reader.count``."""
        sql, params = self._tables.table(table).pages.count(index, prefix, most)
        return int(self._query(sql, params)[0][0])

    def checkpoint(self, stream_id: str, projection: str, version: int) -> Checkpoint | None:
        """See ``Reader.checkpoint``."""
        rows = self._query(
            "SELECT up_to_sequence, commitment, record FROM checkpoint"
            " WHERE stream = (SELECT number FROM stream WHERE stream_id = ?) AND projection = ? AND version = ?",
            (stream_id, projection, version),
        )
        return Checkpoint(stream_id, projection, version, *rows[0]) if rows else None

    def strays(self, limit: int = 100) -> list[Stray]:
        """See ``Reader.strays``."""
        found: list[Stray] = []
        for kind in STRAYS:
            wanted = limit - len(found)
            if wanted > 0:
                found += [stray_of(kind, row) for row in self._query(kind.sql, (wanted,))]
        return found


def _head(row: tuple[Any, ...]) -> Head:
    stream_id, sequence, digest, token, owner, until = row[:6]
    lease = None if owner is None or until is None else Lease(stream_id, token, owner, until)
    if sequence is None:
        return Head(stream_id, NO_HEAD_ROW, b"")
    return Head(stream_id, sequence, digest, token, lease)


def _with_content(rows: list[tuple[Any, ...]], stream_id: str | None = None) -> list[StoredEvent]:
    """Events from rows of one event and one record each (or none): columns, stream id unless given, slot, record."""
    events: list[StoredEvent] = []
    last: tuple[Any, ...] | None = None
    records: list[bytes | None] = []
    for row in rows:
        if last is None or row[0] != last[0]:
            if last is not None:
                events.append(_event(last, records, stream_id))
            last, records = row, []
        slot = row[-2]
        if slot is not None:
            part = slot % PARTS_PER_EVENT
            while len(records) < part:
                records.append(None)
            records.append(row[-1])
    if last is not None:
        events.append(_event(last, records, stream_id))
    return events


def _event(row: tuple[Any, ...], records: list[bytes | None], stream_id: str | None) -> StoredEvent:
    stream = stream_id or row[8] or ""
    header = plain_header(row[5])
    return StoredEvent(row[0], stream, row[7], row[1], row[2], row[3], row[4], header, row[6], tuple(records))
