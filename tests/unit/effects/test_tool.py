"""Declaring a tool: what is refused, what it looks like to a framework, and the registry of declared tools."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import inspect
import typing

import pytest

from counterfoil.effects import (
    Absent,
    Found,
    by_key,
    by_lookup,
    by_repeating,
    by_review,
    effect,
    find_tool,
    tools,
)
from counterfoil.effects.registry import own_tools, tool_of
from counterfoil.errors import InputError, NoRun, ToolInvalid, ToolNotFound


def declare(fn, name="pay", **more):
    settings = {"version": "1", "touches": {"money"}, "doubt": by_key()} | more
    return effect(name, **settings)(fn)


def pay(order: str, line: int = 1, *, idempotency_key: str = "") -> dict[str, str]:
    """Pay an order."""
    return {"order": order}


async def apay(order: str, *, idempotency_key: str = "") -> str:
    """Pay an order, in a while."""
    return order


# ---- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "pay the order"},
        {"name": ""},
        {"version": "v 1"},
        {"version": 1},
        {"touches": "money"},
        {"touches": {"cash"}},
        {"doubt": by_key},
        {"doubt": None},
        {"timeout_s": 0},
        {"timeout_s": True},
        {"timeout_s": float("nan")},
        {"timeout_s": 1_000_000},
        {"doubt": by_repeating()},
        {"doubt": by_repeating(), "touches": {"data"}},
        {"doubt": by_repeating(), "touches": {"external"}},
        {"doubt": by_repeating(), "touches": set(), "key": lambda order: order},
        {"key": lambda customer: customer},
        {"doubt": by_lookup(lambda customer: Absent())},
    ],
    ids=lambda wrong: str(wrong).split(" at 0x")[0],
)
def test_a_wrong_declaration_is_refused_where_it_stands(wrong):
    with pytest.raises(ToolInvalid):
        declare(pay, **wrong)
    assert tools() == []


@pytest.mark.parametrize("thing", [None, "pay", dict])
def test_only_functions_are_tools(thing):
    with pytest.raises(ToolInvalid):
        declare(thing)


def test_a_tool_is_not_declared_twice_over():
    with pytest.raises(ToolInvalid):
        declare(declare(pay))


def test_the_lookup_of_a_sync_tool_is_no_coroutine():
    async def find(order):
        return Absent()

    with pytest.raises(ToolInvalid, match="async"):
        declare(pay, doubt=by_lookup(find))
    assert declare(apay, doubt=by_lookup(find)).asynchronous


@pytest.mark.parametrize(
    "doubt", [by_key(), by_lookup(lambda order: Absent(), then=by_key())], ids=["key", "lookup_then_key"]
)
@pytest.mark.parametrize("fn", [lambda order: None, lambda order, **rest: None], ids=["named", "rest"])
def test_a_rule_that_sends_again_under_the_key_is_refused_for_a_tool_that_never_gets_one(fn, doubt):
    with pytest.raises(ToolInvalid, match="idempotency_key") as refused:
        declare(fn, doubt=doubt)
    assert "by_review" in refused.value.hint
    assert tools() == []


@pytest.mark.parametrize(
    "find",
    [lambda *, idempotency_key, **_: Absent(), lambda order, idempotency_key="": Absent()],
    ids=["asks", "may ask"],
)
def test_a_lookup_by_a_key_that_no_call_carries_is_refused(find):
    with pytest.raises(ToolInvalid, match="lookup asks for idempotency_key"):
        declare(lambda order: None, doubt=by_lookup(find))


def test_a_lookup_by_the_arguments_needs_no_key_and_is_given_none(ledger):
    asked = []

    def lost(order):
        raise ConnectionError

    tool = declare(lost, doubt=by_lookup(lambda **given: asked.append(given) or Found("succeeded", "there")))
    with ledger.run("agent", conversation="case"):
        assert tool("o-1") == "there"
    assert asked == [{"order": "o-1"}]


def generator(order, *, idempotency_key=""):
    yield order


async def async_generator(order, *, idempotency_key=""):
    yield order


class Client:
    """Its methods are no tools; a bound one may be declared."""

    def pay(self, order, *, idempotency_key=""):
        return order

    def __call__(self, order, *, idempotency_key=""):
        yield order


@pytest.mark.parametrize("fn", [generator, async_generator, functools.partial(generator), Client()])
def test_a_generator_function_is_refused_because_calling_it_does_nothing(fn):
    with pytest.raises(ToolInvalid, match="generator"):
        declare(fn)


def test_a_method_is_refused_with_what_to_do_instead():
    with pytest.raises(ToolInvalid, match="bound method"):
        declare(Client.pay)
    assert declare(Client().pay).parameters.takes_key


def test_a_function_whose_parameters_cannot_be_read_is_refused():
    with pytest.raises(ToolInvalid, match="parameters"):
        declare(min)


def test_a_lookup_followed_by_anything_but_a_key_is_refused():
    with pytest.raises(ToolInvalid):
        by_lookup(lambda **_: Absent(), then=by_repeating())
    with pytest.raises(ToolInvalid):
        by_lookup("find")  # type: ignore[arg-type]  # no function at all


# ---- what it looks like --------------------------------------------------------------------------------------------


def test_a_tool_looks_like_its_function_without_the_key():
    tool = declare(pay)
    assert (tool.__name__, tool.__doc__, tool.__module__) == ("pay", "Pay an order.", __name__)
    assert str(inspect.signature(tool)) == "(order: 'str', line: 'int' = 1) -> 'dict[str, str]'"
    assert typing.get_type_hints(tool) == {"order": str, "line": int, "return": dict[str, str]}


def test_an_async_tool_is_seen_as_one_by_frameworks_that_ask():
    assert inspect.iscoroutinefunction(declare(apay))
    assert not inspect.iscoroutinefunction(declare(pay, "pay2"))


def test_a_tool_names_itself():
    assert repr(declare(pay)) == "<tool pay 1>"


# ---- the registry --------------------------------------------------------------------------------------------------


def test_declared_tools_are_listed_by_name_and_version():
    second = declare(pay, "b")
    newer = declare(apay, "a", version="2")
    older = declare(pay, "a", version="1")
    assert tools() == [older, newer, second]


def test_a_version_that_is_not_loaded_is_stood_in_for_by_the_highest():
    declare(pay, version="1")
    newest = declare(apay, version="2")
    assert find_tool("pay", "0") is newest
    assert find_tool("pay") is newest
    assert find_tool("refund") is None
    with pytest.raises(ToolNotFound):
        tool_of("refund")


def test_another_function_under_the_same_name_and_version_is_refused():
    declare(pay)
    with pytest.raises(ToolInvalid, match="declared twice"):
        declare(apay)


def test_a_module_that_is_loaded_again_declares_its_tools_again(tmp_path):
    source = tmp_path / "shop.py"
    source.write_text(
        "from counterfoil.effects import by_review, effect\n"
        "@effect('pay', version='1', touches={'money'}, doubt=by_review())\n"
        "def pay(order): return order\n"
    )
    for name in ("shop", "shop", "__main__"):
        spec = importlib.util.spec_from_file_location(name, source)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert len(tools()) == 1


def test_tools_of_a_test_are_its_own():
    declare(pay)
    with own_tools():
        assert tools() == []
        declare(apay)
    assert [tool.fn for tool in tools()] == [pay]


# ---- calling outside -------------------------------------------------------------------------------------------------


def test_a_tool_outside_a_run_does_nothing_and_says_so():
    with pytest.raises(NoRun, match="run"):
        declare(pay)("o-1")
    with pytest.raises(NoRun):
        declare(apay, "apay")("o-1")


def test_an_async_tool_in_a_sync_run_is_refused_before_anything_is_written(ledger, told):
    tool = declare(apay)
    with ledger.run("agent", conversation="case"), pytest.raises(InputError, match="async"):
        tool("o-1")
    assert told() == []


def test_a_sync_run_awaits_nothing(ledger, told):
    tool = declare(pay)
    with ledger.run("agent", conversation="case"), pytest.raises(InputError, match="sync run"):
        asyncio.run(tool.acall("o-1"))
    assert told() == []


def test_a_call_that_does_not_fit_is_refused_before_anything_is_written(ledger, told):
    tool = declare(pay, doubt=by_review())
    with ledger.run("agent", conversation="case"), pytest.raises(ToolInvalid):
        tool()
    assert told() == []
