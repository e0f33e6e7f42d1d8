"""Arguments against type hints: what fits, what does not and where, and that nothing is converted or written."""

from __future__ import annotations

import collections.abc
import enum
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import pytest

from counterfoil.effects import by_key, effect
from counterfoil.effects.fitting import check_of
from counterfoil.effects.registry import own_tools
from counterfoil.errors import ArgumentInvalid, InputError, PolicyFailed
from counterfoil.policy import RuleList, constrain
from counterfoil.testing.crash import LifeUntil, live

if TYPE_CHECKING:
    from somewhere import OnlyForCheckers

T = TypeVar("T")
OLD_OPTIONAL = Optional[int]  # noqa: UP045 - the older spelling is meant
OrderId = NewType("OrderId", str)


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Line:
    sku: str
    count: int = 1
    notes: list[str] = field(default_factory=list)


class Item(TypedDict):
    sku: str
    count: NotRequired[int]


class Address(TypedDict):
    street: str
    number: NotRequired[int]


class Model:
    """As pydantic's models look."""

    @classmethod
    def model_json_schema(cls):
        return {"type": "object"}


FITS = [
    (str, "a"),
    (int, 1),
    (float, 1),
    (float, 1.5),
    (bool, True),
    (None, None),
    (bytes, b"a"),
    (Decimal, Decimal("1.10")),
    (datetime, datetime(2026, 1, 1, tzinfo=UTC)),
    (date, date(2026, 1, 1)),
    (UUID, UUID(int=1)),
    (Any, object()),
    (object, object()),
    (T, 5),
    (OrderId, "o-1"),
    (Annotated[int, "positive"], 1),
    (OLD_OPTIONAL, None),
    (int | str, "a"),
    (int | Any, object()),
    (Literal["a", 1], 1),
    (Colour, Colour.RED),
    (list, [object()]),
    (list[int], [1, 2]),
    (list[T], [1, "a"]),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (tuple[()], ()),
    (set[str], {"a"}),
    (frozenset[int], frozenset({1})),
    (dict[str, int], {"a": 1}),
    (dict[str, list[dict[str, Decimal]]], {"a": [{"b": Decimal(1)}]}),
    (collections.abc.Sequence[int], (1, 2)),
    (collections.abc.Sequence[str], "letters"),
    (collections.abc.Mapping[str, Any], {"a": object()}),
    (collections.abc.Callable[[int], str], print),
    (type[int], int),
    (Point, Point(1, 2)),
    (Line, Line("a", 2, ["n"])),
    (Address, {"street": "a"}),
    (Address, {"street": "a", "number": 3, "more": object()}),
    (Model, Model()),
    ("a hint that stayed text", 5),
]


@pytest.mark.parametrize("hint,value", FITS)
def test_what_a_hint_allows_fits(hint, value):
    check = check_of(hint)
    assert check is None or check(value) is None


MISFITS = [
    (str, 1, ""),
    (int, "1", ""),
    (int, True, ""),
    (int, 1.0, ""),
    (float, "1.5", ""),
    (float, False, ""),
    (bool, 1, ""),
    (None, 0, ""),
    (Decimal, "1.10", ""),
    (Decimal, 1.1, ""),
    (datetime, "2026-01-01T00:00:00Z", ""),
    (OrderId, 5, ""),
    (Annotated[int, "positive"], "1", ""),
    (OLD_OPTIONAL, "1", ""),
    (list[int] | None, [1, "2"], "[1]"),
    (int | str, 1.5, ""),
    (Literal["a", 1], True, ""),
    (Literal["a"], "b", ""),
    (Colour, "red", ""),
    (list[int], (1, 2), ""),
    (list[int], [1, 2, "3"], "[2]"),
    (tuple[int, str], (1, 2), "[1]"),
    (tuple[int, str], (1,), ""),
    (tuple[int, ...], (1, "2"), "[1]"),
    (tuple[()], (1,), ""),
    (set[str], {1}, "[0]"),
    (dict[str, int], {"a": 1, "b": "2"}, "[value 1]"),
    (dict[str, int], {1: 1}, "[key 0]"),
    (dict[str, list[dict[str, Decimal]]], {"a": [{"b": 1.0}]}, "[value 0][0][value 0]"),
    (collections.abc.Sequence[int], {1, 2}, ""),
    (Point, (1, 2), ""),
    (Line, {"sku": "a"}, ""),
    (Line, Line("a", "2"), ".count"),
    (Line, Line("a", 2, ["n", 5]), ".notes[1]"),
    (list[Line], [Line("a"), Line(5)], "[1].sku"),
    (Address, {"number": 3}, ".street"),
    (Address, {"street": "a", "number": "3"}, ".number"),
    (Address, "a street", ""),
    (Model, {"a": 1}, ""),
]


