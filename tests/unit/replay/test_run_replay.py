"""Comparing two ways of a run: the first difference has both sides."""

from __future__ import annotations

from collections import Counter

import pytest

from counterfoil.replay.asked import Asked, once
from counterfoil.replay.recorded import Side, Way, compared

MODEL = Asked("model", "ask", "m1")
TAKE = Asked("tool", "stock.take", "a" * 64)
SEND = Asked("tool", "mail.send", "b" * 64)


def way(*asked, terminal="success", answer="c" * 64):
    return Way(asked, terminal, answer)


def found(recorded, replayed, **how):
    return compared("run_00000000000000000000000000", "clerk", recorded, replayed, **how)


def test_equal_ways_are_the_same():
    assert found(way(MODEL, TAKE), way(MODEL, TAKE)).same


@pytest.mark.parametrize(
    "replayed, at, sides",
    [
        (way(MODEL, SEND, TAKE), 1, ("stock.take", "mail.send")),
        (way(MODEL, TAKE), 2, ("mail.send", None)),
        (way(MODEL, TAKE, SEND, MODEL), 3, (None, "ask")),
        (way(Asked("model", "ask", "m2"), TAKE, SEND), 0, ("ask", "ask")),
    ],
)
def test_the_first_difference_is_named_with_both_sides(replayed, at, sides):
    difference = found(way(MODEL, TAKE, SEND), replayed)
    shown = tuple(None if side is None else side.name for side in (difference.recorded, difference.replayed))
    assert (difference.same, difference.at, shown) == (False, at, sides)


def test_another_answer_and_another_end_are_differences():
    assert found(way(TAKE), way(TAKE, answer="d" * 64)).recorded == Side("end", "success", "c" * 64)
    assert not found(way(TAKE), way(TAKE, terminal="policy_stop")).same


def test_siblings_may_ask_in_any_order_and_for_nothing_else():
    assert found(way(TAKE, SEND), way(SEND, TAKE), in_order=False).same
    assert not found(way(TAKE, SEND), way(SEND, SEND), in_order=False).same


def test_a_run_that_was_cut_short_is_compared_as_far_as_it_came():
    assert found(way(TAKE, terminal="cancelled", answer=None), way(TAKE, SEND)).same
    assert not found(way(TAKE, SEND, terminal="cancelled"), way(TAKE)).same


def test_a_repeated_call_of_a_tool_counts_once_unless_the_record_has_it_more_often():
    assert once([TAKE, TAKE, MODEL, MODEL], Counter([TAKE])) == [TAKE, MODEL, MODEL]
    assert once([TAKE, TAKE, TAKE], Counter([TAKE, TAKE])) == [TAKE, TAKE]
