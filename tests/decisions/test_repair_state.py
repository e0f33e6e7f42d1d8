"""Repairs, given-when-then: what may be repaired, what comes next, when one may be closed; states by events."""

from __future__ import annotations

from itertools import product

import pytest

from counterfoil.effects.state import FINAL, IN_DOUBT, IN_REVIEW
from counterfoil.repair.decide import Before, judge_closing, judge_opening, next_step, step_state
from counterfoil.repair.state import MOVES, RESULTS, STATES, Repair, evolve

# ---- may it be repaired? -----------------------------------------------------------------------------------------

BY_EFFECT = [
    ("intended", None, "in_doubt"),
    ("unknown", "unknown", "in_doubt"),
    ("in_review", "unknown", "in_review"),
    ("contradicted", "succeeded", "in_review"),
    ("succeeded", "succeeded", "open"),
    ("rejected", "rejected", "nothing_done"),
    ("failed", "failed", "nothing_done"),
    ("settled", "succeeded", "open"),
    ("settled", "rejected", "nothing_done"),
    ("settled", "failed", "nothing_done"),
    ("settled", "abandoned", "open"),
    (None, None, "open"),
]


@pytest.mark.parametrize("state,outcome,judged", BY_EFFECT)
def test_only_what_is_known_to_have_happened_or_was_given_up_is_undone(state, outcome, judged):
    assert judge_opening(state, outcome, None) == judged


def test_the_table_names_every_state_of_an_effect():
    assert {state for state, _, _ in BY_EFFECT} - {None} == IN_DOUBT | IN_REVIEW | FINAL | {"failed"}


@pytest.mark.parametrize(
    "before,same,judged",
    [
        ("open", False, "open_already"),
        ("repaired", False, "repaired"),
        ("partial", False, "open"),
        ("irreversible", False, "open"),
        *((state, True, "same") for state in STATES),
    ],
)
def test_one_repair_at_a_time_and_none_after_one_that_ended_well(before, same, judged):
    assert judge_opening("succeeded", "succeeded", Before(before, same)) == judged


# ---- what comes next? --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state,outcome,stands",
    [
        (None, None, "to_do"),
        ("intended", None, "in_doubt"),
        ("unknown", "unknown", "in_doubt"),
        ("in_review", None, "in_review"),
        ("contradicted", "succeeded", "in_review"),
        ("succeeded", "succeeded", "done"),
        ("failed", "failed", "to_do"),
        ("rejected", "rejected", "refused"),
        ("settled", "succeeded", "done"),
        ("settled", "failed", "refused"),
        ("settled", "abandoned", "refused"),
    ],
)
def test_a_call_stands_as_its_effect_does(state, outcome, stands):
    assert step_state(state, outcome) == stands


@pytest.mark.parametrize(
    "steps,following",
    [
        ([], "by_hand"),
        (["done"], "close"),
        (["done", "done"], "close"),
        (["to_do"], "play"),
        (["done", "to_do"], "play"),
        (["done", "in_doubt"], "play"),
        (["in_review", "to_do"], "review"),
        (["done", "refused"], "refused"),
        (["refused", "to_do"], "refused"),
    ],
)
def test_the_first_call_that_is_not_done_says_what_comes_next(steps, following):
    assert next_step(steps, run_open=False) == following


@pytest.mark.parametrize("steps", [[], ["done"], ["refused"], ["in_review"], ["to_do"]])
def test_a_run_that_is_open_is_gone_on_with_first(steps):
    assert next_step(steps, run_open=True) == "play"


# ---- may it be closed? -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state,result", list(product(STATES, RESULTS)))
def test_what_is_closed_stays_as_it_was_closed(state, result):
    judged = judge_closing(state, result, [], run_open=False, by_hand=True)
    assert judged == ("close" if state == "open" else "same" if state == result else "closed")


@pytest.mark.parametrize("step", ["in_doubt", "in_review"])
@pytest.mark.parametrize("by_hand", [True, False])
def test_it_is_never_closed_over_an_open_question(step, by_hand):
    assert judge_closing("open", "partial", ["done", step], run_open=False, by_hand=by_hand) == "unsettled"


def test_a_person_does_not_close_it_under_a_run_of_it():
    assert judge_closing("open", "partial", ["to_do"], run_open=True, by_hand=True) == "running"


# ---- states by events --------------------------------------------------------------------------------------------

OPENED = {"repair_id": "rep_1", "supersedes": "evt_1", "effect_id": "eff_1"}


def closed(result):
    return {"repair_id": "rep_1", "result": result, "compensations": ["eff_2"]}


@pytest.mark.parametrize("state,result", list(product(STATES, RESULTS)))
def test_closing_moves_an_open_repair_and_no_other(state, result):
    repair = Repair("rep_1", "evt_1", "eff_1", state)
    after = evolve(repair, "repair.closed", closed(result))
    assert after.state == (result if state == "open" else state)
    assert after.compensations == (("eff_2",) if state == "open" else ())


@pytest.mark.parametrize("state", STATES)
def test_opening_it_again_and_other_events_leave_it_as_it_is(state):
    repair = Repair("rep_1", "evt_1", "eff_1", state)
    assert evolve(repair, "repair.opened", OPENED) == repair
    assert evolve(repair, "fact.corrected", {"corrects": "evt_1"}) == repair


def test_a_repair_begins_with_its_opening_and_with_nothing_else():
    assert evolve(None, "repair.opened", OPENED) == Repair("rep_1", "evt_1", "eff_1")
    assert evolve(None, "repair.closed", closed("repaired")) is None


def test_every_move_leads_out_of_open_into_a_result():
    assert {move.to for move in MOVES.values()} == set(RESULTS)
    assert all(move.out_of == {"open"} for move in MOVES.values())
