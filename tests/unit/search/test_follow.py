"""Following: no event twice, none left out, whatever the feed, a crash or another process does."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from counterfoil.errors import SearchUnusable, StoreBusy
from counterfoil.search import follow
from counterfoil.search import index as search_index
from counterfoil.search.file import SearchFile
from counterfoil.search.find import find
from counterfoil.search.follow import Follower
from counterfoil.search.index import Index, PartText, Shortfall, Taken
from counterfoil.search.query import plain
from counterfoil.search.schema import ADDED
from counterfoil.store.unit import FeedPage, StoredEvent, StoredStream

LEDGER = "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG"
STREAM = "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"


class Feed:
    """A store as far as a follower sees it: a feed that may leave events out, and streams that hold them."""

    def __init__(self, events, shown=None):
        self.events = events
        self.shown = events if shown is None else shown

    def feed(self, cursor=b"", limit=500):
        after = int.from_bytes(cursor, "big")
        page = self.shown[after : after + limit]
        reached = after + len(page)
        return FeedPage(tuple(page), reached.to_bytes(8, "big"), caught_up=reached >= len(self.shown))

    def read(self, stream_id, after=0, limit=500):
        return [event for event in self.events if event.sequence > after][:limit]

    def find(self, stream_id, ids):
        return [event for event in self.events if event.event_id in ids]

    def stream(self, stream_id):
        return StoredStream(stream_id, "default", "conversation", b"", None)


def stored(sequence):
    return StoredEvent(sequence, STREAM, sequence, f"evt_{sequence}", "note.kept", None, sequence, b"", b"")


def taken(event):
    text = f"word{event.sequence:03d} common"
    return Taken(event.stream_id, event.sequence, event.event_id, 0, (PartText(0, None, text),))


@pytest.fixture
def index(tmp_path):
    made = Index(SearchFile(tmp_path / "search.db", LEDGER), "default")
    yield made
    made.file.close()


def found(index):
    return sorted(place.sequence for place in find(index, plain("common"), STREAM, 1000, None).found)


def test_events_that_the_feed_left_out_are_read_from_their_stream(index):
    events = [stored(number) for number in range(1, 60)]
    shown = [event for event in events if event.sequence not in {3, 4, 30, 31, 32}]
    assert Follower(Feed(events, shown), index, taken).catch_up()
    assert found(index) == list(range(1, 60))
    assert index.shortfall(STREAM).holes == 0


def test_a_hole_in_the_ledger_itself_is_counted(index):
    events = [stored(number) for number in (1, 2, 5, 6)]
    assert Follower(Feed(events), index, taken).catch_up()
    assert found(index) == [1, 2, 5, 6]
    assert index.shortfall(STREAM).holes == 2


def pieces(index):
    with index.file.using() as connection:
        return connection.execute("SELECT count(DISTINCT segid) FROM words_idx").fetchone()[0]


def followed_in_pieces(index, monkeypatch, events, **bounds):
    monkeypatch.setattr(follow, "BATCH_EVENTS", 16)
    monkeypatch.setattr(follow, "MERGE_FROM", 40)
    told = []
    assert Follower(Feed(events), index, taken).catch_up(*bounds.values(), progress=told.append)
    return told


def test_a_bulk_build_leaves_the_words_in_one_piece_and_nothing_is_lost(index, monkeypatch):
    told = followed_in_pieces(index, monkeypatch, [stored(number) for number in range(1, 51)])
    assert pieces(index) == 1
    assert told[-2:] == [50, 50], "a merge can be stopped by its progress"
    assert found(index) == list(range(1, 51))


@pytest.mark.parametrize("count, bounds", [(39, {}), (50, {"wait_s": 60.0})], ids=["few events", "a search"])
def test_what_takes_in_little_or_is_waited_for_merges_nothing(index, monkeypatch, count, bounds):
    followed_in_pieces(index, monkeypatch, [stored(number) for number in range(1, count + 1)], **bounds)
    assert pieces(index) > 1


def test_a_merge_that_is_stopped_loses_nothing_and_another_one_ends_it(index, monkeypatch):
    monkeypatch.setattr(search_index, "MERGE_PAGES", 1)
    events = [stored(number) for number in range(1, 501)]
    followed_in_pieces(index, monkeypatch, events, wait_s=60.0)
    next(index.merge())
    assert found(index) == list(range(1, 501))
    for _ in index.merge():
        pass
    assert pieces(index) == 1
    assert found(index) == list(range(1, 501))


def add_streams(index, count):
    with index.file.writing() as connection:
        connection.executemany(
            "INSERT INTO stream (stream_id, tenant, seq) VALUES (?, 'default', 9)",
            [(f"str_{number}",) for number in range(count)],
        )


def steps_of(index):
    """Hundreds of instructions that saying what all conversations lack takes SQLite."""
    steps = []
    with index.file.using() as connection:
        connection.set_progress_handler(lambda: steps.append(1), 100)
        index.shortfall(None)
        connection.set_progress_handler(None, 100)
    return len(steps)


def test_what_all_conversations_lack_is_known_without_reading_each(index):
    add_streams(index, 5_000)
    assert steps_of(index) <= 2


@pytest.mark.parametrize("gap", ["cut", "unread", "holes"])
def test_what_one_conversation_lacks_all_of_them_do(index, gap):
    add_streams(index, 3)
    assert index.shortfall(None) == Shortfall()
    with index.file.writing() as connection:
        connection.execute(f"UPDATE stream SET {gap} = 7 WHERE stream_id = 'str_1'")
        connection.execute(
            f"INSERT INTO stream (stream_id, tenant, seq, {gap}) VALUES ('str_9', 'other', 1, 1)"
        )
    assert index.shortfall(None) == Shortfall(**{gap: 1})
    assert index.shortfall("str_1") == Shortfall(**{gap: 7})
    assert index.shortfall("str_0") == Shortfall()


def test_a_file_of_an_earlier_build_gets_what_it_lacks(tmp_path):
    SearchFile(tmp_path / "search.db", LEDGER).check()
    first = SearchFile(tmp_path / "search.db", LEDGER)
    with first.using() as connection:
        for name in ADDED:
            connection.execute(f"DROP INDEX {name}")
    first.close()
    second = SearchFile(tmp_path / "search.db", LEDGER)
    with second.using() as connection:
        names = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")
        }
    second.close()
    assert set(ADDED) <= names


def test_an_event_shown_twice_is_taken_in_once(index):
    events = [stored(number) for number in range(1, 6)]
    assert Follower(Feed(events, [*events, *events[2:]]), index, taken).catch_up()
    assert found(index) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("stop", range(1, 12))
def test_a_crash_at_any_event_loses_nothing_and_doubles_nothing(index, stop, monkeypatch):
    monkeypatch.setattr(follow, "BATCH_EVENTS", 3)
    events = [stored(number) for number in range(1, 11)]

    def until(event):
        if event.sequence == stop:
            raise KeyboardInterrupt
        return taken(event)

    try:
        Follower(Feed(events), index, until, page_events=2).catch_up()
    except KeyboardInterrupt:
        index.file.close()
    again = Index(SearchFile(index.file.path, LEDGER), "default")
    assert Follower(Feed(events), again, taken, page_events=2).catch_up()
    assert found(again) == list(range(1, 11))
    again.file.close()


def test_of_two_that_follow_at_once_each_event_is_taken_in_once(index, tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "BATCH_EVENTS", 4)
    events = [stored(number) for number in range(1, 30)]
    other = Index(SearchFile(tmp_path / "search.db", LEDGER), "default")
    second = Follower(Feed(events), other, taken, page_events=2)

    def overtaken(event):
        # While this one reads, the other takes the same batch in.
        if event.sequence % 5 == 1:
            second.catch_up(wait_s=0.0)
        return taken(event)

    assert Follower(Feed(events), index, overtaken, page_events=2).catch_up()
    assert found(index) == list(range(1, 30))
    with index.file.using() as connection:
        assert connection.execute("SELECT count(*) FROM words").fetchone()[0] == 29
    other.file.close()


def test_what_was_read_before_an_erasure_is_not_put_in_after_it(index):
    events = [stored(number) for number in range(1, 6)]

    def erased_meanwhile(event):
        if event.sequence == 5:
            index.erase([STREAM])
        return taken(event)

    assert Follower(Feed(events), index, erased_meanwhile).catch_up()
    assert found(index) == []


def test_an_erasure_that_a_reader_holds_up_says_so_and_is_done_when_repeated(index, tmp_path):
    Follower(Feed([stored(number) for number in range(1, 6)]), index, taken).catch_up()
    hurried = Index(SearchFile(tmp_path / "search.db", LEDGER, busy_s=0.05), "default")
    with closing(sqlite3.connect(tmp_path / "search.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM words").fetchone() == (5,)
        with pytest.raises(StoreBusy) as raised:
            hurried.erase([STREAM])
        assert raised.value.retryable
    assert hurried.erase([STREAM]) == 0
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("search.db*"))
    assert b"word003" not in kept
    hurried.file.close()


def test_a_history_that_is_not_the_ledgers_is_refused(index):
    assert Follower(Feed([stored(number) for number in range(1, 6)]), index, taken).catch_up()
    with pytest.raises(SearchUnusable):
        Follower(Feed([stored(1)]), index, taken).catch_up()


def test_a_conversation_that_is_gone_altogether_is_another_history_unless_it_was_erased(index):
    class Gone(Feed):
        def find(self, stream_id, ids):
            return []

    events = [stored(number) for number in range(1, 6)]
    assert Follower(Feed(events), index, taken).catch_up()
    with pytest.raises(SearchUnusable):
        Follower(Gone(events), index, taken).catch_up()
    index.erase([STREAM])
    assert Follower(Gone(events), index, taken).catch_up()


def test_an_idle_index_is_not_written(index):
    events = [stored(1)]
    Follower(Feed(events), index, taken).catch_up()
    with index.file.using() as connection:
        before = connection.total_changes
        Follower(Feed(events), index, taken).catch_up()
        assert connection.total_changes == before
