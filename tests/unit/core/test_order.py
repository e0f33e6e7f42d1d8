"""The order of a stream: one edit is one finding, at the right sequence, and the walk goes on."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.core.order import Seen, StreamOrder

GENESIS = "g" * 64
COUNT = 8


def digest(sequence):
    return GENESIS if sequence == 0 else f"{sequence:064d}"


HEAD = (COUNT, digest(COUNT))


def event(sequence, *, column=None, previous=None, own=None, **more):
    return Seen(
        column=sequence if column is None else column,
        sequence=sequence,
        previous=digest(sequence - 1) if previous is None else previous,
        hashes=(digest(sequence) if own is None else own,),
        **more,
    )


def chain(count=COUNT):
    return [event(sequence) for sequence in range(1, count + 1)]


def judge(events, head=HEAD, genesis=GENESIS):
    found = []
    order = StreamOrder(
        genesis, head, lambda kind, what, first, last: found.append((kind, first, last or first))
    )
    for each in sorted(events, key=lambda seen: seen.column):
        order.take(each)
    order.finish()
    return found


def test_an_intact_stream_has_no_fault():
    assert judge(chain()) == []


def test_an_empty_stream_whose_head_is_its_genesis_has_no_fault():
    assert judge([], head=(0, GENESIS)) == []


@pytest.mark.parametrize("sequence", range(1, COUNT + 1))
def test_bytes_that_were_edited_and_hashed_again_are_named_by_the_links_around_them(sequence):
    events = chain()
    events[sequence - 1] = event(sequence, own="e" * 64)
    assert judge(events) == [("edited", sequence, sequence)]


@pytest.mark.parametrize("sequence", range(1, COUNT + 1))
def test_an_event_that_names_another_one_before_it_is_the_edited_one(sequence):
    events = chain()
    events[sequence - 1] = event(sequence, previous="d" * 64, own="e" * 64)
    assert judge(events) == [("edited", sequence, sequence)]


@pytest.mark.parametrize("sequence", range(1, COUNT + 1))
def test_a_header_that_no_longer_has_its_stored_hash_was_edited(sequence):
    events = chain()
    events[sequence - 1] = Seen(sequence, None, None, (digest(sequence), "c" * 64), mismatch=True)
    assert judge(events) == [("edited", sequence, sequence)]


@pytest.mark.parametrize("sequence", range(1, COUNT + 1))
def test_a_hash_column_that_the_next_event_contradicts_differs_from_the_header(sequence):
    events = chain()
    events[sequence - 1] = Seen(sequence, None, None, ("c" * 64, digest(sequence)), mismatch=True)
    assert judge(events) == [("column_differs", sequence, sequence)]


@pytest.mark.parametrize("first,last", [(1, 1), (3, 3), (2, 5), (1, 7)])
def test_events_that_are_not_there_are_removed(first, last):
    assert judge([each for each in chain() if not first <= each.column <= last]) == [("removed", first, last)]


def test_a_removal_hidden_by_counting_the_later_ones_down_is_still_one_removal():
    events = [
        each if each.column < 3 else replace(each, column=each.column - 1)
        for each in chain()
        if each.column != 3
    ]
    assert judge(events) == [("removed", 3, 3)]


def test_a_removal_hidden_in_the_head_row_too_is_still_one_removal():
    events = [
        each if each.column < 3 else replace(each, column=each.column - 1)
        for each in chain()
        if each.column != 3
    ]
    assert judge(events, head=(COUNT - 1, digest(COUNT))) == [("removed", 3, 3)]


def test_a_cut_tail_is_removed_where_the_head_row_still_names_it():
    assert judge(chain()[:5]) == [("removed", 6, 8)]


def test_a_cut_tail_is_unseen_where_the_head_row_was_put_back_too():
    assert judge(chain()[:5], head=(5, digest(5))) == []


def test_two_swapped_events_are_reordered():
    events = chain()
    events[2], events[3] = event(3, column=4), event(4, column=3)
    assert judge(events) == [("reordered", 3, 4)]


def test_two_swapped_events_far_apart_are_one_finding():
    events = chain()
    events[1], events[6] = event(2, column=7), event(7, column=2)
    assert judge(events) == [("reordered", 2, 2)]


def test_two_swaps_are_two_findings():
    events = chain()
    events[0], events[1] = event(1, column=2), event(2, column=1)
    events[5], events[6] = event(6, column=7), event(7, column=6)
    assert judge(events) == [("reordered", 1, 2), ("reordered", 6, 7)]


def test_an_event_moved_to_the_end_and_the_rest_moved_up_is_reordered():
    events = [event(1), *(event(n, column=n - 1) for n in range(3, COUNT + 1)), event(2, column=COUNT)]
    assert judge(events) == [("reordered", 2, 8)]


@pytest.mark.parametrize("column", [20, 5])
def test_an_event_whose_sequence_column_alone_was_changed_differs_from_it(column):
    events = chain()
    events[2] = event(3, column=column)
    assert judge(events) == [("column_differs", 3, 3)]


def test_an_event_put_between_two_with_the_later_ones_counted_up_is_inserted():
    later = [event(sequence, column=sequence + 1) for sequence in range(4, COUNT + 1)]
    assert judge([*chain(3), event(4, own="f" * 64), *later]) == [("inserted", 4, 4)]


def test_an_event_that_claims_a_taken_sequence_and_fits_nowhere_is_inserted():
    assert judge([*chain(), event(4, previous="d" * 64, own="f" * 64)]) == [("inserted", 4, 4)]


def test_an_event_that_fits_nowhere_is_inserted_also_where_it_stands_before_the_right_one():
    later = [event(sequence, column=sequence + 1) for sequence in range(4, COUNT + 1)]
    assert judge([*chain(3), event(4, previous="d" * 64, own="f" * 64), *later]) == [("inserted", 4, 4)]


def test_an_unreadable_row_put_between_two_events_leaves_the_later_ones_alone():
    later = [event(sequence, column=sequence + 1) for sequence in range(4, COUNT + 1)]
    assert judge([*chain(3), Seen(4, None, None, ("f" * 64,), named=True), *later]) == []


def test_more_displacements_than_are_remembered_are_still_all_named(monkeypatch):
    monkeypatch.setattr("counterfoil.core.order.DISPLACED_MAX", 1)
    events = [
        event(1),
        event(2, column=12),
        event(3),
        event(4, column=14),
        event(5),
        event(6),
        event(7),
        event(8),
    ]
    assert sorted(judge(events)) == [("column_differs", 2, 2), ("column_differs", 4, 4)]


def test_an_event_after_the_one_that_the_head_row_names_is_inserted():
    assert judge([*chain(), event(COUNT + 1)]) == [("inserted", COUNT + 1, COUNT + 1)]


def test_an_event_far_behind_the_end_is_inserted_and_opens_no_gap():
    assert judge([*chain(), event(100, previous="d" * 64)]) == [("inserted", 100, 100)]


def test_two_events_after_the_same_one_are_a_fork():
    assert judge([*chain(), event(4, own="f" * 64)]) == [("forked", 4, 4)]


def test_a_fork_is_followed_by_whichever_branch_goes_on():
    events = chain()
    events.insert(3, event(4, own="f" * 64))
    assert judge(events) == [("forked", 4, 4)]


def test_a_first_event_that_names_another_genesis_points_at_the_genesis_text():
    assert judge(chain(), genesis="b" * 64) == [("genesis", 0, 0)]


def test_a_genesis_edited_under_an_empty_stream_is_found_by_the_head_row():
    assert judge([], head=(0, GENESIS), genesis="b" * 64) == [("genesis", 0, 0)]


def test_a_genesis_that_cannot_be_read_breaks_no_link_behind_it():
    assert judge(chain(), genesis=None) == []


@pytest.mark.parametrize("head", [(COUNT + 1, digest(COUNT)), (COUNT - 3, digest(COUNT))])
def test_a_head_row_whose_sequence_alone_was_changed_differs(head):
    assert [kind for kind, _, _ in judge(chain(), head=head)] == ["column_differs"]


def test_a_head_row_whose_hash_alone_was_changed_is_named_at_the_last_event():
    assert judge(chain(), head=(COUNT, "a" * 64)) == [("edited", COUNT, COUNT)]


def test_an_event_named_already_explains_the_links_around_it():
    events = chain()
    events[4] = Seen(5, None, None, ("e" * 64,), named=True)
    assert judge(events) == []


def test_two_separate_faults_are_two_findings():
    events = [each for each in chain() if each.column != 2]
    events[4] = event(6, own="e" * 64)
    assert judge(events) == [("removed", 2, 2), ("edited", 6, 6)] or judge(events) == [
        ("edited", 6, 6),
        ("removed", 2, 2),
    ]


def test_more_missing_stretches_than_are_held_open_are_still_all_named(monkeypatch):
    monkeypatch.setattr("counterfoil.core.order.GAPS_MAX", 2)
    events = [each for each in chain() if each.column % 2]
    assert sorted(judge(events)) == [
        ("removed", 2, 2),
        ("removed", 4, 4),
        ("removed", 6, 6),
        ("removed", 8, 8),
    ]
