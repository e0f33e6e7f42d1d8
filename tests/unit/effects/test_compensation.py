"""What a tool declares of undoing its effects, checked when it is declared."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.effects import by_key, effect
from counterfoil.effects.compensation import CALLS_MAX, PlannedCall
from counterfoil.effects.registry import own_tools
from counterfoil.errors import ToolInvalid


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


def undo(name="undo"):
    @effect(name, version="1", touches={"money"}, doubt=by_key())
    def undo(order: str, amount: int = 0, *, idempotency_key: str = ""):
        raise AssertionError("planning performs nothing")

    return undo


def do(compensate, name="do"):
    @effect(name, version="1", touches={"money"}, doubt=by_key(), compensate=compensate)
    def do(order: str, amount: int, *, idempotency_key: str = ""):
        raise AssertionError("planning performs nothing")

    return do


def plan(tool, result=None):
    calls = tool.compensation.calls({"order": "o-1", "amount": 40}, result)
    return [(call.tool.name, dict(call.arguments)) for call in calls]


@pytest.mark.parametrize("declared", [lambda tool: tool, lambda tool: tool.later])
def test_a_tool_that_undoes_another_is_given_the_arguments_of_the_same_names(declared):
    assert plan(do(declared(undo()))) == [("undo", {"order": "o-1", "amount": 40})]


def test_a_function_plans_calls_from_the_arguments_it_names():
    other = undo()
    assert plan(do(lambda order, **_: other.later(order))) == [("undo", {"order": "o-1", "amount": 0})]


def test_a_function_may_ask_for_the_result():
    other = undo()
    assert plan(do(lambda result, **_: other.later(result["id"])), {"id": "re_1"}) == [
        ("undo", {"order": "re_1", "amount": 0})
    ]


def test_a_function_may_plan_several_calls_or_none():
    one, two = undo(), undo("undo.more")
    assert [name for name, _ in plan(do(lambda order, **_: [one.later(order), two.later(order)]))] == [
        "undo",
        "undo.more",
    ]
    assert plan(do(lambda **_: None, "do.none")) == []


@pytest.mark.parametrize("given", ["undo", 7, [1], {"a": 1}])
def test_a_function_that_gives_anything_else_is_refused(given):
    with pytest.raises(ToolInvalid, match="yet to be made"):
        plan(do(lambda **_: given))


def test_a_plan_has_a_bound():
    other = undo()
    with pytest.raises(ToolInvalid, match=str(CALLS_MAX)):
        plan(do(lambda **_: [other.later(str(n)) for n in range(CALLS_MAX + 1)]))


def test_a_tool_that_needs_what_the_other_does_not_take_is_refused_when_it_is_declared():
    @effect("undo.account", version="1", touches={"money"}, doubt=by_key())
    def other(account: str, *, idempotency_key: str = ""):
        raise AssertionError("planning performs nothing")

    with pytest.raises(ToolInvalid, match="'account'"):
        do(other)


def test_a_function_that_needs_what_the_tool_does_not_take_is_refused_when_it_is_declared():
    with pytest.raises(ToolInvalid, match="'account'"):
        do(lambda account: None)


def test_a_call_that_is_planned_is_checked_as_a_call_that_is_made():
    with pytest.raises(ToolInvalid, match="cannot be called like this"):
        undo().later()


def test_planning_a_call_performs_nothing_and_needs_no_run():
    tool = undo()
    assert tool.later("o-1") == PlannedCall(tool, {"order": "o-1", "amount": 0})


def test_a_function_that_calls_a_tool_instead_of_planning_it_performs_nothing_even_inside_a_run():
    other = undo()
    with counterfoil.open(":memory:") as ledger, ledger.run("agent", conversation="c"):
        with pytest.raises(ToolInvalid, match="instead of planning"):
            plan(do(lambda order, **_: other(order)))
        assert ledger.effects() == []
