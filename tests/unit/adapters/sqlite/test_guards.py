"""Truth tables refuse to be changed, deleted or replaced; one audited path removes, under a permit."""

from __future__ import annotations

import sqlite3

import pytest

from counterfoil.errors import StreamNotFound, WrongSequence
from counterfoil.store.unit import at
from counterfoil.testing.events import SampleStream
from tests.unit.adapters.sqlite.conftest import receipt, refusal, thing

CHANGES = [
    "UPDATE event SET event_type = 'sample.other' WHERE seq = 2",
    "UPDATE event SET header = x'7b7d'",
    "DELETE FROM event WHERE seq = 3",
    "UPDATE event_content SET record = x'00'",
    "DELETE FROM event_content",
    "UPDATE stream SET tenant = 'other'",
    "DELETE FROM stream",
]
REPLACEMENTS = [
    "INSERT OR REPLACE INTO event SELECT * FROM event WHERE seq = 2",
    "REPLACE INTO event (stream, seq, event_id, event_type, recorded_at, header, hash)"
    " VALUES (1, 2, 'evt_other', 'sample.other', 0, x'7b7d', x'00')",
    "INSERT OR REPLACE INTO event (stream, seq, event_id, event_type, recorded_at, header, hash)"
    " SELECT stream, 99, event_id, event_type, recorded_at, header, hash FROM event WHERE seq = 2",
    "INSERT OR REPLACE INTO event (position, stream, seq, event_id, event_type, recorded_at, header, hash)"
    " VALUES (2, 1, 99, 'evt_other', 'sample.other', 0, x'7b7d', x'00')",
    "INSERT OR REPLACE INTO event_content (slot, record) SELECT slot, x'00' FROM event_content LIMIT 1",
    "INSERT OR REPLACE INTO stream SELECT number, stream_id, 'other', kind, genesis FROM stream",
    "INSERT OR REPLACE INTO stream (stream_id, tenant, kind, genesis) SELECT stream_id, 'other', kind, genesis FROM stream",
]


def everything(ledger):
    return [ledger.behind(f"SELECT * FROM {table}") for table in ("stream", "event", "event_content")]


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("statement", CHANGES)
def test_truth_is_never_changed_or_deleted(ledger, statement):
    before = everything(ledger)
    with pytest.raises(sqlite3.IntegrityError, match=r"counterfoil: .* are never (changed|deleted)"):
        ledger.behind(statement)
    assert everything(ledger) == before


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("recursive", ["ON", "OFF"])
@pytest.mark.parametrize("statement", REPLACEMENTS)
def test_truth_is_never_replaced_whatever_the_other_program_has_set(ledger, statement, recursive):
    before = everything(ledger)
    with pytest.raises(sqlite3.IntegrityError, match=r"counterfoil: .* are never (replaced|deleted)"):
        ledger.behind(f"PRAGMA recursive_triggers = {recursive}", statement)
    assert everything(ledger) == before


@pytest.mark.usefixtures("stream")
def test_a_permit_cannot_outlive_its_transaction(ledger, store):
    connection = store._engine.open()
    connection.execute("BEGIN")
    connection.execute("INSERT INTO permit (id, ground) VALUES (1, 'permit:retention')")
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("COMMIT")
    connection.execute("ROLLBACK")
    assert ledger.behind("SELECT * FROM permit") == []


def test_removed_content_is_gone_and_the_header_stays(ledger, store, stream):
    assert store.remove_content(stream.stream_id, [(2, 0), (3, 7)], "retention") == 1
    found = store.read(stream.stream_id)
    assert [len(event.content) for event in found] == [1, 0, 1]
    assert ledger.behind("SELECT * FROM permit") == []
    assert store.strays() == []


def test_a_removal_and_the_fact_that_tells_of_it_are_one_transaction(store, stream):
    refused = stream.unit(stream.event(), expected=at(99))
    with pytest.raises(WrongSequence):
        store.remove_content(stream.stream_id, [(1, 0)], "retention", unit=refused)
    assert len(store.read(stream.stream_id)[0].content) == 1
    store.remove_content(stream.stream_id, [(1, 0)], "retention", unit=stream.unit(stream.event()))
    assert store.head(stream.stream_id).sequence == 4
    assert len(store.read(stream.stream_id)[0].content) == 0


def test_content_of_an_unknown_stream_cannot_be_removed(store):
    with pytest.raises(StreamNotFound):
        store.remove_content("str_01J9ZC3Y3V7W2R5T8QK4M6N0PS", [(1, 0)], "retention")


def test_a_removed_stream_leaves_nothing_behind(ledger, store, stream):
    assert store.remove_stream(stream.stream_id, "retention") == 3
    assert store.stream(stream.stream_id) is None
    assert store.select("thing") == []
    assert store.strays() == []
    assert everything(ledger) == [[], [], []]


def test_the_feed_position_of_a_removed_event_is_never_given_again(store, stream):
    cursor = store.feed().cursor
    store.remove_stream(stream.stream_id, "retention")
    other = SampleStream(stream.ids)
    receipt(store, other.unit(other.event(), create=True))
    assert [event.stream_id for event in store.feed(cursor).events] == [other.stream_id]


def test_no_position_is_given_again_after_several_removals_and_a_new_handle(ledger, store, stream):
    cursor = store.feed().cursor
    store.remove_stream(stream.stream_id, "retention")
    second = SampleStream(stream.ids)
    receipt(store, second.unit(second.event(), create=True))
    cursor = store.feed(cursor).cursor
    store.remove_stream(second.stream_id, "retention")
    store.close()
    again, third = ledger.open(), SampleStream(stream.ids)
    receipt(again, third.unit(third.event(), create=True))
    assert [event.stream_id for event in again.feed(cursor).events] == [third.stream_id]


def test_a_record_whose_event_was_deleted_hinders_no_other_stream(ledger, store, stream):
    ledger.unguarded("DELETE FROM event WHERE seq = 3")
    other = SampleStream(stream.ids)
    receipt(store, other.unit(other.event(), create=True))
    assert len(store.read(other.stream_id)[0].content) == 1


def test_a_record_at_the_end_of_the_integers_hinders_no_stream(ledger, store, stream):
    ledger.unguarded("INSERT INTO event_content (slot, record) VALUES (9223372036854775807, x'01')")
    receipt(store, stream.unit(stream.event()))


def test_a_removed_stream_takes_no_more_events(store, stream):
    store.remove_stream(stream.stream_id, "retention")
    refusal(store, stream.unit(stream.event(), rows=(thing("t9", stream),)), StreamNotFound)


def test_other_streams_are_not_touched_by_a_removal(store, stream):
    other = SampleStream(stream.ids)
    receipt(store, other.unit(other.event(), create=True, rows=(thing("kept", other),)))
    store.remove_stream(stream.stream_id, "retention")
    assert len(store.read(other.stream_id)[0].content) == 1
    assert [row["thing_id"] for row in store.select("thing")] == ["kept"]
