"""Reading what somebody edited behind the store's back: handed out as it lies there, never a crash."""

from __future__ import annotations

import pytest

from counterfoil.errors import ChainBroken
from counterfoil.store.unit import Receipt
from tests.unit.adapters.sqlite.conftest import receipt, refusal

EDITS = {
    "event_type": "'sample.other'",
    "event_id": "'evt_edited'",
    "run_id": "'run_edited'",
    "recorded_at": "-1",
    "header": "x'00ff'",
    "hash": "x''",
    "seq": "99",
}


@pytest.fixture
def loose(ledger, stream):
    """The event table without guards and without types, as a byte edited in the file can make it."""
    ledger.unguarded(
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, ') STRICT', ')') WHERE name IN ('event', 'event_content', 'head', 'stream')",
        "PRAGMA writable_schema = RESET",
    )
    return stream


@pytest.mark.parametrize("column,value", EDITS.items())
def test_an_edited_column_is_handed_out_as_it_is(ledger, store, stream, column, value):
    ledger.unguarded(f"UPDATE event SET {column} = {value} WHERE seq = 2")
    wanted = ledger.behind(f"SELECT {value}")[0][0]
    attribute = {"seq": "sequence", "recorded_at": "recorded_at_ms"}.get(column, column)
    found = [getattr(event, attribute) for event in store.read(stream.stream_id)]
    assert wanted in found
    assert len(found) == 3


@pytest.mark.parametrize(
    "column,value",
    [
        ("event_type", "x'ff00'"),
        ("event_type", "CAST(x'ff80' AS TEXT)"),
        ("event_id", "x'07'"),
        ("run_id", "x'0205'"),
        ("recorded_at", "'yesterday'"),
        ("header", "'text'"),
        ("hash", "17"),
        ("seq", "'third'"),
    ],
)
def test_a_value_of_another_type_is_handed_out_as_it_is(ledger, store, loose, column, value):
    ledger.behind(f"UPDATE event SET {column} = {value} WHERE seq = 3")
    wanted = ledger.behind(f"SELECT CAST({value} AS BLOB)" if "CAST" in value else f"SELECT {value}")[0][0]
    attribute = {"seq": "sequence", "recorded_at": "recorded_at_ms"}.get(column, column)
    assert wanted in [getattr(event, attribute) for event in store.read(loose.stream_id)]
    assert wanted in [getattr(event, attribute) for event in store.feed().events]


def test_a_record_of_another_type_is_handed_out_as_it_is(ledger, store, loose):
    ledger.behind("UPDATE event_content SET record = 'words'")
    assert store.read(loose.stream_id)[0].content == ("words",)


def test_a_deleted_record_is_a_gap(ledger, store, stream):
    receipt(store, stream.unit(stream.event(parts=3)))
    ledger.unguarded("DELETE FROM event_content WHERE slot = 4 * 16 + 1")
    first, second, third = store.read(stream.stream_id, after=3)[0].content
    assert (second, first is None, third is None) == (None, False, False)


@pytest.mark.parametrize("column,value", [("seq", "7"), ("hash", "x'00'"), ("seq", "0")])
def test_nothing_is_appended_to_a_head_that_its_events_do_not_support(ledger, stream, column, value):
    ledger.behind(f"UPDATE head SET {column} = {value}")
    refusal(ledger.open(), stream.unit(stream.event()), ChainBroken)


def test_a_running_process_notices_such_a_head_too(ledger, store, stream):
    ledger.behind("UPDATE head SET seq = 2")
    refusal(store, stream.unit(stream.event()), ChainBroken)


def test_a_cut_tail_stops_appends(ledger, store, stream):
    ledger.unguarded("DELETE FROM event WHERE seq = 3")
    refusal(store, stream.unit(stream.event()), ChainBroken)


def test_one_broken_stream_does_not_stop_the_others(ledger, store, stream):
    from counterfoil.testing.events import SampleStream

    other = SampleStream(stream.ids)
    receipt(store, other.unit(other.event(), create=True))
    ledger.behind("UPDATE head SET seq = 2 WHERE stream = 1")
    told = store.append([stream.unit(stream.event()), other.unit(other.event())]).result()
    assert told[0].error.code == "chain_broken"
    assert isinstance(told[1], Receipt)


def test_an_event_sent_again_whose_stored_header_is_damaged_is_an_alarm(ledger, store, stream):
    event = stream.event()
    receipt(store, stream.unit(event))
    ledger.unguarded("UPDATE event SET header = x'7b00' WHERE seq = 4")
    refusal(store, stream.unit(event), ChainBroken)


def test_a_stream_without_a_head_row_is_listed(ledger, store, stream):
    ledger.behind("DELETE FROM head")
    found = store.stream(stream.stream_id)
    assert found is not None
    assert found.head.sequence == -1
    assert store.strays()[0].what == f"stream {stream.stream_id} has no head"


@pytest.mark.parametrize(
    "statement,table,what",
    [
        ("UPDATE event SET stream = 77 WHERE seq = 2", "event", "belongs to no stream"),
        ("UPDATE event SET seq = -4 WHERE seq = 2", "event", "has a sequence below 1"),
        ("DELETE FROM event WHERE seq = 2", "event_content", "record at slot 32 belongs to no event"),
        (
            "UPDATE event_content SET slot = -3 WHERE slot = 32",
            "event_content",
            "record at slot -3 belongs to no event",
        ),
        ("UPDATE head SET stream = 9", "head", "head of stream number 9 belongs to no stream"),
        ("UPDATE stream SET number = 5", "stream", "has no head"),
    ],
)
def test_rows_that_belong_nowhere_are_named(ledger, store, stream, statement, table, what):
    assert store.strays() == []
    ledger.unguarded(statement)
    found = [stray for stray in store.strays() if stray.table == table]
    assert what in found[0].what


def test_strays_are_bounded(ledger, store, stream):
    receipt(store, stream.unit(*stream.events(20)))
    ledger.unguarded("UPDATE event SET stream = 77")
    assert len(store.strays(limit=5)) == 5


def test_events_of_no_stream_stay_in_the_feed(ledger, store, stream):
    ledger.unguarded("UPDATE event SET stream = 77 WHERE seq = 2")
    assert [event.stream_id for event in store.feed().events] == [stream.stream_id, "", stream.stream_id]
