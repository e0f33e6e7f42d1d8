"""Binding a call's arguments to names, and what lookups and key functions take of them."""

from __future__ import annotations

import inspect

import pytest

from counterfoil.effects.signature import Parameters, check_takes, chosen, taken_by
from counterfoil.errors import ToolInvalid


def refund(order, line=1, *, amount="0", idempotency_key=None):
    """A tool with every kind of parameter that may be recorded."""


def parameters(fn=refund):
    return Parameters(fn, "pay")


def bind(*args, fn=refund, **kwargs):
    return parameters(fn).bind(args, kwargs, "pay")


@pytest.mark.parametrize(
    "args,kwargs",
    [
        (("o-1",), {}),
        ((), {"order": "o-1"}),
        (("o-1", 1), {}),
        (("o-1",), {"line": 1, "amount": "0"}),
    ],
)
def test_the_same_call_is_bound_alike_however_it_is_written(args, kwargs):
    assert bind(*args, **kwargs) == {"order": "o-1", "line": 1, "amount": "0"}


def test_arguments_stand_in_the_order_of_declaration():
    assert list(bind(amount="5", line=2, order="o-1")) == ["order", "line", "amount"]


def test_further_named_arguments_are_kept_where_the_function_takes_any():
    def open_ended(order, **rest):
        return order, rest

    assert bind("o-1", colour="red", fn=open_ended) == {"order": "o-1", "colour": "red"}


@pytest.mark.parametrize(
    "args,kwargs,says",
    [
        ((), {}, "order"),
        (("o-1", 2, 3), {}, "too many"),
        (("o-1",), {"order": "o-2"}, "order"),
        (("o-1",), {"colour": "red"}, "colour"),
        (("o-1",), {"idempotency_key": "mine"}, "idempotency_key"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_with_what_is_wrong(args, kwargs, says):
    with pytest.raises(ToolInvalid, match=says):
        bind(*args, **kwargs)


def test_the_key_is_no_parameter_that_others_see():
    assert list(parameters().shown.parameters) == ["order", "line", "amount"]
    assert parameters().takes_key


def test_the_key_goes_to_a_function_that_takes_it_and_only_there():
    def plain(order):
        return order

    assert parameters().arguments_for_call({"order": "o-1"}, "k") == {"order": "o-1", "idempotency_key": "k"}
    assert parameters(plain).arguments_for_call({"order": "o-1"}, "k") == {"order": "o-1"}


@pytest.mark.parametrize("source", ["def f(*many): ...", "def f(only, /): ...", "def f(a, *rest, b=1): ..."])
def test_values_without_a_name_to_be_recorded_under_are_refused_at_declaration(source):
    space = {}
    exec(source, space)
    with pytest.raises(ToolInvalid, match="no names"):
        parameters(space["f"])


def test_the_schema_tells_when_recorded_arguments_may_not_fit_any_more():
    def renamed(order, position=1, *, amount="0", idempotency_key=None): ...

    def annotated(order: str, line: int = 7, *, amount: str = "0", idempotency_key: str = ""): ...

    assert parameters(renamed).schema != parameters().schema
    assert parameters(annotated).schema != parameters().schema
    assert parameters(refund).schema == parameters().schema


@pytest.mark.parametrize(
    "recorded,fits",
    [
        ({"order": "o-1"}, True),
        ({"order": "o-1", "line": 1, "amount": "0"}, True),
        ({"line": 1}, False),
        ({"order": "o-1", "colour": "red"}, False),
    ],
)
def test_recorded_arguments_are_checked_against_the_function_of_today(recorded, fits):
    assert parameters().accepts(recorded) is fits


def test_a_function_that_takes_some_arguments_gets_those():
    def some(order): ...

    def every(**rest): ...

    arguments = {"order": "o-1", "line": 1}
    assert chosen(arguments, taken_by(some)) == {"order": "o-1"}
    assert chosen(arguments, taken_by(every)) == arguments


def test_a_lookup_that_needs_what_the_tool_does_not_have_is_refused_at_declaration():
    def find(order, customer): ...

    with pytest.raises(ToolInvalid, match="customer"):
        check_takes(find, parameters().offered, "lookup", "pay")


def test_a_tool_that_takes_anything_may_offer_anything():
    def open_ended(**rest): ...

    def find(customer): ...

    assert parameters(open_ended).offered is None
    assert check_takes(find, None, "lookup", "pay") == {"customer"}


def test_parameters_are_taken_from_the_function_itself():
    assert parameters().whole == inspect.signature(refund)
