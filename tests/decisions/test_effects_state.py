"""States of an effect against every kind of event: what moves it and what does not (DESIGN 7)."""

from __future__ import annotations

from typing import get_args

import pytest

from counterfoil.effects.state import FINAL, IN_DOUBT, IN_REVIEW, OPEN, Effect, EffectState, evolve, review_of

EFFECT = "eff_01J9ZC3Y3V7W2R5T8QK4M6N0PF"
REVIEW = "rev_01J9ZC3Y3V7W2R5T8QK4M6N0PF"

INTENDED = ("effect.intended", {"effect_id": EFFECT, "tool": "pay", "tool_version": "2", "doubt": "key"})


def observed(outcome):
    return ("effect.observed", {"effect_id": EFFECT, "outcome": outcome, "source": "call"})


def late(outcome):
    return ("effect.late_observed", {"effect_id": EFFECT, "outcome": outcome, "source": "call"})


LOOKED_UP = ("effect.looked_up", {"effect_id": EFFECT, "answer": "absent", "lookup": 3})
REQUESTED = ("effect.review_requested", {"effect_id": EFFECT, "review_id": REVIEW, "cause": "absent"})
SETTLED = ("effect.settled", {"effect_id": EFFECT, "review_id": REVIEW, "outcome": "abandoned"})
REPEATED = ("effect.repeated", {"effect_id": EFFECT, "first": "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE"})
CONTRADICTED = (
    "effect.contradicted",
    {"effect_id": EFFECT, "review_id": REVIEW, "recorded": "failed", "found": "succeeded"},
)

# For each kind of event the states it leads out of and where to; from every other state nothing moves.
TABLE = [
    (INTENDED, {"intended": "intended", "unknown": "intended", "failed": "intended"}),
    (observed("succeeded"), {"intended": "succeeded", "unknown": "succeeded"}),
    (observed("rejected"), {"intended": "rejected", "unknown": "rejected"}),
    (observed("failed"), {"intended": "failed", "unknown": "failed"}),
    (observed("unknown"), {"intended": "unknown", "unknown": "unknown"}),
    (late("succeeded"), {"intended": "succeeded", "unknown": "succeeded", "in_review": "succeeded"}),
    (late("rejected"), {"intended": "rejected", "unknown": "rejected", "in_review": "rejected"}),
    (late("failed"), {"intended": "failed", "unknown": "failed", "in_review": "failed"}),
    (late("unknown"), {}),
    (LOOKED_UP, {}),
    (REPEATED, {}),
    (REQUESTED, {"intended": "in_review", "unknown": "in_review"}),
    (SETTLED, {"in_review": "settled", "contradicted": "settled"}),
    (
        CONTRADICTED,
        {
            "succeeded": "contradicted",
            "rejected": "contradicted",
            "failed": "contradicted",
            "settled": "contradicted",
            "contradicted": "contradicted",
        },
    ),
]
CASES = [(state, event, moves.get(state, state)) for event, moves in TABLE for state in get_args(EffectState)]


def effect(state):
    return Effect(EFFECT, state, "pay", "1", "key")


@pytest.mark.parametrize("state,event,then", CASES, ids=lambda value: str(value)[:60])
def test_an_event_moves_the_effect_as_the_table_says(state, event, then):
    moved = evolve(effect(state), *event)
    assert moved is not None
    assert moved.state == then


def test_an_effect_begins_with_its_first_intention():
    begun = evolve(None, *INTENDED, 1)
    assert begun == Effect(EFFECT, "intended", "pay", "2", "key", attempt=1)


@pytest.mark.parametrize("event", [observed("succeeded"), SETTLED, LOOKED_UP])
def test_nothing_begins_an_effect_but_an_intention(event):
    assert evolve(None, *event) is None


def test_another_attempt_counts_and_forgets_the_outcome_before_it():
    failed = evolve(effect("intended"), *observed("failed"))
    assert failed is not None
    assert failed.outcome == "failed"
    again = evolve(failed, *INTENDED, 2)
    assert again is not None
    assert (again.attempt, again.outcome, again.tool_version) == (2, None, "2")


def test_lookups_are_counted_by_what_the_event_says():
    asked = evolve(effect("unknown"), *LOOKED_UP)
    assert asked is not None
    assert asked.lookups == 3


def test_a_late_answer_after_a_settlement_changes_nothing_by_itself():
    settled = evolve(effect("in_review"), *SETTLED)
    assert evolve(settled, *late("succeeded")) == settled


def test_every_state_is_in_doubt_in_review_final_or_failed():
    assert set(get_args(EffectState)) == IN_DOUBT | IN_REVIEW | FINAL | {"failed"}
    assert OPEN == IN_DOUBT | IN_REVIEW


def test_the_review_of_an_effect_is_found_from_its_id():
    assert review_of(EFFECT) == REVIEW
