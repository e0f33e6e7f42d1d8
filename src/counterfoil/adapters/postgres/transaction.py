"""One write transaction: what it touches is locked and fetched at once, judged here, and written at once.

Two round trips whatever the number of units: heads (in the order of their ids) and rows (in the order of table and
key) are locked and read in one pipeline; the oracle's own code then decides on them; the results are written and
committed in a second one. Every writer locks in the same order, so two never wait for each other in a ring.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import psycopg

from counterfoil.adapters.memory.tables import Table, apply, resolver
from counterfoil.adapters.postgres.cells import given_text, rows_json, stored_text
from counterfoil.adapters.postgres.checks import RecordedEvents
from counterfoil.adapters.postgres.connect import BEGIN, BoundedConnection, run
from counterfoil.adapters.postgres.heads import HeadState
from counterfoil.adapters.postgres.place import ANSWER_S
from counterfoil.adapters.postgres.plan import Job
from counterfoil.adapters.postgres.schema import quoted
from counterfoil.adapters.postgres.tables import RowTables
from counterfoil.adapters.shared.duplicates import Recorded
from counterfoil.core.event import event_hash, splice
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import Genesis, genesis_hash, parse_genesis
from counterfoil.core.limits import SEQUENCE_MAX
from counterfoil.errors import ChainBroken, InvalidUnit
from counterfoil.store.rows import Key, Row, RowChange
from counterfoil.store.unit import Position, Receipt, StoredEvent

LOCK_SHARE: Final = 0.8
"""Of the client's wait for an answer: the server gives up waiting for a lock before the client gives the server up."""
COPY_EVENTS_MIN: Final = 8
"""From so many events on COPY is quicker than INSERT, though it cannot be in a pipeline."""

LOOK: Final = "SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))"
CHANGE: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
"""Locks on a watched table until the end of the transaction, in the server's memory: whoever only looks writes nothing."""

EventRow = tuple[str, int, str, str, str | None, int, str, bytes, bytes]
ContentRow = tuple[str, int, int, str, bytes]

EVENT_COLUMNS: Final = "stream_id, seq, event_id, event_type, run_id, recorded_at, tenant, header, hash"
EVENT_TYPES: Final = ("text", "int8", "text", "text", "text", "int8", "text", "bytea", "bytea")
CONTENT_COLUMNS: Final = "stream_id, seq, part, tenant, record"
CONTENT_TYPES: Final = ("text", "int8", "int2", "text", "bytea")


