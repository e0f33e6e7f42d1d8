"""Rows of state slots are the fold of the events, whatever was done, at every sequence."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.flow.drive import drive
from counterfoil.runtime.slots.reading import slots_at
from counterfoil.runtime.slots.state import evolve
from counterfoil.testing.truth import check_truth
from tests.running import World

CHANGES = st.tuples(st.sampled_from(["a", "b", "no label"]), st.none() | st.integers(0, 2))
RUNS = st.lists(st.lists(CHANGES, max_size=6), max_size=4)


@given(runs=RUNS)
@settings(max_examples=25)
def test_rows_are_the_fold_of_the_events_at_every_sequence(runs):
    ledger = World().worker()
    with ledger.run("a", conversation="c") as run:
        stream_id = run.conversation
    for changes in runs:
        with ledger.run("a", conversation="c") as run:
            for slot, value in changes:
                if value is None:
                    run.state.clear(slot)
                else:
                    run.state[slot] = value
    folded = {}
    for event in ledger.events(stream_id):
        folded = evolve(folded, event.type, event.data, event.sequence)
        marks = drive(slots_at(stream_id, event.sequence), ledger.ports)
        assert {mark.slot: mark for mark in marks} == folded
    check_truth(ledger)
