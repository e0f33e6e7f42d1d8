"""Plain rows for verify: every event in order, pages of bounded size, no sorting, text that is no text handed on."""

from __future__ import annotations

import sqlite3

import pytest

from counterfoil.adapters.sqlite import raw
from counterfoil.adapters.sqlite.open import open_sqlite
from counterfoil.testing.events import SAMPLE_LEDGER, SampleStream
from counterfoil.testing.manual import ManualClock


@pytest.fixture
def store(tmp_path):
    made = open_sqlite(tmp_path, create=True, ledger_id=SAMPLE_LEDGER, clock=ManualClock())
    yield made
    made.close()


@pytest.fixture
def stream(store):
    made = SampleStream()
    events = [made.event(f"number {number}", parts=number % 3) for number in range(20)]
    store.append([made.unit(*events, create=True)]).result()
    return made


def pages(store, stream, *, records):
    with store.snapshot() as reader:
        return list(reader.raw_events(stream.stream_id, records=records))


def test_each_event_is_one_row_in_order(store, stream):
    rows = [row for page in pages(store, stream, records=False) for row in page]
    assert [row[1] for row in rows] == list(range(1, 21))
    assert {row[8:] for row in rows} == {(None, None)}


def test_each_record_is_one_row_and_an_event_without_any_has_one_too(store, stream):
    rows = [row for page in pages(store, stream, records=True) for row in page]
    assert [(row[1], row[8]) for row in rows[:5]] == [(1, None), (2, 0), (3, 0), (3, 1), (4, None)]
    assert len(rows) == sum(max(1, number % 3) for number in range(20))


def test_columns_are_those_of_the_contract(store, stream):
    (row, *_), *_ = pages(store, stream, records=True)
    (event,) = store.read(stream.stream_id, limit=1)
    assert row[:8] == (
        *(event.position, event.sequence, event.event_id, event.event_type),
        *(event.run_id, event.recorded_at_ms, event.header, event.hash),
    )


def test_records_end_a_page_by_their_size(store, stream, monkeypatch):
    monkeypatch.setattr(raw, "PAGE_BYTES", 100)
    assert max(map(len, pages(store, stream, records=True))) <= 3


def test_rows_end_a_page_by_their_number(store, stream, monkeypatch):
    monkeypatch.setattr(raw, "PAGE_ROWS", 6)
    assert list(map(len, pages(store, stream, records=False))) == [6, 6, 6, 2]


@pytest.mark.parametrize("records", [True, False])
def test_text_that_is_no_text_comes_as_bytes_and_the_rest_follows(store, stream, tmp_path, records):
    behind = sqlite3.connect(tmp_path / "ledger.db")
    behind.execute("DROP TRIGGER event_update")
    behind.execute("UPDATE event SET event_type = CAST(x'61ff' AS TEXT) WHERE seq = 7")
    behind.commit()
    behind.close()
    rows = [row for page in pages(store, stream, records=records) for row in page]
    assert {row[3] for row in rows if row[1] == 7} == {b"a\xff"}
    assert {row[1] for row in rows} == set(range(1, 21))


@pytest.mark.parametrize("sql", [raw.EVENTS, raw.EVENTS_WITH_RECORDS])
def test_a_stream_is_read_along_its_index_without_sorting(store, stream, tmp_path, sql):
    behind = sqlite3.connect(tmp_path / "ledger.db")
    plan = " ".join(row[3] for row in behind.execute(f"EXPLAIN QUERY PLAN {sql}", (stream.stream_id,)))
    behind.close()
    assert "TEMP B-TREE" not in plan
    assert "SCAN event" not in plan.replace("SCAN event_content", "")


def test_rows_are_counted(store, stream):
    with store.snapshot() as reader:
        assert reader.row_counts(records=False) == {"stream": 1, "head": 1, "event": 20}
        assert reader.row_counts(records=True)["event_content"] == sum(number % 3 for number in range(20))
