"""Findings are collected in bounded memory, one for a stretch of the same fault."""

from __future__ import annotations

from counterfoil.evidence.collector import Collector


def places(collector):
    return [(each.kind, each.sequence, each.through) for each in collector.findings]


def test_the_same_fault_of_the_next_event_lengthens_the_finding():
    collector = Collector()
    for sequence in (3, 4, 5):
        collector.fault("content_damaged", "gone bad", "str_x", sequence)
    assert places(collector) == [("content_damaged", 3, 5)]
    assert collector.kinds == {"content_damaged": 3}


def test_other_words_another_stream_or_a_step_between_begin_a_new_finding():
    collector = Collector()
    collector.fault("edited", "a", "str_x", 1)
    collector.fault("edited", "b", "str_x", 2)
    collector.fault("edited", "b", "str_y", 3)
    collector.fault("edited", "b", "str_y", 5)
    assert [sequence for _, sequence, _ in places(collector)] == [1, 2, 3, 5]


def test_a_stretch_counts_each_of_its_events():
    collector = Collector()
    collector.fault("removed", "a", "str_x", 2, 6)
    assert collector.kinds == {"removed": 5}


def test_findings_beyond_the_bound_are_counted():
    collector = Collector(findings_max=2)
    for sequence in (1, 3, 5, 7):
        collector.fault("edited", "a", "str_x", sequence)
    assert (len(collector.findings), collector.left_out) == (2, 2)
    assert collector.kinds == {"edited": 4}


def test_notices_of_the_same_words_are_one_with_a_count_and_the_first_place():
    collector = Collector()
    collector.notice("clock_back", "back", "str_x", 4)
    collector.notice("clock_back", "back", "str_y", 9)
    (notice,) = collector.notices
    assert (notice.count, notice.stream_id, notice.sequence) == (2, "str_x", 4)


def test_notices_beyond_the_bound_are_counted():
    collector = Collector(findings_max=1)
    collector.notice("a", "one")
    collector.notice("a", "two")
    assert (len(collector.notices), collector.notices_left_out) == (1, 1)


def test_what_was_left_out_for_the_same_reason_adds_up():
    collector = Collector()
    collector.leave_out("content", "no key", 2)
    collector.leave_out("content", "no key", 3)
    collector.leave_out("order", "no chain")
    assert [(each.what, each.count) for each in collector.not_covered] == [("content", 5), ("order", None)]


def test_an_unknown_format_makes_a_stream_unread_and_a_fault_beside_it_broken():
    collector = Collector()
    collector.fault("unknown_format", "v2", "str_x", 1)
    assert (collector.broken_streams, collector.unread_streams) == (0, 1)
    collector.fault("edited", "a", "str_x", 2)
    assert (collector.broken_streams, collector.unread_streams) == (1, 0)


def test_it_knows_whether_something_was_found_since_a_stream_was_entered():
    collector = Collector()
    collector.fault("edited", "a", "str_x", 1)
    collector.enter()
    assert not collector.found_here
    collector.fault("edited", "a", "str_y", 1)
    assert collector.found_here
