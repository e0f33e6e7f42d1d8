"""Events as they lie in the store, as plain rows: how verify reads them, from any adapter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol, runtime_checkable

from counterfoil.store.contract import Reader
from counterfoil.store.unit import StoredEvent

PAGE_EVENTS_MAX: Final = 500
PAGE_EVENTS_FIRST: Final = 16
PAGE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of records after which pages are made smaller: reading stays in bounded memory."""

RawEvent = tuple[Any, ...]
"""One record of one event, with the event's columns as they lie in the store.

Position, sequence, event id, event type, run id, recorded at (ms), header, hash; then part and record, or None twice.
"""

Parts = tuple[str | None, ...]
"""Commitment, key id (None for the stream key) and sha256 of each part in a header, one after the other."""


@runtime_checkable
class RawReader(Protocol):
    """What a reader may offer beside the contract, to be verified at the speed of its engine."""

    def raw_events(self, stream_id: str, *, records: bool) -> Iterator[list[RawEvent]]:
        """Every event of a stream by sequence, then position, then part, in pages of bounded size.

        Without ``records`` each event is one row. Columns come as they are stored, even where they are damaged.
        """
        ...

    def row_counts(self, *, records: bool) -> dict[str, int]:
        """Rows in ``stream``, ``head``, ``event`` and, with ``records``, ``event_content``.

        Counting costs a fraction of looking for rows that belong to nothing: where all were seen, there are none.
        """
        ...

    def run_starts(self, stream_id: str) -> list[tuple[int, str]]:
        """Where the run of a stream changes, as the engine keeps it to read one run: from which sequence, which run."""
        ...


def raw_events(reader: Reader, stream_id: str, *, records: bool) -> Iterator[list[RawEvent]]:
    """The events of a stream as pages of raw rows, from the quickest source that the reader has."""
    if isinstance(reader, RawReader):
        return reader.raw_events(stream_id, records=records)
    return _paged(reader, stream_id, records=records)


def _paged(reader: Reader, stream_id: str, *, records: bool) -> Iterator[list[RawEvent]]:
    after, limit = 0, PAGE_EVENTS_FIRST
    while page := reader.read(stream_id, after, limit, content=records):
        yield [row for event in page for row in _rows(event)]
        size = sum(len(record) for event in page for record in event.content if record is not None)
        after = page[-1].sequence
        limit = max(1, limit // 2) if size > PAGE_BYTES else min(limit * 2, PAGE_EVENTS_MAX)


def _rows(event: StoredEvent) -> Iterator[RawEvent]:
    columns = (
        *(event.position, event.sequence, event.event_id, event.event_type),
        *(event.run_id, event.recorded_at_ms, event.header, event.hash),
    )
    present = [(part, record) for part, record in enumerate(event.content) if record is not None]
    if not present:
        yield (*columns, None, None)
    for part, record in present:
        yield (*columns, part, record)
