"""Turns that are begun, ended and given up with what nobody should give: each is journaled, or says what is missing."""

from __future__ import annotations

import pytest

from counterfoil.journal import MemoryJournal, check_chain
from counterfoil.journal.recorder import status_of
from tests.journals import NOW_MS, journals, stages, written


@pytest.mark.parametrize("name", ["sk-abcdefgh12345678", "sk-proj-abc123DEF456ghi789", "bearer-abcd12345"])
def test_a_secret_in_the_status_of_a_turn_is_masked(name):
    made = journals()
    turn = made.begin("support")
    turn.commit(status_of(type(name, (Exception,), {})()))
    assert written(made, turn.turn_id)[-1].summary == "status=error:***"


@pytest.mark.parametrize(
    "name", ["ValueError", "HTTP500Error", "openai.RateLimitError", "ConnectionResetByPeerException"]
)
def test_the_class_of_an_error_stays_readable(name):
    made = journals()
    turn = made.begin("support")
    turn.commit(f"error:{name}")
    assert written(made, turn.turn_id)[-1].summary == f"status=error:{name}"


def test_what_comes_after_the_end_says_so():
    made = journals()
    with made.begin("support") as turn:
        tool = turn.tool(lambda: 1, name="slow")
    tool()
    assert written(made, turn.turn_id)[-1].summary.startswith("late=1 tool=slow status=ok")


def test_the_second_attempt_is_not_late():
    made = journals()
    with made.begin("support") as turn:
        turn.failed_over(ValueError(), "again")
        turn.guard("g", "pass")
    assert all("late" not in event.summary for event in written(made, turn.turn_id))


def test_an_outcome_that_no_approval_has_is_a_gap_and_not_a_word_of_the_journal():
    made = journals()
    with made.begin("support", decided={"apr-1": "nonsense", "apr-2": "denied"}) as turn:
        pass
    events = written(made, turn.turn_id)
    assert stages(events)[1:] == [
        "APPROVAL gap=1 decision=decided:denied request=apr-2",
        "COMMIT status=completed",
    ]
    assert check_chain(events).intact
