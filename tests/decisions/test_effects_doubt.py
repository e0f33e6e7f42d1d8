"""What to do about an effect in doubt: given the rule, what was tried and what was answered, then the next step."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.effects.decide import (
    ATTEMPTS_A_PASS,
    ATTEMPTS_AT_FIRST,
    ATTEMPTS_MAX,
    LOOKUPS_A_PASS,
    LOOKUPS_AT_FIRST,
    LOOKUPS_MAX,
    AskHuman,
    Case,
    Leave,
    LookUp,
    SendAgain,
    WaitUntil,
    judge_late,
    judge_settlement,
    next_step,
    recorded_word,
)

DEADLINE = 1_000_000
BEFORE, AFTER = DEADLINE - 1, DEADLINE


def case(doubt, **known):
    return Case(doubt=doubt, deadline_ms=DEADLINE, **known)


# ---- before the deadline ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("doubt", ["lookup", "lookup_then_key", "key", "repeat"])
def test_an_attempt_that_may_be_under_way_elsewhere_is_left_alone_until_its_deadline(doubt):
    assert next_step(case(doubt), BEFORE) == WaitUntil(DEADLINE)


@pytest.mark.parametrize("doubt", ["lookup", "lookup_then_key"])
def test_a_call_that_came_back_may_be_asked_about_at_once(doubt):
    assert next_step(case(doubt, ended=True), BEFORE) == LookUp(0)


def test_a_tool_that_nobody_can_be_asked_about_goes_to_a_human_at_once():
    assert next_step(case("review"), BEFORE) == AskHuman("by_review")


# ---- asking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("doubt", ["lookup", "lookup_then_key"])
def test_the_provider_is_asked_before_anything_is_sent_again(doubt):
    assert next_step(case(doubt), AFTER) == LookUp(0)


def test_absent_licenses_a_retry_only_with_a_key():
    absent = {"answer": "absent", "answered_ms": AFTER}
    assert next_step(case("lookup_then_key", **absent), AFTER) == SendAgain(0)
    assert next_step(case("lookup", **absent), AFTER) == AskHuman("absent")


def test_absent_before_the_deadline_is_asked_a_second_time():
    early = case("lookup", ended=True, answer="absent", answered_ms=BEFORE, absent_here=1)
    assert isinstance(next_step(early, BEFORE), LookUp)
    assert next_step(replace(early, absent_here=2), BEFORE) == AskHuman("absent")


@pytest.mark.parametrize("attempt", range(1, ATTEMPTS_MAX + 2))
@pytest.mark.parametrize("absent_here", range(4))
def test_no_number_of_absent_answers_sends_again_under_lookup_alone(attempt, absent_here):
    asked = case(
        "lookup", attempt=attempt, answer="absent", answered_ms=BEFORE, absent_here=absent_here, ended=True
    )
    for now in (BEFORE, AFTER):
        assert not isinstance(next_step(asked, now), SendAgain)


def test_a_provider_that_cannot_tell_is_asked_again_and_then_a_human_is():
    asked = case("lookup", answer="cannot_tell", lookups_here=1, lookups=1)
    assert isinstance(next_step(asked, AFTER), LookUp)
    assert next_step(replace(asked, lookups_here=LOOKUPS_A_PASS), AFTER) == AskHuman("cannot_tell")


def test_a_provider_that_was_not_reached_may_answer_another_day():
    unreached = case("lookup", answer="cannot_tell", lookups_here=LOOKUPS_A_PASS, lookups=3, reached=False)
    assert next_step(unreached, AFTER) == Leave()


def test_a_provider_that_stays_away_is_asked_once_a_pass():
    away = case("lookup", answer="cannot_tell", lookups_here=1, lookups=LOOKUPS_AT_FIRST, reached=False)
    assert isinstance(next_step(replace(away, lookups=LOOKUPS_AT_FIRST - 1), AFTER), LookUp)
    assert next_step(away, AFTER) == Leave()
    # Back again, it is asked as often as any that cannot tell.
    assert isinstance(next_step(replace(away, reached=True), AFTER), LookUp)


def test_a_provider_that_never_answers_ends_with_a_human():
    silent = case("lookup", answer="cannot_tell", lookups_here=1, lookups=LOOKUPS_MAX, reached=False)
    assert next_step(silent, AFTER) == AskHuman("cannot_tell")


# ---- sending again -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("doubt", ["key", "repeat"])
def test_a_safe_call_is_sent_again_with_growing_pauses(doubt):
    pauses = [
        next_step(case(doubt, ended=True, attempts_here=tries), BEFORE) for tries in range(ATTEMPTS_A_PASS)
    ]
    assert [type(step) for step in pauses] == [SendAgain] * ATTEMPTS_A_PASS
    delays = [step.delay_ms for step in pauses]
    assert delays == sorted(set(delays))


@pytest.mark.parametrize("doubt", ["key", "repeat"])
def test_what_does_not_come_through_is_sent_once_a_pass(doubt):
    tried = case(doubt, attempt=ATTEMPTS_AT_FIRST, attempts_here=1)
    assert isinstance(next_step(replace(tried, attempt=ATTEMPTS_AT_FIRST - 1), AFTER), SendAgain)
    assert next_step(tried, AFTER) == Leave()
    assert next_step(replace(tried, attempts_here=0), AFTER) == SendAgain(0)


def test_one_pass_has_a_bound_and_leaves_the_rest_to_a_later_one():
    assert next_step(case("key", attempts_here=ATTEMPTS_A_PASS), AFTER) == Leave()


@pytest.mark.parametrize("doubt", ["key", "repeat"])
def test_all_passes_together_have_a_bound_and_then_a_human_is_asked(doubt):
    assert next_step(case(doubt, attempt=ATTEMPTS_MAX), AFTER) == AskHuman("cannot_tell")


# ---- answers that come late -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["intended", "unknown", "in_review"])
@pytest.mark.parametrize("found", ["succeeded", "rejected", "failed"])
def test_a_late_answer_ends_doubt(state, found):
    assert judge_late(state, None, 1, found, 1) == "keep"


@pytest.mark.parametrize("state", ["succeeded", "rejected", "failed", "settled"])
def test_a_late_answer_that_agrees_is_kept(state):
    outcome = "succeeded" if state == "settled" else state
    assert judge_late(state, outcome, 1, outcome, 1) == "keep"


@pytest.mark.parametrize(
    "state,recorded,found",
    [
        ("succeeded", "succeeded", "rejected"),
        ("rejected", "rejected", "succeeded"),
        ("failed", "failed", "succeeded"),
        ("settled", "abandoned", "succeeded"),
        ("settled", "failed", "succeeded"),
        ("contradicted", "failed", "rejected"),
    ],
)
def test_a_late_answer_that_differs_contradicts(state, recorded, found):
    assert judge_late(state, recorded, 1, found, 1) == "contradict"


def test_an_answer_that_agrees_does_not_end_a_contradiction():
    assert judge_late("contradicted", "succeeded", 1, "succeeded", 1) == "reopen"


def test_an_older_attempt_that_was_not_done_says_nothing_about_a_newer_one():
    assert judge_late("intended", None, 2, "failed", 1) == "ignore"
    assert judge_late("intended", None, 2, "failed", 2) == "keep"
    assert judge_late("intended", None, 2, "succeeded", 1) == "keep"


def test_a_late_answer_that_knows_nothing_is_ignored():
    assert judge_late("unknown", "unknown", 1, "unknown", 1) == "ignore"


@pytest.mark.parametrize(
    "state,outcome,word",
    [
        ("succeeded", "succeeded", "succeeded"),
        ("settled", "failed", "settled"),
        ("contradicted", "rejected", "rejected"),
        ("contradicted", "abandoned", "settled"),
    ],
)
def test_a_contradiction_names_what_was_recorded(state, outcome, word):
    assert recorded_word(state, outcome) == word


# ---- settlements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state,settled_as,outcome,then",
    [
        ("open", None, "succeeded", "settle"),
        ("settled", "failed", "failed", "same"),
        ("settled", "failed", "succeeded", "refuse"),
    ],
)
def test_a_review_is_settled_once(state, settled_as, outcome, then):
    assert judge_settlement(state, settled_as, outcome) == then
