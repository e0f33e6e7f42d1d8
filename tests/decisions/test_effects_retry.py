"""What a retry policy says to a confirmed failure: given the policy, the error and the attempt, then this (DESIGN 7)."""

from __future__ import annotations

import math

import pytest

from counterfoil.effects.retry import Decision, Retry, decide, policies_of, waits_in_place
from counterfoil.errors import NotDone, ToolInvalid

BEGAN_MS = 1_000_000


class Throttled(NotDone):
    """The provider wants to be left alone for a while."""


class Closed(NotDone):
    """The provider does nothing at night."""


def said(policies, error=None, attempt=1, now_ms=BEGAN_MS, chance=0.0):
    listed = policies if isinstance(policies, tuple) else (policies,)
    return decide(listed, error or NotDone("no"), attempt, BEGAN_MS, now_ms, chance)


@pytest.mark.parametrize("attempt, delay_ms", [(1, 1_000), (2, 3_000), (3, 9_000), (4, 10_000), (5, 10_000)])
def test_pauses_grow_by_the_factor_up_to_the_longest(attempt, delay_ms):
    policy = Retry(attempts=9, first_delay_s=1, factor=3, delay_max_s=10)
    assert said(policy, attempt=attempt) == Decision(retry=True, attempts_max=9, delay_ms=delay_ms)


@pytest.mark.parametrize("chance, delay_ms", [(0.0, 1_000), (0.5, 750), (0.999, 500)])
def test_chance_takes_up_to_its_part_of_a_pause_away(chance, delay_ms):
    assert math.isclose(said(Retry(jitter=0.5), chance=chance).delay_ms, delay_ms, abs_tol=1)


@pytest.mark.parametrize("attempt, again", [(1, True), (2, True), (3, False), (7, False)])
def test_the_first_attempt_counts(attempt, again):
    assert said(Retry(attempts=3), attempt=attempt).retry is again


def test_an_error_that_no_policy_names_is_not_tried_again():
    assert said(Retry(on=Throttled), Closed("no"), attempt=4) == Decision(retry=False, attempts_max=4)


def test_the_first_policy_that_names_the_error_counts():
    policies = (Retry(attempts=7, on=Throttled), Retry(attempts=2))
    assert said(policies, Throttled("later")).attempts_max == 7
    assert said(policies, Closed("later")).attempts_max == 2


@pytest.mark.parametrize("now_ms, again", [(BEGAN_MS + 9_000, True), (BEGAN_MS + 9_001, False)])
def test_nothing_is_tried_that_would_be_due_after_the_end(now_ms, again):
    policy = Retry(first_delay_s=1, jitter=0, within_s=10)
    assert said(policy, now_ms=now_ms).retry is again


@pytest.mark.parametrize(
    "asked, delay_ms",
    [
        (30, 30_000),
        (0.5, 1_000),
        (-1, 1_000),
        ("30", 1_000),
        (math.inf, 1_000),
        (math.nan, 1_000),
        (True, 1_000),
    ],
)
def test_the_provider_may_ask_for_a_longer_pause(asked, delay_ms):
    assert said(Retry(jitter=0), NotDone("later", retry_after_s=asked)).delay_ms == delay_ms


def test_a_pause_that_a_provider_asks_for_has_an_end():
    assert said(Retry(), NotDone("later", retry_after_s=10**12)).delay_ms == 7 * 86_400_000


@pytest.mark.parametrize("delay_ms, here", [(30_000, True), (30_001, False)])
def test_only_a_short_pause_is_waited_for_in_place(delay_ms, here):
    assert waits_in_place((Retry(wait_s=5), Retry(wait_s=30)), delay_ms) is here


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": 51},
        {"attempts": True},
        {"first_delay_s": -1},
        {"first_delay_s": math.nan},
        {"factor": 0.5},
        {"delay_max_s": "60"},
        {"jitter": 1.5},
        {"within_s": 0},
        {"on": ()},
        {"on": "NotDone"},
        {"on": KeyboardInterrupt},
        {"wait_s": -1},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ToolInvalid):
        Retry(**wrong)


def test_what_would_be_unknown_cannot_be_named_by_a_policy():
    with pytest.raises(ToolInvalid, match="unknown"):
        policies_of(Retry(on=ConnectionError), "pay", any_error=False)
    assert policies_of(Retry(on=ConnectionError), "look", any_error=True)


@pytest.mark.parametrize("wrong", ["twice", 3, [Retry(), 3]])
def test_anything_but_policies_is_refused(wrong):
    with pytest.raises(ToolInvalid):
        policies_of(wrong, "pay", any_error=False)