class WriteTransaction:
    """What one ``BEGIN`` … ``COMMIT`` does. The engine opens, commits and rolls back."""

    def __init__(
        self,
        connection: BoundedConnection,
        schema: str,
        tables: RowTables,
        now_ms: Callable[[], int] | None,
        answer_s: float = ANSWER_S,
    ) -> None:
        self.connection = connection
        self.tables = tables
        self._s = quoted(schema)
        self._clock = now_ms
        self.lock_ms = max(1, int(answer_s * 1000 * LOCK_SHARE))
        self.now_ms = 0
        self.tables_found = tables.versions
        self.heads: dict[str, HeadState] = {}
        self.recorded: RecordedEvents = {}
        self.rows: dict[str, Table] = {}
        self._before: dict[str, dict[Key, Row | None]] = {}
        self._held: dict[str, dict[Key, HeadState]] = {}
        self._moved: dict[str, HeadState] = {}
        self.events: list[EventRow] = []
        self.contents: list[ContentRow] = []
        self.written = False
        """Set by whoever has written something by a statement of its own."""

    # ---- what it begins with -------------------------------------------------------------------------------------

    def begin(
        self,
        stream_ids: Iterable[str],
        events: Sequence[tuple[str, str]] = (),
        keys: Mapping[str, set[Key]] | None = None,
        written: Collection[str] | None = None,
        *,
        begun: bool = False,
    ) -> None:
        """Begin (unless ``begun``), lock these heads and rows, and fetch them with what else decides. One round trip.

        ``written`` are the tables that will be changed (None: any): of the others, watched ones are locked together
        with everybody else who only looks, and their rows are not locked at all.
        """
        wanted = keys or {}
        connection = self.connection
        rows = {}
        with connection.pipeline():
            if not begun:
                run(connection, BEGIN)
            told = run(
                connection,
                f"SELECT * FROM {self._s}.begin_append(%s, %s::text[], %s::text[], %s::text[])",
                (self.lock_ms, sorted(set(stream_ids)), *_columns(events, 2)),
            )
            for name in sorted(wanted):
                table = self.tables.table(name)
                listed = rows_json([table.keyed(key) for key in wanted[name]])
                looks = table.spec.watched and written is not None and name not in written
                if table.spec.watched:
                    run(connection, LOOK if looks else CHANGE, (table.table,))
                rows[name] = run(connection, table.look if looks else table.lock, (listed,))
        for row in told.fetchall():
            self._take(row)
        if self.tables_found != self.tables.versions:
            # A newer process has made tables, or made ours over, since this handle looked.
            self.tables.load(connection)
            self.tables.check_writable()
        for name, cursor in rows.items():
            self._take_rows(name, wanted[name], cursor.fetchall())

    def remember(self, heads: Mapping[str, HeadState], rows: Mapping[str, Mapping[Key, Row | None]]) -> None:
        """Judge on these heads and rows and not on what is there; whoever writes compares them (``quick``)."""
        self.heads = dict(heads)
        for name, before in rows.items():
            self._before[name] = dict(before)
            kept = {key: row for key, row in before.items() if row is not None}
            self.rows[name] = Table(self.tables.table(name).spec, kept)

    def _take(self, row: tuple[Any, ...]) -> None:
        (
            clock_ms,
            tables,
            stream_id,
            tenant,
            genesis,
            seq,
            digest,
            token,
            owner,
            until,
            last_seq,
            last_hash,
        ) = row[:12]
        if clock_ms is None:
            event_id, at_ms, header = row[12:]
            self.recorded[stream_id, event_id] = Recorded(event_id, seq, at_ms, header, digest)
            return
        self.now_ms = clock_ms if self._clock is None else self._clock()
        self.tables_found = tables or 0
        if stream_id is None:
            return
        # The head row is a copy, and an append onto a wrong copy would fork.
        last = (0, genesis_hash(genesis)) if last_seq is None else (last_seq, last_hash)
        if (seq, digest) != last:
            raise ChainBroken(
                f"the head row of {stream_id} says sequence {seq}, its events say {last[0]}, or their hashes "
                "differ; nothing is appended to it",
                stream_id=stream_id,
                sequence=seq,
            )
        owner = None if owner is None else given_text(owner)
        self.heads[stream_id] = HeadState(stream_id, tenant, genesis, seq, digest, token, owner, until)

    def _take_rows(self, name: str, keys: Iterable[Key], rows: Iterable[tuple[Any, ...]]) -> None:
        table = self.tables.table(name)
        before: dict[Key, Row | None] = dict.fromkeys(keys)
        for cells in rows:
            row = table.row(cells)
            before[table.key_of(row)] = row
        self._before[name] = before
        self.rows[name] = Table(table.spec, {key: row for key, row in before.items() if row is not None})

    # ---- what units make of it -----------------------------------------------------------------------------------

    def create(self, genesis: Genesis, tenant: str | None = None) -> HeadState:
        """The head of a stream that is made here; it is empty. ``tenant``: whom it stands under, if another."""
        head = HeadState(
            genesis.stream_id, tenant or genesis.tenant, genesis.text, 0, genesis.hash, fresh=True
        )
        self.heads[genesis.stream_id] = head
        self.move(head)
        return head

    def move(self, head: HeadState) -> None:
        """Have a changed head written at the end."""
        self._moved[head.stream_id] = head

    def forget(self, stream_id: str) -> None:
        """The stream may have been removed by a statement of its own: nothing is written or remembered of it."""
        self.heads.pop(stream_id, None)
        self._moved.pop(stream_id, None)

    def place(self, job: Job) -> Receipt:
        """Give the unit's events their sequences, hash them and change its rows. Its checks have passed."""
        positions: list[Position] = []
        for part in job.streams:
            known = self.heads.get(part.stream_id)
            if (0 if known is None else known.seq) + len(part.events) > SEQUENCE_MAX:
                raise InvalidUnit(f"stream {part.stream_id} is full: it holds {SEQUENCE_MAX} events at most")
        time, now = time_text(self.now_ms), self.now_ms
        for part in job.streams:
            head = self.heads.get(part.stream_id)
            if head is None:
                assert part.create is not None
                head = self.create(part.create)
            for event in part.events:
                head.seq += 1
                header = splice(event, head.seq, time, head.hash.hex())
                head.hash = event_hash(header)
                where = (head.stream_id, head.seq)
                named = (event.event_id, event.event_type, event.run_id)
                self.events.append((*where, *named, now, head.tenant, header, head.hash))
                self.contents += [
                    (*where, number, head.tenant, record) for number, record in enumerate(event.records)
                ]
                self.recorded[where[0], event.event_id] = Recorded(
                    event.event_id, head.seq, now, header, head.hash
                )
                positions.append(Position(*where, event.event_id, now, head.hash))
            if part.events:
                self.move(head)
        self.change_rows(job.unit.rows, positions)
        owner = self.heads[job.streams[0].stream_id]
        for name, keys in job.held.items():
            self._held.setdefault(name, {}).update(dict.fromkeys(keys, owner))
        return Receipt(tuple(positions))

    def put(self, head: HeadState, event: StoredEvent) -> None:
        """Hold an event of another ledger ready as it stands, behind the stream's last."""
        where = (head.stream_id, event.sequence)
        named = (event.event_id, event.event_type, event.run_id, event.recorded_at_ms)
        self.events.append((*where, *named, head.tenant, event.header, event.hash))
        self.contents += [
            (*where, part, head.tenant, record)
            for part, record in enumerate(event.content)
            if record is not None
        ]
        head.seq, head.hash = event.sequence, event.hash

    def flush_events(self) -> None:
        """Write the events that are held, ahead of their heads; these come with the commit."""
        if self.events:
            self._copy("event", EVENT_COLUMNS, EVENT_TYPES, self.events)
        if self.contents:
            self._copy("event_content", CONTENT_COLUMNS, CONTENT_TYPES, self.contents)
        self.events, self.contents = [], []

    def change_rows(self, changes: Sequence[RowChange], positions: Sequence[Position] = ()) -> None:
        """Make row changes, in order, on the rows that were fetched."""
        if changes:
            placed = {place.event_id: (place.sequence, place.recorded_at_ms) for place in positions}
            apply(self.rows, changes, resolver(placed))

    def fetch_rows(self, keys: Mapping[str, set[Key]]) -> None:
        """Lock and fetch more rows, in a transaction that has begun; what was fetched before must be flushed."""
        self.rows, self._before = {}, {}
        for name in sorted(keys):
            table = self.tables.table(name)
            listed = rows_json([table.keyed(key) for key in keys[name]])
            self._take_rows(name, keys[name], run(self.connection, table.lock, (listed,)).fetchall())

    # ---- writing -------------------------------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.written or self._moved or self.events or self._changed())

    def commit(self) -> None:
        """Write everything and commit. Raises psycopg errors as they are.

        COPY has no place in a pipeline, so a batch takes two round trips more and many events take none of their own.
        """
        connection = self.connection
        copied = len(self.events) >= COPY_EVENTS_MIN
        with connection.pipeline():
            self._write_heads()
            self._record(copied=copied)
            self.flush_rows()
            last = None if copied else run(connection, "COMMIT")
        if last is None:
            self._copy("event", EVENT_COLUMNS, EVENT_TYPES, self.events)
            if self.contents:
                self._copy("event_content", CONTENT_COLUMNS, CONTENT_TYPES, self.contents)
            last = run(connection, "COMMIT")
        if last.statusmessage != "COMMIT":
            raise psycopg.OperationalError(f"COMMIT was answered by {last.statusmessage}")

    def rows_before(self) -> Mapping[str, Mapping[Key, Row | None]]:
        """The rows that were fetched or remembered, as they were before any change."""
        return self._before

    def heads_now(self) -> list[HeadState]:
        """The heads as this transaction leaves them."""
        return list(self.heads.values())

    def _write_heads(self) -> None:
        moved = [self._moved[stream_id] for stream_id in sorted(self._moved)]
        fresh = [head for head in moved if head.fresh]
        if fresh:
            genesis = [_kind_of(head) for head in fresh]
            run(
                self.connection,
                f"INSERT INTO {self._s}.stream (stream_id, tenant, kind, genesis)"
                " SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bytea[])",
                _columns(genesis, 4),
            )
            run(self.connection, self._add_heads(), _columns([_head_cells(head) for head in fresh], 7))
        leased = [head for head in moved if head.leased_anew and not head.fresh]
        if leased:
            run(self.connection, self._lease_heads(), _columns([_head_cells(head) for head in leased], 7))

    def _add_heads(self) -> str:
        return (
            f"INSERT INTO {self._s}.head (stream_id, tenant, seq, hash, token, lease_owner, lease_until)"
            f" SELECT * FROM {_HEADS}"
        )

    def _lease_heads(self) -> str:
        return (
            f"UPDATE {self._s}.head h SET seq = n.seq, hash = n.hash, token = n.token,"
            " lease_owner = n.lease_owner, lease_until = n.lease_until"
            f" FROM {_HEADS} AS n(stream_id, tenant, seq, hash, token, lease_owner, lease_until)"
            " WHERE h.stream_id = n.stream_id"
        )

    def _changed(self) -> list[tuple[str, dict[Key, Row | None]]]:
        found = []
        for name, before in self._before.items():
            now = self.rows[name].rows
            changed = {key: now.get(key) for key, row in before.items() if now.get(key) is not row}
            if changed:
                found.append((name, changed))
        return found

    def flush_rows(self) -> None:
        """Write the rows that have changed since they were fetched."""
        changed = dict(self._changed())
        for name in sorted({*changed, *self._held}):
            self._write_table(name, changed.get(name, {}))
        now = {name: self.rows[name].rows for name in self._before}
        self._before = {
            name: {key: now[name].get(key) for key in keys} for name, keys in self._before.items()
        }
        self._held = {}

    def _write_table(self, name: str, changed: Mapping[Key, Row | None]) -> None:
        table, before, now = self.tables.table(name), self._before[name], self.rows[name].rows
        gone = [table.keyed(key) for key, row in changed.items() if row is None and before[key] is not None]
        fresh = [row for key, row in changed.items() if row is not None and before[key] is None]
        other = [row for key, row in changed.items() if row is not None and before[key] is not None]
        held = [
            table.placeholder(key, owner.tenant, owner.stream_id)
            for key, owner in self._held.get(name, {}).items()
            if key not in now and before[key] is None
        ]
        if gone or fresh or other or held:
            lists = [rows_json(rows) if rows else None for rows in (gone, fresh, other, held)]
            run(self.connection, table.write, lists)

    def _record(self, *, copied: bool) -> None:
        """Move the heads that only move, and add the events unless they are ``copied``; one call."""
        heads = [self._moved[stream_id] for stream_id in sorted(self._moved)]
        plain = [
            (head.stream_id, head.seq, head.hash) for head in heads if not head.fresh and not head.leased_anew
        ]
        events = [] if copied else self.events
        contents = [] if copied else self.contents
        if plain or events or contents:
            types = ("text", "int8", "bytea", *EVENT_TYPES, *CONTENT_TYPES)
            params = (
                *_columns(plain, 3),
                *_columns(events, len(EVENT_TYPES)),
                *_columns(contents, len(CONTENT_TYPES)),
            )
            run(self.connection, f"SELECT {self._s}.record_events({marks(types)})", params)

    def _copy(self, table: str, columns: str, types: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        statement = f"COPY {self._s}.{table} ({columns}) FROM STDIN (FORMAT BINARY)"
        with self.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)


def marks(types: Sequence[str]) -> str:
    """Places for as many arrays as columns."""
    return ", ".join(f"%s::{name}[]" for name in types)


_HEADS: Final = f"unnest({marks(('text', 'text', 'int8', 'bytea', 'int8', 'text', 'int8'))})"


def _head_cells(head: HeadState) -> tuple[Any, ...]:
    owner = None if head.owner is None else stored_text(head.owner)
    return head.stream_id, head.tenant, head.seq, head.hash, head.token, owner, head.until


def _kind_of(head: HeadState) -> tuple[str, str, str, bytes]:
    return head.stream_id, head.tenant, parse_genesis(head.genesis).kind, head.genesis


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows turned into one array for each column."""
    return [[row[place] for row in rows] for place in range(width)]
