"""Following the feed of whichever engine: page by page, each stream without a gap, in batches of bounded size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from counterfoil.errors import SearchUnusable
from counterfoil.search.index import Batch, Index, Taken
from counterfoil.store.contract import Store
from counterfoil.store.unit import StoredEvent

PAGE_EVENTS: Final = 16
"""Events of one page: with the largest content that an event may have, 128 MiB."""
BATCH_EVENTS: Final = 512
BATCH_CHARACTERS: Final = 4 * 1024 * 1024

MERGE_FROM: Final = 10_000
MERGE_PART: Final = 4
"""What took in so many events, and no less than this part of all that were ever taken in, merges the whole index."""

Taker = Callable[[StoredEvent], Taken | None]
"""What the index takes of a stored event; None where it belongs to no conversation of this tenant."""


class Follower:
    """Brings one tenant's index up to the end of the feed. May be stopped and repeated anywhere."""

    def __init__(
        self,
        store: Store,
        index: Index,
        taken: Taker,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        page_events: int = PAGE_EVENTS,
    ) -> None:
        self._store = store
        self._index = index
        self._taken = taken
        self._monotonic = monotonic
        self._page_events = page_events
        self.stuck: str = ""
        """What the feed said of a horizon that does not move; empty where it moves."""

    def catch_up(self, wait_s: float | None = None, progress: Callable[[int], None] | None = None) -> bool:
        """Follow until nothing more is visible, or ``wait_s`` have passed (None: no bound); whether the end was reached.

        At least one batch is taken in. ``progress`` is told the events taken in by this call; what it raises ends it.
        Raises ``SearchUnusable`` where the ledger does not hold the last event taken in: it was put back to an older
        state, and the index holds what it has lost. Without a bound, and where much came, the index is merged at the end.
        """
        ends_at = None if wait_s is None else self._monotonic() + wait_s
        self._check_history()
        done = 0
        while True:
            followed = self._index.followed()
            batch = self._batch(followed.cursor)
            idle = batch.caught_up and followed.caught_up and batch.cursor == batch.before
            # Where another process was faster, its cursor is the one to go on from.
            taken = idle or self._index.take(batch)
            done += len(batch.events) if taken else 0
            if progress is not None:
                progress(done)
            if batch.caught_up and taken:
                if (
                    ends_at is None
                    and done >= MERGE_FROM
                    and done * MERGE_PART >= self._index.followed().events
                ):
                    self._merge(done, progress)
                return True
            if ends_at is not None and self._monotonic() >= ends_at:
                return False

    def _merge(self, done: int, progress: Callable[[int], None] | None) -> None:
        for _ in self._index.merge():
            if progress is not None:
                progress(done)

    def _check_history(self) -> None:
        followed = self._index.followed()
        if followed.event_id and not self._store.find(followed.stream_id, [followed.event_id]):
            if self._index.is_erased(followed.stream_id):
                return  # its whole conversation was purged, and the feed goes on behind it
            raise SearchUnusable(
                f"{self._index.file.shown} follows events that this ledger does not hold: it was put back to an older state",
                path=self._index.file.shown,
                reason="foreign",
            )

    def _batch(self, cursor: bytes) -> Batch:
        batch = Batch(cursor, cursor)
        reached: dict[str, int] = {}
        characters = 0
        while len(batch.events) < BATCH_EVENTS and characters < BATCH_CHARACTERS and not batch.caught_up:
            page = self._store.feed(batch.cursor, self._page_events)
            for stored in page.events:
                for event in self._in_order(stored, reached):
                    batch.events.append(event)
                    characters += sum(len(part.text) for part in event.parts)
            batch.cursor, batch.caught_up = page.cursor, page.caught_up or not page.events
            self.stuck = page.lag
        return batch

    def _in_order(self, stored: StoredEvent, reached: dict[str, int]) -> Iterator[Taken]:
        """The event, with those of its stream before it that the feed did not show: they are read from the stream."""
        event = self._taken(stored)
        if event is None:
            return
        stream_id = event.stream_id
        if stream_id not in reached:
            reached[stream_id] = self._index.sequence_of(stream_id)
        while reached[stream_id] + 1 < event.sequence:
            page = self._store.read(stream_id, reached[stream_id], self._page_events)
            missed = [one for one in page if one.sequence < event.sequence]
            if not missed:
                break  # a hole in the ledger itself: the index counts it, and answers say so
            for one in missed:
                found = self._taken(one)
                if found is not None:
                    yield found
                reached[stream_id] = one.sequence
        if event.sequence > reached[stream_id]:
            reached[stream_id] = event.sequence
            yield event
