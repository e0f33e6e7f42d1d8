"""Reading: each call is one statement, so it sees one state; columns are handed out as they lie in the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from counterfoil.adapters.memory.tables import check_key
from counterfoil.adapters.postgres.cells import given_text, stored, stored_text
from counterfoil.adapters.postgres.feed import LAG_MS, Cursor, decode, horizon, position
from counterfoil.adapters.postgres.paging import LIMIT_MAX
from counterfoil.adapters.postgres.schema import quoted
from counterfoil.adapters.postgres.strays import STRAYS
from counterfoil.adapters.postgres.tables import RowTables
from counterfoil.adapters.shared.strays import stray_of
from counterfoil.store.rows import Key, Row
from counterfoil.store.unit import Checkpoint, FeedPage, Head, Lease, StoredEvent, StoredStream, Stray

Query = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

NO_HEAD_ROW: Final = -1
"""The sequence shown for a stream whose head row is gone: no stream can be there."""

PART_MAX: Final = 15
"""Parts beyond this were put there by somebody else; ``strays`` names them."""

SEQ_MAX: Final = (1 << 63) - 1

COLUMNS: Final = (
    "e.xact, e.stream_id, e.seq, e.event_id, e.event_type, e.run_id, e.recorded_at, e.header, e.hash"
)
COLUMNS_BARE: Final = COLUMNS.replace("e.header", "''::bytea AS header")
WIDTH: Final = 9
HEAD_COLUMNS: Final = "s.stream_id, h.seq, h.hash, h.token, h.lease_owner, h.lease_until"


class Reads:
    """The reading half of the contract over anything that answers queries; ``now_ms`` judges a feed that lags."""

    def __init__(self, query: Query, tables: RowTables, now_ms: Callable[[], int]) -> None:
        self._query = query
        self._tables = tables
        self._now_ms = now_ms
        self._s = quoted(tables.schema)
        self._horizon = horizon(self._s)
        # OFFSET 0 keeps the planner from making one join of it: on tables that nobody has analyzed yet it would guess
        # badly, and reading a page would take longer the longer the stream is.
        self._records = (
            f"LEFT JOIN LATERAL (SELECT r.part, r.record FROM {self._s}.event_content r"
            f" WHERE r.stream_id = e.stream_id AND r.seq = e.seq AND r.part BETWEEN 0 AND {PART_MAX}"
            " OFFSET 0) c ON true"
        )

    def head(self, stream_id: str) -> Head | None:
        """See ``Reader.head``."""
        found = self._streams("s.stream_id = %s", (stream_id,), 1)
        return found[0].head if found else None

    def stream(self, stream_id: str) -> StoredStream | None:
        """See ``Reader.stream``."""
        found = self._streams("s.stream_id = %s", (stream_id,), 1)
        return found[0] if found else None

    def streams(self, tenant: str | None = None, after: str = "", limit: int = 100) -> list[StoredStream]:
        """See ``Reader.streams``."""
        if tenant is None:
            return self._streams("s.stream_id > %s", (after,), limit)
        return self._streams("s.tenant = %s AND s.stream_id > %s", (tenant, after), limit)

    def _streams(self, where: str, params: Sequence[str], limit: int) -> list[StoredStream]:
        rows = self._query(
            f"SELECT {HEAD_COLUMNS}, s.tenant, s.kind, s.genesis"
            f" FROM {self._s}.stream s LEFT JOIN {self._s}.head h ON h.stream_id = s.stream_id"
            f" WHERE {where} ORDER BY s.stream_id LIMIT %s",
            (*map(stored_text, params), _limit(limit)),
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
        where = "e.stream_id = %s AND e.seq > %s"
        params: list[Any] = [stored_text(stream_id), max(min(after, SEQ_MAX), -SEQ_MAX)]
        if types is not None:
            where += " AND e.event_type = ANY(%s::text[])"
            params.append([stored_text(name) for name in sorted(types)])
        if run_id is not None:
            where += " AND e.run_id = %s"
            params.append(stored_text(run_id))
        return self._events(where, [*params, _limit(limit)], content=content, headers=headers)

    def find(self, stream_id: str, event_ids: Sequence[str]) -> list[StoredEvent]:
        """See ``Reader.find``."""
        ids = [stored_text(event_id) for event_id in dict.fromkeys(event_ids)]
        where = "e.stream_id = %s AND e.event_id = ANY(%s::text[])"
        return self._events(where, [stored_text(stream_id), ids, len(ids)], content=True) if ids else []

    def _events(
        self, where: str, params: Sequence[Any], *, content: bool, headers: bool = True
    ) -> list[StoredEvent]:
        """Events of one stream in the order of their sequence; ``params`` end with the limit."""
        columns = COLUMNS if headers else COLUMNS_BARE
        chosen = f"SELECT {columns} FROM {self._s}.event e WHERE {where} ORDER BY e.seq LIMIT %s"
        if not content:
            return [_event(row, []) for row in self._query(chosen, params)]
        return with_content(
            self._query(
                f"SELECT e.*, c.part, c.record FROM ({chosen}) e {self._records} ORDER BY e.seq, c.part",
                params,
            )
        )

    def feed(self, cursor: bytes = b"", limit: int = 500) -> FeedPage:
        """See ``Reader.feed`` and :mod:`counterfoil.adapters.postgres.feed`."""
        begin, wanted = decode(cursor), _limit(limit)
        rows = self._query(
            f"SELECT e.*, c.part, c.record FROM (SELECT {COLUMNS}, e.xact < {self._horizon} AS settled"
            f" FROM {self._s}.event e WHERE (e.xact, e.stream_id, e.seq) > (%s::bigint, %s, %s::bigint)"
            " ORDER BY e.xact, e.stream_id, e.seq LIMIT %s) e"
            f" {self._records} ORDER BY e.xact, e.stream_id, e.seq, c.part",
            (begin.xact, begin.stream_id, begin.seq, min(wanted + 1, LIMIT_MAX)),
        )
        settled = [(*row[:WIDTH], *row[WIDTH + 1 :]) for row in rows if row[WIDTH]]
        waiting = [row for row in rows if not row[WIDTH]]
        found = with_content(settled)
        events = tuple(found[:wanted])
        reached = begin
        if events:
            last = events[-1]
            xact = next(row[0] for row in settled if (row[1], row[2]) == (last.stream_id, last.sequence))
            reached = Cursor(xact, last.stream_id, last.sequence)
        caught_up = len(found) <= wanted and not waiting
        return FeedPage(events, reached.encode(), caught_up, self._lag(waiting) if waiting else "")

    def recent(self, limit: int = 20) -> FeedPage:
        """See ``Reader.recent``: the end of what is settled, so that the feed goes on from there without loss."""
        wanted = _limit(limit)
        # One more than asked for: the end must be known when none is asked for.
        rows = self._query(
            f"SELECT e.xact, e.stream_id, e.seq FROM {self._s}.event e WHERE e.xact < {self._horizon}"
            " ORDER BY e.xact DESC, e.stream_id DESC, e.seq DESC LIMIT %s",
            (min(wanted + 1, LIMIT_MAX),),
        )
        if not rows:
            return FeedPage((), b"", caught_up=True)
        last = Cursor(*rows[0])
        before = Cursor(*rows[-1]) if len(rows) > wanted else Cursor()
        page = self.feed(before.encode(), wanted)
        reached = position(last.xact, last.stream_id, last.seq)
        events = tuple(event for event in page.events if event.position <= reached)
        return FeedPage(events, last.encode(), caught_up=True)

    def _lag(self, waiting: Sequence[tuple[Any, ...]]) -> str:
        """What keeps the horizon back, once it does so for long."""
        xact, recorded_at = waiting[0][0], waiting[0][6]
        held_ms = self._now_ms() - recorded_at
        if held_ms < LAG_MS:
            return ""
        oldest = self._query(
            "SELECT 'process ' || pid || ' in database ' || coalesce(datname, '?') FROM pg_stat_activity"
            " WHERE backend_xid IS NOT NULL OR backend_xmin IS NOT NULL"
            " UNION ALL SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts LIMIT 5",
            (),
        )
        who = ", ".join(row[0] for row in oldest) or "a transaction that this login cannot see"
        return (
            f"events from transaction {xact} on have waited {held_ms // 1000} s for an older transaction to end; "
            f"open now: {who}"
        )

    def get(self, table: str, key: Key) -> Row | None:
        """See ``Reader.get``."""
        found = self._tables.table(table)
        check_key(found.spec, key)
        rows = self._query(found.get, [stored(cell) for cell in key])
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
        return [found.row(row) for row in self._query(sql, [stored(cell) for cell in params])]

    def count(self, table: str, index: str, prefix: Key, most: int) -> int:
        """See ``Reader.count``."""
        sql, params = self._tables.table(table).pages.count(index, prefix, most)
        return int(self._query(sql, [stored(cell) for cell in params])[0][0])

    def checkpoint(self, stream_id: str, projection: str, version: int) -> Checkpoint | None:
        """See ``Reader.checkpoint``."""
        rows = self._query(
            f"SELECT up_to_sequence, commitment, record FROM {self._s}.checkpoint"
            " WHERE stream_id = %s AND projection = %s AND version = %s",
            (stored_text(stream_id), stored_text(projection), version),
        )
        return Checkpoint(stream_id, projection, version, *rows[0]) if rows else None

    def strays(self, limit: int = 100) -> list[Stray]:
        """See ``Reader.strays``."""
        found: list[Stray] = []
        for kind in STRAYS:
            wanted = limit - len(found)
            if wanted > 0:
                sql = kind.sql.format(s=self._s)
                found += [stray_of(kind, row) for row in self._query(sql, (wanted,))]
        return found


def _limit(limit: int) -> int:
    return min(max(limit, 0), LIMIT_MAX)


def _head(row: tuple[Any, ...]) -> Head:
    stream_id, sequence, digest, token, owner, until = row[:6]
    lease = None if owner is None or until is None else Lease(stream_id, token, given_text(owner), until)
    if sequence is None:
        return Head(stream_id, NO_HEAD_ROW, b"")
    return Head(stream_id, sequence, digest, token, lease)


def with_content(rows: Sequence[tuple[Any, ...]]) -> list[StoredEvent]:
    """Events from rows of one event and one record each (or none): columns, part, record."""
    events: list[StoredEvent] = []
    last: tuple[Any, ...] | None = None
    records: list[bytes | None] = []
    for row in rows:
        if last is None or row[1:3] != last[1:3]:
            if last is not None:
                events.append(_event(last, records))
            last, records = row, []
        part = row[WIDTH]
        if part is not None:
            while len(records) < part:
                records.append(None)
            records.append(row[WIDTH + 1])
    if last is not None:
        events.append(_event(last, records))
    return events


def _event(row: tuple[Any, ...], records: list[bytes | None]) -> StoredEvent:
    xact, stream_id, seq, event_id, event_type, run_id, recorded_at, header, digest = row[:WIDTH]
    place = position(xact, stream_id, seq)
    named = (event_id, event_type, run_id)
    return StoredEvent(place, stream_id, seq, *named, recorded_at, header, digest, tuple(records))
