"""The events of a run, found by the stretches in which it runs."""

from __future__ import annotations

import pytest

from counterfoil.testing.events import SampleStream
from tests.unit.adapters.sqlite.conftest import receipt

A, B = "run_01J9ZC3Y3V7W2R5T8QK4M6N0PA", "run_01J9ZC3Y3V7W2R5T8QK4M6N0PB"


def record(store, stream, *runs, together=False):
    """One event for each entry, in one unit or one after the other."""
    events = [stream.event(run_id=run) for run in runs]
    for some in [events] if together else [[event] for event in events]:
        receipt(store, stream.unit(*some))


def sequences(store, stream, run, **how):
    return [event.sequence for event in store.read(stream.stream_id, run_id=run, **how)]


@pytest.fixture
def stream(store):
    made = SampleStream()
    receipt(store, made.unit(create=True))
    return made


@pytest.mark.parametrize("together", [False, True])
def test_a_runs_events_are_found_however_they_are_mixed_with_others(store, stream, together):
    record(store, stream, None, A, A, None, A, B, None, A, B, B, None, together=together)
    assert sequences(store, stream, A) == [2, 3, 5, 8]
    assert sequences(store, stream, B) == [6, 9, 10]


def test_a_run_is_read_page_by_page(store, stream):
    record(store, stream, A, A, B, A, A, None, A)
    assert sequences(store, stream, A, limit=3) == [1, 2, 4]
    assert sequences(store, stream, A, after=4, limit=3) == [5, 7]
    assert sequences(store, stream, A, after=7) == []
    assert sequences(store, stream, A, after=2**62) == []


def test_a_run_of_another_stream_or_of_none_is_empty(store, stream):
    record(store, stream, A)
    other = SampleStream(stream.ids)
    receipt(store, other.unit(other.event(run_id=B), create=True))
    assert sequences(store, stream, B) == []
    assert sequences(store, other, A) == []


def test_one_row_tells_of_a_run_that_is_not_interrupted(ledger, store, stream):
    record(store, stream, *[A, None] * 20, *[B] * 10)
    assert ledger.behind("SELECT from_seq, run_id FROM run_span ORDER BY from_seq") == [(1, A), (41, B)]


def test_the_stretches_go_on_across_handles_and_refused_units(ledger, store, stream):
    record(store, stream, A, B)
    refused = stream.unit(stream.event(run_id=A), token=7)
    store.append([refused]).result()
    record(ledger.open(), stream, B, A)
    record(store, stream, A, B)
    assert ledger.behind("SELECT from_seq FROM run_span ORDER BY from_seq") == [(1,), (2,), (4,), (6,)]
    assert sequences(store, stream, A) == [1, 4, 5]


@pytest.mark.parametrize("whole", [False, True])
def test_the_stretches_are_made_again_from_the_events(ledger, store, stream, whole):
    record(store, stream, A, None, A, B, None, A)
    before = ledger.behind("SELECT * FROM run_span ORDER BY from_seq")
    ledger.behind(
        "DELETE FROM run_span WHERE from_seq = 4", "UPDATE run_span SET run_id = 'run_x' WHERE from_seq = 1"
    )
    store.rebuild_rows(None if whole else stream.stream_id, [])
    assert ledger.behind("SELECT * FROM run_span ORDER BY from_seq") == before


def test_a_removed_stream_leaves_no_stretches(ledger, store, stream):
    record(store, stream, A, B)
    store.remove_stream(stream.stream_id, "retention")
    assert ledger.behind("SELECT * FROM run_span") == []
