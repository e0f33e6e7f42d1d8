"""What the memory store holds, and the reads that a store and a snapshot of it share."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.adapters.memory.tables import Table, check_key, select, table_of
from counterfoil.errors import InvalidForm, StoreClosed
from counterfoil.store.rows import Key, Row
from counterfoil.store.unit import Checkpoint, FeedPage, Head, StoredEvent, StoredStream, Stray


class Stream(Struct):
    """One stream: its genesis with the columns made from it, its events in order, their places by event id."""

    columns: StoredStream
    head: Head
    events: list[StoredEvent] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Stream:
        """The same events in lists of its own."""
        return Stream(self.columns, self.head, list(self.events), dict(self.places))


class State(Struct):
    """Everything a ledger holds. ``feed`` is every event of every stream in the order of recording."""

    tables: dict[str, Table]
    streams: dict[str, Stream] = field(default_factory=dict)
    feed: list[StoredEvent] = field(default_factory=list)
    checkpoints: dict[tuple[str, str, int], dict[int, Checkpoint]] = field(default_factory=dict)

    def copy(self) -> State:
        """A state that later writes do not reach; events and rows themselves are never changed in place."""
        return State(
            tables={name: table.copy() for name, table in self.tables.items()},
            streams={stream_id: stream.copy() for stream_id, stream in self.streams.items()},
            feed=list(self.feed),
            checkpoints={key: dict(saved) for key, saved in self.checkpoints.items()},
        )


class StateReader:
    """Reads one state; the store reads the living one, a snapshot its own copy. See ``store.contract.Reader``."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._lock = threading.RLock()
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("this store is closed", hint="open the ledger again")

    def head(self, stream_id: str) -> Head | None:
        """See ``Reader.head``."""
        with self._lock:
            self._check_open()
            stream = self._state.streams.get(stream_id)
            return None if stream is None else stream.head

    def stream(self, stream_id: str) -> StoredStream | None:
        """See ``Reader.stream``."""
        with self._lock:
            self._check_open()
            stream = self._state.streams.get(stream_id)
            return None if stream is None else replace(stream.columns, head=stream.head)

    def streams(self, tenant: str | None = None, after: str = "", limit: int = 100) -> list[StoredStream]:
        """See ``Reader.streams``."""
        with self._lock:
            self._check_open()
            found = [
                replace(stream.columns, head=stream.head)
                for stream_id, stream in sorted(self._state.streams.items())
                if stream_id > after and (tenant is None or stream.columns.tenant == tenant)
            ]
            return found[: max(limit, 0)]

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
        with self._lock:
            self._check_open()
            stream = self._state.streams.get(stream_id)
            events = [] if stream is None else stream.events[max(after, 0) :]
        found = [
            event
            for event in events
            if (types is None or event.event_type in types) and (run_id is None or event.run_id == run_id)
        ][: max(limit, 0)]
        left_out: dict[str, Any] = ({} if content else {"content": ()}) | ({} if headers else {"header": b""})
        return [replace(event, **left_out) for event in found] if left_out else found

    def find(self, stream_id: str, event_ids: Sequence[str]) -> list[StoredEvent]:
        """See ``Reader.find``."""
        with self._lock:
            self._check_open()
            stream = self._state.streams.get(stream_id)
            if stream is None:
                return []
            places = {stream.places[event_id] for event_id in event_ids if event_id in stream.places}
            return [stream.events[place] for place in sorted(places)]

    def get(self, table: str, key: Key) -> Row | None:
        """See ``Reader.get``."""
        with self._lock:
            self._check_open()
            found = table_of(self._state.tables, table)
            check_key(found.spec, key)
            row = found.rows.get(key)
            return None if row is None else dict(row)

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
        with self._lock:
            self._check_open()
            found = table_of(self._state.tables, table)
            return select(found, index, prefix, after, limit, descending=descending)

    def count(self, table: str, index: str, prefix: Key, most: int) -> int:
        """See ``Reader.count``."""
        with self._lock:
            self._check_open()
            found = table_of(self._state.tables, table)
            return len(select(found, index, prefix, None, most, descending=False))

    def feed(self, cursor: bytes = b"", limit: int = 500) -> FeedPage:
        """See ``Reader.feed``. The cursor is the number of events seen, in decimal digits."""
        if cursor and not cursor.isdigit():
            raise InvalidForm(
                "this feed cursor was not made by this store", hint="begin again with an empty cursor"
            )
        with self._lock:
            self._check_open()
            seen = int(cursor or b"0")
            events = tuple(self._state.feed[seen : seen + max(limit, 0)])
            reached = seen + len(events)
            return FeedPage(events, b"%d" % reached, caught_up=reached >= len(self._state.feed))

    def recent(self, limit: int = 20) -> FeedPage:
        """See ``Reader.recent``."""
        with self._lock:
            self._check_open()
            reached = len(self._state.feed)
            events = tuple(self._state.feed[max(0, reached - max(limit, 0)) :])
            return FeedPage(events, b"%d" % reached, caught_up=True)

    def checkpoint(self, stream_id: str, projection: str, version: int) -> Checkpoint | None:
        """See ``Reader.checkpoint``."""
        with self._lock:
            self._check_open()
            saved = self._state.checkpoints.get((stream_id, projection, version), {})
            return saved[max(saved)] if saved else None

    def strays(self, limit: int = 100) -> list[Stray]:  # noqa: ARG002 - part of the contract
        """See ``Reader.strays``. Memory has no rows that stand by themselves, so there are none."""
        with self._lock:
            self._check_open()
            return []


def empty_state(tables: Mapping[str, Table]) -> State:
    """A ledger in which nothing has happened."""
    return State(tables=dict(tables))
