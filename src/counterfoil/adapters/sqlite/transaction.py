"""One write transaction: heads as it has moved them, and the inserts it still holds back.

Events, records and row changes are gathered and written with as few statements as possible: each statement gives
the interpreter lock away, and a busy event loop takes its time to give it back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from counterfoil.adapters.sqlite.bulk import Bulk
from counterfoil.adapters.sqlite.heads import HeadCache, HeadState
from counterfoil.adapters.sqlite.packing import stored_form
from counterfoil.adapters.sqlite.plan import Job, RowStep
from counterfoil.adapters.sqlite.runs import ADD_SPANS
from counterfoil.adapters.sqlite.schema import PARTS_PER_EVENT
from counterfoil.core.event import event_hash, splice
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import Genesis
from counterfoil.core.limits import SEQUENCE_MAX
from counterfoil.errors import InvalidUnit
from counterfoil.store.rows import SequenceOf
from counterfoil.store.unit import Position, Receipt, StoredEvent

ADD_EVENTS: Final = Bulk(
    "INSERT INTO event (position, stream, seq, event_id, event_type, run_id, recorded_at, header, hash)", 9
)
ADD_RECORDS: Final = Bulk("INSERT INTO event_content (slot, record)", 2)
ADD_STREAM: Final = "INSERT INTO stream (stream_id, tenant, kind, genesis) VALUES (?, ?, ?, ?)"
ADD_HEAD: Final = "INSERT INTO head (stream, seq, hash) VALUES (?, ?, ?)"
SET_HEAD: Final = (
    "UPDATE head SET seq = ?, hash = ?, token = ?, lease_owner = ?, lease_until = ? WHERE stream = ?"
)


class Unmet(Exception):
    """A row is not as the unit that changes it needs it to be: its units are tried one at a time."""


Mark = list[tuple[str, HeadState | None, bool]]
"""Where the streams of a unit stood: id, head (None: not looked at), whether it had moved."""


class WriteTransaction:
    """What one ``BEGIN IMMEDIATE`` … ``COMMIT`` does. The engine begins, commits and rolls back."""

    __slots__ = (
        "_cache",
        "_events",
        "_heads",
        "_moved",
        "_position",
        "_records",
        "_rows",
        "_spans",
        "_time",
        "connection",
        "cursor",
        "now_ms",
    )

    def __init__(
        self, connection: sqlite3.Connection, cursor: sqlite3.Cursor, cache: HeadCache, now_ms: int
    ) -> None:
        self.connection = connection
        self.cursor = cursor
        self.now_ms = now_ms
        self._time = time_text(now_ms)
        self._cache = cache
        self._heads: dict[str, HeadState] = {}
        self._moved: dict[str, HeadState] = {}
        self._position = cache.next_position(connection)
        self._events: list[tuple[Any, ...]] = []
        self._records: list[tuple[int, bytes]] = []
        self._spans: list[tuple[int, int, str]] = []
        self._rows: list[tuple[str | Bulk, list[tuple[Any, ...]], bool]] = []

    @property
    def last_position(self) -> int:
        """The highest feed position ever given to an event, those of this transaction included."""
        return self._position - 1

    # ---- heads -------------------------------------------------------------------------------------------------

    def head(self, stream_id: str) -> HeadState | None:
        """The stream's head as this transaction has left it, or None if there is no such stream."""
        mine = self._heads.get(stream_id)
        if mine is None:
            known = self._cache.get(self.connection, stream_id)
            if known is None:
                return None
            mine = self._heads[stream_id] = known.copy()
        return mine

    def has_streams(self, job: Job) -> bool:
        """Whether all streams of the unit are there."""
        return all(self.head(part.stream_id) is not None for part in job.streams)

    def move(self, head: HeadState) -> None:
        """Have a changed head written at the end."""
        self._moved[head.stream_id] = head

    def forget(self, stream_id: str) -> None:
        """The stream has been removed."""
        self._heads.pop(stream_id, None)
        self._moved.pop(stream_id, None)
        self._cache.forget(stream_id)

    def create(self, genesis: Genesis, tenant: str | None = None) -> HeadState:
        """Make the stream; it is empty. ``tenant`` is whom it stands under, if not who its genesis names."""
        values = (genesis.stream_id, tenant or genesis.tenant, genesis.kind, genesis.text)
        number = self.cursor.execute(ADD_STREAM, values).lastrowid
        assert number is not None
        self.cursor.execute(ADD_HEAD, (number, 0, genesis.hash))
        head = HeadState(genesis.stream_id, number, genesis.text, 0, genesis.hash)
        self._heads[genesis.stream_id] = head
        self._moved[genesis.stream_id] = head
        return head

    # ---- what a unit writes --------------------------------------------------------------------------------------

    def place(self, job: Job) -> Receipt:
        """Give the unit's events their sequences, hash them and hold their rows ready. Its checks have passed."""
        now, position, time = self.now_ms, self._position, self._time
        events, records = self._events, self._records
        positions: list[Position] = []
        for part in job.streams:
            head = self.head(part.stream_id)
            if head is None:
                assert part.create is not None
                head = self.create(part.create)
            sequence, digest = head.seq, head.hash
            if sequence + len(part.events) > SEQUENCE_MAX:
                raise InvalidUnit(f"stream {part.stream_id} is full: it holds {SEQUENCE_MAX} events at most")
            for event in part.events:
                sequence += 1
                header = splice(event, sequence, time, digest.hex())
                digest = event_hash(header)
                event_id = event.event_id
                if event.run_id is not None and event.run_id != head.run_id:
                    head.run_id = event.run_id
                    self._spans.append((head.number, sequence, event.run_id))
                events.append(
                    (
                        position,
                        head.number,
                        sequence,
                        event_id,
                        event.event_type,
                        event.run_id,
                        now,
                        stored_form(event.event_type, header),
                        digest,
                    )
                )
                slot = position * PARTS_PER_EVENT
                for record in event.records:
                    records.append((slot, record))
                    slot += 1
                positions.append(Position(part.stream_id, sequence, event_id, now, digest))
                position += 1
            if part.events:
                head.seq, head.hash = sequence, digest
                self._moved[part.stream_id] = head
        self._position = position
        if job.rows:
            self.change_rows(job.rows, positions)
        return Receipt(tuple(positions))

    def put(self, head: HeadState, event: StoredEvent) -> None:
        """Hold an event of another ledger ready as it stands, behind the stream's last."""
        position = self._position
        if event.run_id is not None and event.run_id != head.run_id:
            head.run_id = event.run_id
            self._spans.append((head.number, event.sequence, event.run_id))
        named = (event.event_id, event.event_type, event.run_id, event.recorded_at_ms)
        self._events.append((position, head.number, event.sequence, *named, event.header, event.hash))
        slot = position * PARTS_PER_EVENT
        self._records += [
            (slot + part, record) for part, record in enumerate(event.content) if record is not None
        ]
        head.seq, head.hash = event.sequence, event.hash
        self._position = position + 1

    def change_rows(self, steps: Sequence[RowStep], positions: Sequence[Position] = ()) -> None:
        """Hold row changes ready, in order; neighbours of one statement go together."""
        rows = self._rows
        for step in steps:
            params = _filled(step, positions) if step.late else step.params
            if rows and rows[-1][0] is step.sql and rows[-1][2] is step.must:
                rows[-1][1].append(params)
            else:
                rows.append((step.sql, [params], step.must))

    # ---- writing -------------------------------------------------------------------------------------------------

    def flush_rows(self) -> None:
        """Write the row changes held ready, so that a guard sees them. Raises Unmet."""
        rows, self._rows = self._rows, []
        for sql, params, must in rows:
            self._run(sql, params)
            if must and self.cursor.rowcount != len(params):
                raise Unmet

    def flush(self) -> None:
        """Write everything held ready except heads. Raises sqlite3 errors as they are, and Unmet."""
        if self._events:
            events, self._events = self._events, []
            ADD_EVENTS.run(self.cursor, events)
        if self._spans:
            spans, self._spans = self._spans, []
            ADD_SPANS.run(self.cursor, spans)
        if self._records:
            records, self._records = self._records, []
            ADD_RECORDS.run(self.cursor, records)
        if self._rows:
            self.flush_rows()

    def finish(self) -> None:
        """Write the rest, heads last: the guard on replacing inserts looks at them."""
        self.flush()
        for head in self._moved.values():
            values = (head.seq, head.hash, head.token, head.owner, head.until, head.number)
            self.cursor.execute(SET_HEAD, values)

    def publish(self) -> None:
        """After COMMIT: let the next transaction begin from here."""
        self._cache.keep(list(self._moved.values()))
        self._cache.advance(self._position)

    def _run(self, sql: str | Bulk, params: Sequence[tuple[Any, ...]]) -> None:
        if isinstance(sql, Bulk):
            sql.run(self.cursor, params)
        elif len(params) == 1:
            self.cursor.execute(sql, params[0])
        else:
            self.cursor.executemany(sql, params)

    # ---- one unit at a time ----------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Undo everything and begin anew; the turn is still ours, so nobody comes between."""
        self.cursor.execute("ROLLBACK")
        self.cursor.execute("BEGIN IMMEDIATE")
        self._events, self._records, self._spans, self._rows = [], [], [], []
        self._heads, self._moved = {}, {}
        self._position = self._cache.next_position(self.connection)

    def savepoint(self, job: Job) -> Mark:
        """Mark this place (everything held ready is written first); the mark is for :meth:`roll_back`."""
        self.flush()
        self.cursor.execute("SAVEPOINT unit")
        marks = []
        for part in job.streams:
            head = self._heads.get(part.stream_id)
            marks.append(
                (part.stream_id, None if head is None else head.copy(), part.stream_id in self._moved)
            )
        return marks

    def keep(self) -> None:
        """Write what the unit holds ready and drop the mark."""
        self.flush()
        self.cursor.execute("RELEASE unit")

    def roll_back(self, mark: Mark) -> None:
        """Return to the mark: nothing of the unit remains."""
        self._events, self._records, self._spans, self._rows = [], [], [], []
        self.cursor.execute("ROLLBACK TO unit")
        self.cursor.execute("RELEASE unit")
        for stream_id, head, moved in mark:
            self._heads.pop(stream_id, None)
            self._moved.pop(stream_id, None)
            if head is not None:
                self._heads[stream_id] = head
                if moved:
                    self._moved[stream_id] = head


def _filled(step: RowStep, positions: Sequence[Position]) -> tuple[Any, ...]:
    """The parameters with what only the writer knows in its places."""
    cells = list(step.params)
    for at in step.late:
        cell = cells[at]
        place = positions[0]
        if place.event_id != cell.event_id:
            place = next(place for place in positions if place.event_id == cell.event_id)
        cells[at] = place.sequence if type(cell) is SequenceOf else place.recorded_at_ms
    return tuple(cells)
