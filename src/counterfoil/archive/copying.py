"""Copying streams from one store to another: resumable, each event held to its hash and link on the way (FORMAT 14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from counterfoil.archive.writing import pages
from counterfoil.companions.rows import COMPANIONS
from counterfoil.core.event import event_hash
from counterfoil.core.genesis import parse_genesis
from counterfoil.core.header import peek_header
from counterfoil.errors import ChainBroken, CounterfoilError
from counterfoil.store.contract import Reader, Store
from counterfoil.store.loading import LoadItem, LoadStream, LoadToken
from counterfoil.store.rows import Key, Put
from counterfoil.store.unit import Head, StoredEvent, StoredStream

EVENTS_PER_LOAD: Final = 20_000
"""Events in one transaction: what a copy that is killed has to do again at most."""
STREAMS_PER_PAGE: Final = 100
ROWS_PER_PAGE: Final = 500

Progress = Callable[[int, int | None], None]
Last = Callable[[StoredStream], int]
"""The last sequence of a stream that is to be copied."""


class Copied(Struct):
    """What one pass came to: how many streams there are, how many events are in the copy, how many it added."""

    streams: int = 0
    events: int = 0
    added: int = 0


def whole(stream: StoredStream) -> int:
    """Everything that a stream holds."""
    return stream.head.sequence


def total_of(reader: Reader) -> int:
    """How many events the head rows speak of; for progress alone."""
    return sum(stream.head.sequence for stream in streams_of(reader))


def streams_of(reader: Reader) -> Iterator[StoredStream]:
    """Every stream of every tenant, by id."""
    after = ""
    while page := reader.streams(after=after, limit=STREAMS_PER_PAGE):
        yield from page
        after = page[-1].stream_id


def copy_streams(
    source: Store, target: Store, *, last: Last = whole, progress: Progress | None = None
) -> Copied:
    """Bring the target's streams to where the source's are; what it has already is not read again.

    One consistent view of the source; several transactions in the target, each whole. Raises ChainBroken for an event
    that is not what it was, or does not link; what was copied before it stays.
    """
    with source.snapshot() as reader:
        return _Pass(reader, target, last, progress).run()


def copy_companions(source: Store, target: Store) -> int:
    """Put every companion row of the source into the target, as it is stored; how many there are."""
    count = 0
    with source.snapshot() as reader:
        after: Key | None = None
        while page := reader.select(COMPANIONS.name, None, (), after, ROWS_PER_PAGE):
            names = [column.name for column in COMPANIONS.columns]
            target.load([Put(COMPANIONS.name, {name: row[name] for name in names}) for row in page])
            after = tuple(page[-1][name] for name in COMPANIONS.key)
            count += len(page)
    return count


def differing(source: Store, target: Store, last: Last = whole) -> str | None:
    """The first stream that is not in the target as it is in the source, or None; by heads, fencing tokens too."""
    for stream in streams_of(source):
        copy, end = target.stream(stream.stream_id), last(stream)
        if copy is None or (copy.genesis, copy.tenant) != (stream.genesis, stream.tenant):
            return stream.stream_id
        head = stream.head
        if (copy.head.sequence, copy.head.token) != (end, head.token):
            return stream.stream_id
        if end == head.sequence and copy.head.hash != head.hash:
            return stream.stream_id
    return None


class _Cut:
    """Between two transactions of the target."""


_CUT: Final = _Cut()


class _Pass:
    def __init__(self, reader: Reader, target: Store, last: Last, progress: Progress | None) -> None:
        self._reader = reader
        self._target = target
        self._last = last
        self._progress = progress
        self._total = total_of(reader)
        self._done = Copied()
        self._left = True

    def run(self) -> Copied:
        items = self._items()
        while self._left:
            self._target.load(self._until_cut(items))
        return self._done

    def _until_cut(self, items: Iterator[LoadItem | _Cut]) -> Iterator[LoadItem]:
        for item in items:
            if isinstance(item, _Cut):
                return
            yield item
        self._left = False

    def _items(self) -> Iterator[LoadItem | _Cut]:
        for stream in streams_of(self._reader):
            self._done.streams += 1
            there, end = self._target.head(stream.stream_id), self._last(stream)
            after = 0 if there is None else there.sequence
            self._done.events += after
            if there is None or after < end or there.token < stream.head.token:
                yield from self._stream(stream, there, end)

    def _stream(self, stream: StoredStream, there: Head | None, end: int) -> Iterator[LoadItem | _Cut]:
        genesis = parse_genesis(stream.genesis)
        after, digest = (0, genesis.hash) if there is None else (there.sequence, there.hash)
        yield LoadStream(genesis, stream.tenant, after)
        if after < end:
            for page in pages(self._reader, stream.stream_id, after):
                for event in page:
                    if event.sequence > end:
                        break
                    _check(event, digest)
                    digest = event.hash
                    yield event
                    self._done.events += 1
                    self._done.added += 1
                    if self._done.added % EVENTS_PER_LOAD == 0:
                        yield _CUT
                        yield LoadStream(genesis, stream.tenant, event.sequence)
                if self._progress is not None:
                    self._progress(self._done.events, self._total)
                if page[-1].sequence >= end:
                    break
        yield LoadToken(stream.head.token)


def _check(event: StoredEvent, before: bytes) -> None:
    """Hold an event to its hash and to the one before it."""
    try:
        fits = event_hash(event.header) == event.hash
        fits = fits and peek_header(event.header).get("previous_event_hash") == before.hex()
    except (CounterfoilError, TypeError):
        fits = False
    if not fits:
        raise ChainBroken(
            f"event {event.sequence} of {event.stream_id} is not what was recorded, or does not link to the one before",
            hint="run `counterfoil verify` on the source; a damaged ledger is not copied, its conversations can be exported",
            stream_id=event.stream_id,
            sequence=event.sequence,
        )
