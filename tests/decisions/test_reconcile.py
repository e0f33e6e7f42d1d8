"""What a book says about an effect in every state (DESIGN 7)."""

from __future__ import annotations

from typing import get_args

import pytest

from counterfoil.effects.state import EffectState
from counterfoil.reconcile.decide import AGREE, DIFFER, OPEN, Kind, judge_effect

# state, outcome: on no line, on one, on one with another amount, on two
TABLE = {
    ("intended", None): ("in_doubt", "settles", "amount_differs", "booked_twice"),
    ("unknown", "unknown"): ("in_doubt", "settles", "amount_differs", "booked_twice"),
    ("in_review", "unknown"): ("in_doubt", "settles", "amount_differs", "booked_twice"),
    ("succeeded", "succeeded"): ("only_in_ledger", "matched", "amount_differs", "booked_twice"),
    ("settled", "succeeded"): ("only_in_ledger", "matched", "amount_differs", "booked_twice"),
    ("rejected", "rejected"): ("not_done", "booked_all_the_same", "amount_differs", "booked_twice"),
    ("failed", "failed"): ("not_done", "booked_all_the_same", "amount_differs", "booked_twice"),
    ("settled", "abandoned"): ("not_done", "booked_all_the_same", "amount_differs", "booked_twice"),
    ("contradicted", "succeeded"): ("contradicted", "contradicted", "contradicted", "booked_twice"),
}
CASES = [(state, outcome, *said) for (state, outcome), said in TABLE.items()]


@pytest.mark.parametrize("state,outcome,none,one,other,two", CASES)
def test_an_effect_is_held_against_its_lines(state, outcome, none, one, other, two):
    said = [
        judge_effect(state, outcome, lines=0, same_amount=True),
        judge_effect(state, outcome, lines=1, same_amount=True),
        judge_effect(state, outcome, lines=1, same_amount=False),
        judge_effect(state, outcome, lines=2, same_amount=True),
    ]
    assert said == [none, one, other, two]


def test_the_table_has_every_state():
    assert {state for state, _ in TABLE} == set(get_args(EffectState))


def test_a_call_that_may_be_under_way_is_nobodys_mistake():
    for lines in (0, 1):
        assert judge_effect("intended", None, lines=lines, same_amount=True, under_way=True) == "under_way"


def test_every_kind_agrees_differs_or_is_open():
    assert sorted((*AGREE, *DIFFER, *OPEN)) == sorted(get_args(Kind))
