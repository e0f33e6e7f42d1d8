"""Events whose content is read when it is looked at, some at a time, and let go of: a long run is resumed in little memory."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from counterfoil.client.opening import open_content, open_lone, unreadable
from counterfoil.core.header import Header, Skimmed, peek_header, skim_header
from counterfoil.errors import InputError
from counterfoil.flow.event import Event, Opened
from counterfoil.flow.requests import Events
from counterfoil.store.unit import StoredEvent

if TYPE_CHECKING:
    from counterfoil.client.ports import LedgerPorts

PAGE_EVENTS_FIRST: Final = 8
PAGE_EVENTS_MAX: Final = 64
PAGE_BYTES: Final = 1024 * 1024
"""Bytes of records after which pages become smaller."""

PAGES_KEPT: Final = 3
OPENED_KEPT: Final = 8
"""Contents that stay open for who looks at them again."""

HEADERS_AT_ONCE: Final = 500


def light_events(ports: LedgerPorts, query: Events) -> Iterator[Event]:
    """The events of a query with their headers alone; content comes with the pages behind them."""
    pages = _Pages(ports, query)
    after, left = query.after, query.limit
    while left is None or left > 0:
        want = HEADERS_AT_ONCE if left is None else min(HEADERS_AT_ONCE, left)
        page = ports.store.read(query.stream_id, after, want, query.types, query.run_id, content=False)
        for stored in page:
            pages.add(stored.sequence)
            yield _Light(stored, pages)
        if len(page) < want:
            return
        after = page[-1].sequence
        left = None if left is None else left - len(page)


class _Light(Event):
    """An event that asks its pages for content, and parses of its header what a resumed run asks for.

    Of a long record no object stands beside each event for its content, and no parsed header.
    """

    __slots__ = ("_pages", "_stored", "skimmed")

    def __init__(self, stored: StoredEvent, pages: _Pages) -> None:
        self.stream_id = stored.stream_id
        self.sequence = stored.sequence
        self.recorded_at_ms = stored.recorded_at_ms
        self.hash = stored.hash
        self.fault = ""
        self._header = self._opened = self._whole = None
        self._keeps = False
        self._stored = stored.header
        self._pages = pages
        try:
            self.skimmed: Skimmed = skim_header(stored.header)
        except InputError as error:
            raise unreadable(stored, error) from error
        self.type = self.skimmed.event_type

    @property
    def header(self) -> Header:
        """The whole header, parsed when it is first asked for: of most events it never is."""
        if self._header is None:
            self._header = Header(peek_header(self._stored))
        return self._header

    @property
    def event_id(self) -> str:
        """``evt_…``"""
        return self.skimmed.event_id

    @property
    def version(self) -> int:
        """The version of the type."""
        return self.skimmed.event_schema_version

    @property
    def data(self) -> Mapping[str, Any]:
        """The public fields."""
        return self.skimmed.data

    @property
    def opened(self) -> Opened:
        """The content with its state, from the page that it stands in."""
        return self._pages.opened(self)


class _Pages:
    """The records behind the events of one query, a few pages of them in memory. Thread-safe.

    Pages lie side by side, so that who asks for siblings in another order than they ended in finds them in the same
    few pages.
    """

    def __init__(self, ports: LedgerPorts, query: Events) -> None:
        self._ports = ports
        self._query = query
        self._sequences = array("q")
        self._pages: deque[dict[int, StoredEvent]] = deque(maxlen=PAGES_KEPT)
        self._size = PAGE_EVENTS_FIRST
        self._hits = 0
        """Looks that the pages at hand answered since the last one was read."""
        self._opened: dict[int, Opened] = {}
        self._lock = threading.Lock()

    def add(self, sequence: int) -> None:
        """One more event that may be asked for, behind all others."""
        self._sequences.append(sequence)

    def opened(self, event: _Light) -> Opened:
        """The content of one event, with its state."""
        parts = event.skimmed.content
        if not parts:
            return Opened("none")
        sequence = event.sequence
        with self._lock:
            found = self._opened.get(sequence)
            if found is not None:
                return found
            stored = self._stored(sequence)
        opened = None
        if len(parts) == 1 and not event.skimmed.artifact_refs:
            opened = open_lone(self._ports, stored, event.event_id, parts[0])
        if opened is None:
            opened = open_content(self._ports, stored, event.header)
        with self._lock:
            if len(self._opened) >= OPENED_KEPT:
                self._opened.clear()
            self._opened[sequence] = opened
        return opened

    def _stored(self, sequence: int) -> StoredEvent:
        for page in self._pages:
            found = page.get(sequence)
            if found is not None:
                self._hits += 1
                return found
        return self._fetched(sequence)

    def _fetched(self, sequence: int) -> StoredEvent:
        """The page in which this event stands."""
        query, read = self._query, self._ports.store.read
        self._fit_to_use()
        place = bisect_left(self._sequences, sequence)
        first = self._sequences[place - place % self._size]
        page = read(query.stream_id, first - 1, self._size, query.types, query.run_id, headers=False)
        size = sum(len(record) for event in page for record in event.content if record is not None)
        self._size = max(1, self._size // 2) if size > PAGE_BYTES else min(PAGE_EVENTS_MAX, self._size * 2)
        found = {event.sequence: event for event in page}
        self._pages.appendleft(found)
        self._hits = 0
        if sequence not in found:
            # Removed since its header was read: what became of it is said by its certificate, if there is one.
            (found[sequence],) = read(query.stream_id, sequence - 1, 1, content=False)
        return found[sequence]

    def _fit_to_use(self) -> None:
        """Make pages smaller where little of the last one was wanted: siblings that come in any order gain nothing by them."""
        last = len(self._pages[0]) if self._pages else 0
        if self._hits * 4 < last - 1:
            self._size = max(1, last // 2)
