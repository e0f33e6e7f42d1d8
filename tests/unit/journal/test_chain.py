from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from counterfoil.core.turn import TURN_ROOT
from counterfoil.errors import InvalidForm
from counterfoil.journal import MemoryJournal, TurnEvent, check_chain
from counterfoil.journal.event import linked
from tests.journals import OTHER, TURN, note
from tools.tree import ROOT


def chain(length=5):
    return MemoryJournal().append([note("GUARD", f"guard=g{number}") for number in range(length)])


def rechained(events):
    """Sequences and hashes made anew, as somebody would who knows how but not all of it."""
    made, last = [], None
    for event in events:
        found = linked(
            note(
                event.type, event.summary, created_at_ms=event.created_at_ms, payload_hash=event.payload_hash
            ),
            last,
        )
        made.append(found)
        last = (found.seq, found.hash)
    return made


def test_a_turn_as_written_is_intact():
    assert check_chain(chain()).intact


def test_no_events_are_intact_unless_a_head_was_kept():
    assert check_chain([]).intact
    assert check_chain([], "ab" * 32).broken_at_seq == 0


@pytest.mark.parametrize(
    "edit",
    [
        {"summary": "guard=other"},
        {"type": "VERIFY"},
        {"payload_hash": "ab" * 32},
        {"created_at_ms": 1},
        {"agent_id": "other"},
        {"turn_id": OTHER},
        {"prev_hash": "ab" * 32},
        {"hash": "ab" * 32},
        {"seq": 7},
        {"agent_id": "a|b"},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_an_edit_of_any_field_is_named_by_its_sequence(edit):
    events = chain()
    events[2] = replace(events[2], **edit)
    assert check_chain(events).broken_at_seq == 2


def test_an_edit_with_its_hash_made_anew_breaks_at_the_next_sequence():
    events = chain()
    changed = replace(events[2], summary="guard=other")
    last = (events[1].seq, events[1].hash)
    events[2] = linked(note("GUARD", changed.summary), last)
    assert check_chain(events).broken_at_seq == 3


def test_a_removal_is_named_by_the_sequence_that_is_missing():
    events = chain()
    del events[2]
    assert check_chain(events).broken_at_seq == 2


def test_an_insertion_is_named_by_the_first_sequence_it_pushed_on():
    events = chain()
    extra = linked(note("GUARD", "guard=extra"), (events[1].seq, events[1].hash))
    assert check_chain([*events[:2], extra, *events[2:]]).broken_at_seq == 3


def test_another_order_is_named_by_its_first_sequence():
    events = chain()
    events[1], events[3] = events[3], events[1]
    assert check_chain(events).broken_at_seq == 1


def test_another_order_with_the_sequences_put_right_is_named_too():
    events = chain()
    events[1], events[3] = replace(events[3], seq=1), replace(events[1], seq=3)
    assert check_chain(events).broken_at_seq == 1


def test_what_is_missing_at_the_end_is_seen_with_the_head_that_was_kept():
    events = chain()
    assert check_chain(events[:4]).intact
    assert check_chain(events[:4], events[4].hash).broken_at_seq == 4


def test_a_turn_written_anew_is_seen_with_the_head_that_was_kept():
    events = chain()
    anew = rechained([replace(events[0], summary="guard=other"), *events[1:]])
    assert check_chain(anew).intact
    assert not check_chain(anew, events[-1].hash).intact


def test_the_events_of_the_vectors_are_the_ones_a_journal_makes():
    vectors = json.loads(Path(ROOT / "tests" / "vectors" / "turn.json").read_text("utf-8"))["events"]
    last = None
    for vector in vectors:
        made = linked(
            note(
                vector["type"],
                vector["summary"],
                vector["turn_id"],
                agent_id=vector["agent_id"],
                payload_hash=vector["payload_hash"],
                created_at_ms=vector["created_at_ms"],
            ),
            last,
        )
        assert (made.seq, made.prev_hash, made.hash) == (vector["seq"], vector["previous"], vector["hash"])
        last = (made.seq, made.hash)


def test_the_first_event_follows_64_zeros():
    (event,) = chain(1)
    assert isinstance(event, TurnEvent)
    assert (event.seq, event.prev_hash, TURN_ROOT) == (0, "0" * 64, "0" * 64)


def test_half_a_surrogate_pair_is_stored_as_it_is_hashed():
    (event,) = MemoryJournal().append([note("GUARD", "a\ud99cb")])
    assert event.summary == "a\ufffdb"
    assert check_chain([event]).intact


def test_an_id_with_the_separator_is_refused_and_nothing_is_recorded():
    journal = MemoryJournal()
    with pytest.raises(InvalidForm):
        journal.append([note(), note(agent_id="a|b")])
    assert journal.events("default", TURN) == []
