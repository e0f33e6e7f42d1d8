"""The feed: every event of every stream, resumable, losing nothing while others append."""

from __future__ import annotations

import threading

import pytest

from counterfoil.errors import InputError
from counterfoil.store.unit import FeedPage, Receipt, StoredEvent, Unit
from counterfoil.testing.contract.case import DEADLINE_S, ContractCase, all_events

WRITERS = 4
APPENDS = 40


class FeedContract(ContractCase):
    """``Reader.feed``, for adapters with the capability ``feed``."""

    def feed(self, cursor: bytes = b"", limit: int = 500) -> FeedPage:
        """A page of the store's feed; skips the test if the adapter has none."""
        self.need("feed")
        return self.store.feed(cursor, limit)

    def recent(self, limit: int = 20) -> FeedPage:
        """The end of the store's feed; skips the test if the adapter has none."""
        self.need("feed")
        return self.store.recent(limit)

    def all_events(self, limit: int = 1000) -> list[StoredEvent]:
        """Every event of the feed, ``limit`` at a time."""
        self.need("feed")
        return all_events(self.store, limit)

    def check_each_stream_is_whole(self, events: list[StoredEvent]) -> None:
        """Each stream's events come in order, without gap, from the first."""
        next_sequence: dict[str, int] = {}
        for event in events:
            assert event.sequence == next_sequence.get(event.stream_id, 1)
            next_sequence[event.stream_id] = event.sequence + 1

    def test_the_feed_of_an_empty_ledger_is_empty(self) -> None:
        page = self.feed()
        assert (page.events, page.caught_up, page.lag) == ((), True, "")

    def test_the_feed_holds_every_event_of_every_stream_as_reading_the_stream_does(self) -> None:
        streams = [self.new_stream(number) for number in (3, 0, 2)]
        self.append(Unit(tuple(stream.adding(*stream.events(2)) for stream in streams)))
        events = self.all_events()
        self.check_each_stream_is_whole(events)
        for stream in streams:
            mine = [event for event in events if event.stream_id == stream.stream_id]
            assert mine == self.store.read(stream.stream_id)

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    def test_pages_of_any_size_give_the_same_feed(self, limit: int) -> None:
        first, second = self.new_stream(), self.new_stream()
        for _ in range(7):
            self.outcomes(first.unit(first.event()), second.unit(second.event()))
        page = self.feed(limit=limit)
        assert len(page.events) == min(limit, 14)
        assert page.caught_up or limit < 15
        assert self.all_events(limit) == self.all_events()

    @pytest.mark.parametrize("limit", [0, 1, 3, 7, 100])
    def test_the_recent_events_are_the_end_of_the_feed(self, limit: int) -> None:
        first, second = self.new_stream(), self.new_stream()
        for _ in range(3):
            self.outcomes(first.unit(first.event()), second.unit(second.event()))
        page = self.recent(limit)
        events = self.all_events()
        assert list(page.events) == events[len(events) - min(limit, len(events)) :]
        assert page.caught_up

    def test_the_feed_goes_on_after_the_recent_events(self) -> None:
        stream = self.new_stream(2)
        page = self.recent(1)
        self.append(stream.unit(stream.event()))
        assert [event.sequence for event in self.feed(page.cursor).events] == [3]

    def test_the_recent_events_of_an_empty_ledger_are_none_and_the_feed_goes_on_from_the_start(self) -> None:
        page = self.recent()
        assert page.events == ()
        self.new_stream(2)
        assert len(self.feed(page.cursor).events) == 2

    def test_a_page_that_leaves_events_behind_is_not_caught_up(self) -> None:
        self.new_stream(5)
        assert not self.feed(limit=4).caught_up
        assert self.feed(limit=6).caught_up

    def test_a_cursor_goes_on_with_what_was_appended_after_it(self) -> None:
        stream = self.new_stream(3)
        page = self.feed()
        other = self.new_stream(2)
        self.append(stream.unit(stream.event()))
        following = self.feed(page.cursor)
        assert [(event.stream_id, event.sequence) for event in following.events] == [
            (other.stream_id, 1),
            (other.stream_id, 2),
            (stream.stream_id, 4),
        ]

    def test_a_cursor_at_the_end_stays_good(self) -> None:
        stream = self.new_stream(1)
        cursor = self.feed().cursor
        for _ in range(3):
            page = self.feed(cursor)
            assert (page.events, page.caught_up) == ((), True)
            cursor = page.cursor
        self.append(stream.unit(stream.event()))
        assert [event.sequence for event in self.feed(cursor).events] == [2]

    def test_the_cursor_of_an_empty_ledger_sees_the_first_event(self) -> None:
        cursor = self.feed().cursor
        self.new_stream(1)
        assert len(self.feed(cursor).events) == 1

    def test_a_refused_unit_leaves_no_trace_in_the_feed(self) -> None:
        stream = self.new_stream(1)
        self.outcomes(
            stream.unit(stream.event()), stream.unit(stream.event(), token=9), stream.unit(stream.event())
        )
        assert [event.sequence for event in self.all_events()] == [1, 2, 3]

    def test_positions_rise_along_the_feed(self) -> None:
        first, second = self.new_stream(2), self.new_stream(2)
        self.outcomes(*(stream.unit(stream.event()) for stream in (first, second, first)))
        positions = [event.position for event in self.all_events()]
        assert positions == sorted(set(positions))

    def test_a_cursor_from_a_snapshot_goes_on_in_the_store(self) -> None:
        stream = self.new_stream(2)
        with self.store.snapshot() as snapshot:
            self.append(stream.unit(*stream.events(2)))
            page = snapshot.feed()
        following = self.feed(page.cursor)
        assert [event.sequence for event in (*page.events, *following.events)] == [1, 2, 3, 4]

    @pytest.mark.parametrize("cursor", [b"not a cursor", b"\xff" * 40, b"-1", b"\x00"])
    def test_bytes_that_are_no_cursor_are_refused(self, cursor: bytes) -> None:
        self.new_stream(2)
        with pytest.raises(InputError):
            self.feed(cursor)

    def test_a_reader_who_follows_while_others_append_loses_nothing(self) -> None:
        streams = [self.new_stream() for _ in range(WRITERS)]
        units = [[stream.unit(event) for event in stream.events(APPENDS)] for stream in streams]
        done = threading.Event()
        seen: list[StoredEvent] = []
        reader = threading.Thread(target=self.follow, args=(done, seen))
        writers = [threading.Thread(target=self.write, args=(mine,)) for mine in units]
        for thread in (reader, *writers):
            thread.start()
        for writer in writers:
            writer.join(DEADLINE_S)
        done.set()
        reader.join(DEADLINE_S)
        self.check_each_stream_is_whole(seen)
        assert len(seen) == WRITERS * APPENDS

    def follow(self, done: threading.Event, seen: list[StoredEvent]) -> None:
        """Read the feed page by page until the writers are done and nothing is left."""
        cursor = b""
        while True:
            finished = done.is_set()
            page = self.feed(cursor, 7)
            seen.extend(page.events)
            cursor = page.cursor
            if finished and page.caught_up and not page.events:
                return

    def write(self, units: list[Unit]) -> None:
        """Append these units one after the other."""
        for unit in units:
            (outcome,) = self.outcomes(unit)
            assert isinstance(outcome, Receipt)
