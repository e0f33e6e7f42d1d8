"""Truth on a server is never changed, deleted or replaced, not even by its owner; except under a permit."""

from __future__ import annotations

import psycopg
import pytest

from counterfoil.errors import ChainBroken, StreamNotFound
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import SequentialIds
from tests.unit.adapters.postgres.conftest import receipt, refusal

pytestmark = pytest.mark.postgres

CHANGES = (
    "UPDATE {s}.event SET recorded_at = 1",
    "DELETE FROM {s}.event WHERE seq = 3",
    "TRUNCATE {s}.event",
    "UPDATE {s}.event_content SET record = 'x'",
    "DELETE FROM {s}.event_content",
    "TRUNCATE {s}.event_content",
    "UPDATE {s}.stream SET tenant = 'x'",
    "DELETE FROM {s}.stream",
    "TRUNCATE {s}.stream",
)


@pytest.mark.parametrize("sql", CHANGES)
def test_the_owner_cannot_change_truth_in_passing(ledger, stream, sql):
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="never changed or deleted"):
        ledger.behind(sql)


def test_an_insert_that_would_replace_meets_the_row_that_is_there(ledger, stream):
    copied = "INSERT INTO {s}.event SELECT * FROM {s}.event"
    with pytest.raises(psycopg.errors.UniqueViolation):
        ledger.behind(copied)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ledger.behind(f"{copied} ON CONFLICT (stream_id, seq) DO UPDATE SET header = 'x'")


def test_a_permit_holds_for_its_own_transaction_only(ledger, stream):
    permit = "INSERT INTO {s}.permit VALUES (pg_current_xact_id()::text::bigint, 'left behind')"
    ledger.behind(permit)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ledger.behind("DELETE FROM {s}.event")


def test_content_is_removed_and_the_chain_stays(ledger, store, stream):
    assert store.remove_content(stream.stream_id, [(1, 0), (3, 0), (3, 5), (9, 0)], "retention") == 2
    assert [len(event.content) for event in store.read(stream.stream_id)] == [0, 1, 0]
    assert ledger.behind("SELECT count(*) FROM {s}.permit") == [(0,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ledger.behind("DELETE FROM {s}.event_content")


def test_a_removed_stream_leaves_nothing_behind_and_its_neighbours_stay(ledger, store, stream):
    other = SampleStream(SequentialIds("other"))
    receipt(store, other.unit(*other.events(2), create=True))
    assert store.remove_stream(stream.stream_id, "retention") == 3
    assert store.stream(stream.stream_id) is None
    assert (store.strays(), store.select("thing")) == ([], [])
    assert len(store.read(other.stream_id)) == 2
    with pytest.raises(StreamNotFound):
        store.remove_stream(stream.stream_id, "retention")


def test_a_removal_whose_fact_is_refused_removes_nothing(ledger, store, stream):
    with pytest.raises(Exception, match="stale"):
        store.remove_content(stream.stream_id, [(1, 0)], "retention", stream.unit(stream.event(), token=7))
    assert [len(event.content) for event in store.read(stream.stream_id)] == [1, 1, 1]


# ---- what somebody with every right does all the same ----------------------------------------------------------------


def damaged(ledger, *statements):
    tables = ("event", "event_content", "stream")
    off = [f"ALTER TABLE {{s}}.{table} DISABLE TRIGGER ALL" for table in tables]
    on = [f"ALTER TABLE {{s}}.{table} ENABLE TRIGGER ALL" for table in tables]
    ledger.behind(*off, *statements, *on)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE {s}.head SET seq = 2",
        "UPDATE {s}.head SET hash = 'x'",
        "DELETE FROM {s}.head",
        "DELETE FROM {s}.event WHERE seq = 3",
        "UPDATE {s}.event SET hash = 'x' WHERE seq = 3",
    ],
)
def test_nothing_is_appended_to_a_head_that_its_events_do_not_support(ledger, store, stream, sql):
    damaged(ledger, sql)
    refusal(ledger.open(), stream.unit(stream.event()), ChainBroken)


def test_rows_that_belong_to_nothing_are_named(ledger, store, stream):
    damaged(
        ledger,
        "INSERT INTO {s}.event VALUES ('str_x', 1, 'evt_x', 'a.b', NULL, 1, 'default', 1, 'x', 'x')",
        "INSERT INTO {s}.event SELECT stream_id, 0, 'evt_0', 'a.b', NULL, 1, tenant, 1, 'x', 'x' FROM {s}.stream",
        "INSERT INTO {s}.event_content VALUES ('str_y', 1, 0, 'default', 'x')",
        "INSERT INTO {s}.event_content SELECT stream_id, 1, 16, tenant, 'x' FROM {s}.stream",
        "INSERT INTO {s}.head VALUES ('str_z', 'default', 1, 'x')",
        "INSERT INTO {s}.stream VALUES ('str_w', 'default', 'conversation', 'x')",
    )
    found = [(stray.table, stray.what.split()[1]) for stray in store.strays()]
    assert found == [
        ("event", "evt_x"),
        ("event", "evt_0"),
        ("event_content", "str_y"),
        ("event_content", stream.stream_id),
        ("head", "of"),
        ("stream", "str_w"),
    ]
    assert len(store.strays(2)) == 2
    assert [len(event.content) for event in store.read(stream.stream_id)] == [1, 1, 1]
    assert store.head("str_w").sequence == -1


def test_a_stream_id_that_somebody_changed_still_has_a_place_in_the_feed(ledger, store, stream):
    damaged(ledger, "UPDATE {s}.event SET stream_id = 'no id at all' WHERE seq = 2")
    page = store.feed()
    assert min(event.stream_id for event in page.events) == "no id at all"
    assert [event.position for event in page.events] == [event.position for event in store.feed().events]
    assert store.feed(page.cursor).events == ()
