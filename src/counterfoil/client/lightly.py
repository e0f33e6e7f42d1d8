"""Events whose content is read when it is looked at, some at a time, and let go of: a long run is resumed in little memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from counterfoil.client.opening import open_content
from counterfoil.core.event import read_header
from counterfoil.core.header import Header
from counterfoil.flow.event import Event, Opened
from counterfoil.flow.requests import Events
from counterfoil.store.unit import StoredEvent

if TYPE_CHECKING:
    from counterfoil.client.ports import LedgerPorts

PAGE_EVENTS_FIRST: Final = 8
PAGE_EVENTS_MAX: Final = 64
PAGE_BYTES: Final = 2 * 1024 * 1024
"""Bytes of records after which pages become smaller."""

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
            header = read_header(stored.header)
            opener = partial(pages.opened, stored.sequence, header)
            yield Event(
                stored.stream_id,
                stored.sequence,
                stored.recorded_at_ms,
                header,
                stored.hash,
                opener,
                keeps=False,
            )
        if len(page) < want:
            return
        after = page[-1].sequence
        left = None if left is None else left - len(page)


class _Pages:
    """The records behind the events of one query, a page of them in memory. Thread-safe."""

    def __init__(self, ports: LedgerPorts, query: Events) -> None:
        self._ports = ports
        self._query = query
        self._page: dict[int, StoredEvent] = {}
        self._size = PAGE_EVENTS_FIRST
        self._opened: OrderedDict[int, Opened] = OrderedDict()
        self._lock = threading.Lock()

    def opened(self, sequence: int, header: Header) -> Opened:
        """The content of one event, with its state."""
        if not header.content:
            return Opened("none")
        with self._lock:
            found = self._opened.get(sequence)
            if found is not None:
                return found
            stored = self._page.get(sequence) or self._fetched(sequence)
        opened = open_content(self._ports, stored, header)
        with self._lock:
            self._opened[sequence] = opened
            if len(self._opened) > OPENED_KEPT:
                self._opened.popitem(last=False)
        return opened

    def _fetched(self, sequence: int) -> StoredEvent:
        """The page that begins with this event: who resumes goes on to the next ones."""
        query = self._query
        page = self._ports.store.read(query.stream_id, sequence - 1, self._size, query.types, query.run_id)
        size = sum(len(record) for event in page for record in event.content if record is not None)
        self._size = max(1, self._size // 2) if size > PAGE_BYTES else min(PAGE_EVENTS_MAX, self._size * 2)
        self._page = {event.sequence: event for event in page}
        found = self._page.get(sequence)
        if found is None:
            # Removed since its header was read: what became of it is said by its certificate, if there is one.
            (found,) = self._ports.store.read(query.stream_id, sequence - 1, 1, content=False)
        return found