@pytest.mark.parametrize("hint,value,path", MISFITS)
def test_what_does_not_fit_is_found_where_it_is(hint, value, path):
    check = check_of(hint)
    assert check is not None
    found = check(value)
    assert found is not None
    assert found[0] == path


@pytest.fixture
def called():
    return []


@pytest.fixture
def pay(called):
    @effect(
        "pay", version="1", touches={"money"}, doubt=by_key(), key=lambda order, **_: f"pay:{order.strip()}"
    )
    def pay(
        order: str,
        amount: Decimal = 5,
        lines: list[Item] = (),
        unread: OnlyForCheckers = None,
        free=None,
        *,
        idempotency_key: str = "",
    ):
        called.append((order, amount, lines))
        return {"id": "p_1"}

    return pay


@pytest.mark.parametrize(
    "arguments,path",
    [
        ({"order": 5}, "arguments.order"),
        ({"order": "o-1", "amount": "PRIVATE"}, "arguments.amount"),
        ({"order": "o-1", "lines": [{"sku": "a", "count": 1}, {"sku": 5}]}, "arguments.lines[1].sku"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_path_and_nothing_is_written(
    ledger, pay, called, told, arguments, path
):
    with ledger.run("agent", conversation="case"), pytest.raises(ArgumentInvalid) as refused:
        pay(**arguments)
    assert isinstance(refused.value, InputError)
    assert refused.value.fields["path"] == path
    assert path in refused.value.message
    assert "PRIVATE" not in str(refused.value)
    assert (told(), called, ledger.effects()) == ([], [], [])


def test_the_tool_gets_what_it_was_given_and_a_default_fits_as_it_is(ledger, pay, called):
    with ledger.run("agent", conversation="case"):
        pay("o-1")
    assert called == [("o-1", 5, ())]


def test_a_hint_that_cannot_be_read_leaves_its_argument_unchecked_and_the_others_not(ledger, pay):
    assert pay.parameters.unchecked == ("unread",)
    with ledger.run("agent", conversation="case"):
        assert pay("o-1", unread=17)["id"] == "p_1"
        with pytest.raises(ArgumentInvalid):
            pay("o-2", "5", unread=17)


def test_a_class_that_is_defined_further_down_is_known_when_the_tool_is_called(ledger):
    assert further_down(ledger, {"n": 1}) == 1
    with pytest.raises(ArgumentInvalid, match=r"arguments\.value"):
        further_down(ledger, 1)


def further_down(ledger, value):
    @effect("later", version="1", touches={"data"}, doubt=by_key(), repeatable=True)
    def later(value: Later, *, idempotency_key: str = ""):
        return value["n"]

    with ledger.run("agent", conversation="case"):
        return later(value)


class Later(TypedDict):
    n: int


def test_a_call_on_record_gets_its_outcome_although_the_hints_are_stricter_by_now(world, provider):
    def declare(hint):
        def pay(order, *, idempotency_key=""):
            return provider.send(idempotency_key=idempotency_key, order=order)

        pay.__annotations__["order"] = hint
        return effect("pay", version="1", touches={"money"}, doubt=by_key())(pay)

    def work(ledger):
        with ledger.run("agent", conversation="case", message="m", dedupe="m1"):
            return declare(int | str)(5)

    live(world, LifeUntil("append effect.observed"), work)
    world.time_passes()
    with own_tools():
        stricter = declare(str)
        with world.open().run("agent", conversation="case", message="m", dedupe="m1"):
            assert stricter(5)["id"] == "re_1"
            with pytest.raises(ArgumentInvalid):
                stricter(6)
    assert len(provider.requests) == 1


def test_a_policys_new_arguments_are_checked_too(ledger, pay, called):
    wrong = constrain("wrong", to=lambda call: {**call.arguments, "amount": "5"})
    ledger.policy = RuleList("p", revision="1", otherwise="deny", rules=[wrong])
    with ledger.run("agent", conversation="case"), pytest.raises(PolicyFailed):
        pay("o-1", Decimal(9))
    assert called == []


def test_people_are_not_asked_about_a_call_that_could_not_be_sent(ledger, pay):
    ledger.policy = RuleList("p", revision="1", otherwise="ask", rules=[])
    with ledger.run("agent", conversation="case") as run, pytest.raises(ArgumentInvalid):
        run.propose(pay, 5)
    assert ledger.approvals() == []
