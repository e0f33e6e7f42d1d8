"""The feed while transactions commit out of order, sleep and roll back; beside a reader who only asks for what is newer."""

from __future__ import annotations

import random
import threading
from contextlib import suppress

import pytest

from counterfoil.errors import StoreError
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import SequentialIds
from tests.servers.proxy import Proxy
from tests.unit.adapters.postgres.conftest import receipt

pytestmark = pytest.mark.postgres

WRITERS = 6
APPENDS = 20
EVENTS = 8
"""Enough for COPY: then COMMIT is a packet of its own, which the proxy can keep back."""

DEADLINE_S = 60


class NaiveReader:
    """Asks for what is newer than the newest it has seen: right on one writer, wrong on a database."""

    def __init__(self, ledger):
        self._ledger = ledger
        self._last = 0
        self.seen = set()

    def look(self):
        sql = f"SELECT xact, event_id FROM {{s}}.event WHERE xact > {self._last}"
        for xact, event_id in self._ledger.behind(sql):
            self.seen.add(event_id)
            self._last = max(self._last, xact)


class FeedReader:
    """Follows the feed by its cursor, in pages of an awkward size, and checks that no stream has a gap."""

    def __init__(self, store, limit):
        self._store = store
        self._limit = limit
        self._cursor = b""
        self.seen = []

    def look(self):
        page = self._store.feed(self._cursor, self._limit)
        self._cursor = page.cursor
        self.seen += page.events
        return page

    def ids(self):
        following = {}
        for event in self.seen:
            assert event.sequence == following.get(event.stream_id, 1)
            following[event.stream_id] = event.sequence + 1
        ids = [event.event_id for event in self.seen]
        assert len(ids) == len(set(ids))
        return set(ids)


@pytest.fixture
def proxy(cluster):
    made = Proxy(cluster.port)
    yield made
    made.close()


def test_an_event_that_becomes_visible_late_is_missed_by_the_naive_reader_and_not_by_the_feed(
    ledger, store, proxy
):
    slow, quick = (SampleStream(SequentialIds(name)) for name in ("slow", "quick"))
    receipt(store, slow.unit(create=True))
    receipt(store, quick.unit(create=True))
    reached, gate = threading.Event(), threading.Event()

    def keep_back(chunk):
        if b"COMMIT\x00" in chunk:
            reached.set()
            gate.wait(DEADLINE_S)

    held = ledger.open(port=proxy.port)
    proxy.sent = keep_back
    naive, follower = NaiveReader(ledger), FeedReader(store, 7)
    appending = threading.Thread(target=lambda: held.append([slow.unit(*slow.events(EVENTS))]).result())
    appending.start()
    assert reached.wait(DEADLINE_S)
    fast = receipt(store, quick.unit(quick.event()))
    naive.look()
    page = follower.look()
    assert (page.events, page.caught_up) == ((), False)
    gate.set()
    appending.join(DEADLINE_S)
    naive.look()
    while not follower.look().caught_up:
        pass
    assert naive.seen == {fast.positions[0].event_id}
    assert len(follower.ids()) == EVENTS + 1


def test_two_readers_lose_nothing_while_transactions_commit_in_any_order_sleep_and_roll_back(
    ledger, store, proxy
):
    streams = [SampleStream(SequentialIds(f"writer {n}")) for n in range(WRITERS)]
    for stream in streams:
        receipt(store, stream.unit(create=True))
    chance, never = random.Random(3), threading.Event()

    def disturb(chunk):
        if b"COMMIT\x00" not in chunk:
            return None
        never.wait(chance.random() * 0.02)
        return "drop" if chance.random() < 0.2 else None

    handles = [ledger.open(port=proxy.port) for _ in streams]
    proxy.sent = disturb
    done = threading.Event()
    naive = NaiveReader(ledger)
    followers = [FeedReader(store, 7), FeedReader(ledger.open(create=False), 500)]

    def write(handle, stream):
        for _ in range(APPENDS):
            with suppress(StoreError):
                handle.append([stream.unit(*stream.events(EVENTS))]).result(DEADLINE_S)

    def follow(reader):
        while not done.is_set():
            reader.look()

    readers = [threading.Thread(target=follow, args=(reader,)) for reader in (naive, *followers)]
    writers = [threading.Thread(target=write, args=pair) for pair in zip(handles, streams, strict=True)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join(DEADLINE_S)
    done.set()
    for thread in readers:
        thread.join(DEADLINE_S)
    there = {event_id for (event_id,) in ledger.behind("SELECT event_id FROM {s}.event")}
    for follower in followers:
        while not follower.look().caught_up:
            pass
        assert follower.ids() == there
    naive.look()
    assert len(there) == WRITERS * APPENDS * EVENTS
    assert there - naive.seen, "the control lost nothing, so this test shows nothing"


def test_a_horizon_that_is_stuck_is_reported_with_who_holds_it(ledger, store, stream):
    import psycopg

    cursor = store.feed().cursor
    with psycopg.connect(ledger.cluster.url(database="template1")) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        receipt(store, stream.unit(stream.event()))
        waiting = store.feed(cursor)
        assert (waiting.events, waiting.caught_up, waiting.lag) == ((), False, "")
        ledger.clock.advance(15_000)
        late = store.feed(cursor)
        assert late.events == ()
        assert "waited 15 s" in late.lag
        assert f"process {elsewhere.info.backend_pid} in database template1" in late.lag
        elsewhere.rollback()
    page = store.feed(cursor)
    assert ([event.sequence for event in page.events], page.lag, page.caught_up) == ([4], "", True)


def test_a_cursor_stays_good_when_the_events_before_it_are_purged(ledger, store, stream):
    other = SampleStream(SequentialIds("other"))
    receipt(store, other.unit(other.event(), create=True))
    page = store.feed()
    assert len(page.events) == 4
    store.remove_stream(stream.stream_id, "because")
    receipt(store, other.unit(other.event()))
    assert [event.sequence for event in store.feed(page.cursor).events] == [2]
    assert len(store.feed().events) == 2
