from __future__ import annotations

from contextlib import closing

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import Divergence, ToolNotFound
from counterfoil.replay import Answer, ReplayModel, ToolUse, replay_turn, same_behaviour
from tests.journals import journals, written

DECISIONS = (
    ToolUse("lookup", {"order": "O-1"}),
    ToolUse("refund", {"order": "O-1", "amount": 40}),
    Answer("Refunded."),
)


def lookup(order):
    return {"order": order, "state": "lost"}


def refund(order, amount):
    return {"id": "re_1"}


TOOLS = {"lookup": lookup, "refund": refund}


def recorded():
    """The turn as it happened, on a journal of its own."""
    made = journals()
    with made.begin("support", message="Where is it?", session="s") as turn:
        turn.model_call("acme", "acme-1")
        find, pay = turn.tools([lookup, refund])
        find("O-1")
        pay("O-1", amount=40)
        turn.answer("Refunded.")
    return written(made, turn.turn_id)


def replayed(*decisions, **options):
    return replay_turn(ReplayModel(decisions), TOOLS, "Where is it?", **options)


def test_the_same_decisions_are_the_same_behaviour():
    again = replayed(*DECISIONS)
    assert again.answer == "Refunded."
    assert [event.type for event in again.events] == ["INTAKE", "TOOL_CALL", "TOOL_CALL", "COMMIT"]
    assert same_behaviour(recorded(), again.events)


DIFFERENCES = {
    "another tool": (
        [ToolUse("refund", {"order": "O-1", "amount": 40}), DECISIONS[1], DECISIONS[2]],
        ("call 0 is of refund, recorded was lookup", 0),
    ),
    "other arguments": (
        [DECISIONS[0], ToolUse("refund", {"order": "O-1", "amount": 41}), DECISIONS[2]],
        ("call 1 of refund has other arguments than recorded", 1),
    ),
    "a call less": ([DECISIONS[0], DECISIONS[2]], ("1 calls of tools where 2 are recorded", 1)),
    "a call more": (
        [*DECISIONS[:2], DECISIONS[0], DECISIONS[2]],
        ("3 calls of tools where 2 are recorded", 2),
    ),
    "another order": (
        [DECISIONS[1], DECISIONS[0], DECISIONS[2]],
        ("call 0 is of refund, recorded was lookup", 0),
    ),
    "another answer": (
        [*DECISIONS[:2], Answer("No.")],
        ("the final answer differs from the recorded one", None),
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_named(name):
    decisions, expected = DIFFERENCES[name]
    found = same_behaviour(recorded(), replayed(*decisions).events)
    assert (found.difference, found.at) == expected
    assert not found


def test_of_a_turn_that_failed_over_the_last_attempt_counts():
    made = journals()
    with made.begin("support", message="m") as turn:
        turn.tool(refund)("O-9", 1)
        turn.failed_over(ConnectionError("down"), "m")
        find, pay = turn.tools([lookup, refund])
        find("O-1")
        pay("O-1", 40)
        turn.answer("Refunded.")
    assert same_behaviour(written(made, turn.turn_id), replayed(*DECISIONS).events)


def test_an_agent_of_ones_own_is_replayed_with_the_same_decorator():
    def agent(model, tools, message):
        first = model(message)
        tools[first.name](**first.arguments)
        return model(None).text

    model = ReplayModel([DECISIONS[0], DECISIONS[2]])
    again = replay_turn(model, TOOLS, "hello", agent=agent)
    assert (again.answer, model.told, model.left) == ("Refunded.", ["hello", None], ())
    assert [event.type for event in again.events] == ["INTAKE", "TOOL_CALL", "COMMIT"]


def test_a_model_that_is_asked_once_more_than_recorded_says_so():
    with pytest.raises(Divergence):
        replayed(DECISIONS[0])


def test_a_tool_that_the_replay_was_not_given_is_named():
    with pytest.raises(ToolNotFound, match="unknown_tool"):
        replayed(ToolUse("unknown_tool"))


def test_a_run_of_a_ledger_is_compared_with_a_replay_of_its_decisions():
    with own_tools(), closing(counterfoil.open(":memory:")) as ledger:

        @counterfoil.effect(
            "refund", version="1", touches={"money"}, key=lambda order, **_: order, doubt=counterfoil.by_key()
        )
        def pay(order, amount, *, idempotency_key=""):
            return {"id": "re_1"}

        with ledger.run("support", conversation="case", message="Where is it?") as run:
            pay("O-1", 40)
            run.finish("Refunded.")
        turn = ledger.turn(run.id)
    assert same_behaviour(turn.events, replayed(DECISIONS[1], DECISIONS[2]).events)
    assert not same_behaviour(turn.events, replayed(*DECISIONS).events)
