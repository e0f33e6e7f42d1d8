"""Python values beyond JSON: tagged, reversible, or refused by path (cases S02-S05)."""

from __future__ import annotations

import datetime
import enum
import json
import pathlib
import uuid
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import pytest

from counterfoil.core import canonical
from counterfoil.core.limits import NESTING_MAX
from counterfoil.core.registered import register
from counterfoil.core.values import PartRef, comparable, from_json, to_json
from counterfoil.errors import IntegerTooLong, InvalidForm, NotDecodable, NotEncodable, TooDeep


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    ONE = 1


class Point(NamedTuple):
    x: int
    y: float


@dataclass
class Receipt:
    amount: Decimal
    lines: list
    total: int = field(init=False, default=7)


class Order(msgspec.Struct):
    number: str
    due: datetime.date


class Model:
    """Has the two methods by which a pydantic model is known."""

    def __init__(self, **members) -> None:
        self.members = members

    def model_dump(self) -> dict:
        return dict(self.members)

    @classmethod
    def model_validate(cls, members: dict) -> Model:
        return cls(**members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.members == other.members

    __hash__ = None


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and self.cents == other.cents

    __hash__ = None


for kind in (Colour, Level, Point, Receipt, Order, Model):
    register(kind, f"test_values.{kind.__name__}")
register(Money, "test_values.Money", encode=lambda money: money.cents, decode=Money)


class Stranger(enum.Enum):
    A = 1


@dataclass
class Unregistered:
    a: int = 1


EAST = datetime.timezone(datetime.timedelta(hours=5, minutes=45))

FORMS = [
    (40.0, {"$float": "40.0"}),
    (-0.0, {"$float": "-0.0"}),
    (1e22, {"$float": "1e+22"}),
    (1e20, {"$float": "100000000000000000000.0"}),
    (0.5, 0.5),
    (Decimal("1.10"), {"$decimal": "1.10"}),
    (Decimal("-0"), {"$decimal": "-0"}),
    (Decimal("1E+3"), {"$decimal": "1E+3"}),
    (b"\xff\xfe", {"$bytes": "//4="}),
    (b"", {"$bytes": ""}),
    (
        datetime.datetime(2026, 9, 1, 14, 31, 8, 412000, tzinfo=datetime.UTC),
        {"$datetime": "2026-09-01T14:31:08.412000+00:00"},
    ),
    (datetime.datetime(2026, 9, 1, tzinfo=EAST), {"$datetime": "2026-09-01T00:00:00+05:45"}),
    (datetime.date(2026, 2, 28), {"$date": "2026-02-28"}),
    (datetime.time(23, 59, 1), {"$time": "23:59:01"}),
    (
        uuid.UUID("12345678-1234-5678-1234-567812345678"),
        {"$uuid": "12345678-1234-5678-1234-567812345678"},
    ),
    ((1, "a", (2,)), {"$tuple": [1, "a", {"$tuple": [2]}]}),
    ((), {"$tuple": []}),
    ({3, 1, "b"}, {"$set": ["b", 1, 3]}),
    (frozenset(), {"$set": []}),
    ({frozenset({1})}, {"$set": [{"$set": [1]}]}),
    ({1: "a", None: 2}, {"$map": [[1, "a"], [None, 2]]}),
    ({("a", 1): {"x": 1}}, {"$map": [[{"$tuple": ["a", 1]}, {"x": 1}]]}),
    ({"$decimal": "1"}, {"$literal": {"$decimal": "1"}}),
    ({"$": {"$x": 1.0}, "b": 2}, {"$literal": {"$": {"$literal": {"$x": {"$float": "1.0"}}}, "b": 2}}),
    (Colour.RED, {"$type": "test_values.Colour", "value": "red"}),
    (Level.ONE, {"$type": "test_values.Level", "value": 1}),
    (Point(1, 2.5), {"$type": "test_values.Point", "value": {"x": 1, "y": 2.5}}),
    (
        Receipt(Decimal("4.00"), [1]),
        {"$type": "test_values.Receipt", "value": {"amount": {"$decimal": "4.00"}, "lines": [1]}},
    ),
    (
        Order("O-1042", datetime.date(2026, 1, 1)),
        {"$type": "test_values.Order", "value": {"number": "O-1042", "due": {"$date": "2026-01-01"}}},
    ),
    (Model(a=b"x"), {"$type": "test_values.Model", "value": {"a": {"$bytes": "eA=="}}}),
    (Money(4000), {"$type": "test_values.Money", "value": 4000}),
    (pathlib.Path("a/b c"), {"$type": "path", "value": "a/b c"}),
    (PartRef(1), {"$part": 1}),
    ("\ud99c x", "\ud99c x"),
    (2**200, 2**200),
    (None, None),
    (True, True),
    ({}, {}),
    ([], []),
]


def shown(item):
    """A test id that is the same in every process: the members of a set come in no fixed order."""
    text = type(item).__name__ if isinstance(item, set | frozenset) else repr(item)
    return text[:40].encode("ascii", "replace").decode()


@pytest.mark.parametrize("value, form", FORMS, ids=shown)
def test_a_value_has_its_tagged_form(value, form):
    assert canonical.encode(to_json({"v": value})) == canonical.encode({"v": form})


@pytest.mark.parametrize("value, form", FORMS, ids=shown)
def test_a_value_comes_back_through_stored_bytes_as_what_it_was(value, form):
    found = from_json(canonical.decode(canonical.encode(to_json({"v": [value]}))))["v"][0]
    assert found == value
    assert type(found) is type(value) or {type(found), type(value)} == {set, frozenset}
    assert str(found) == str(value) or isinstance(value, set | frozenset | dict | Model | Money)


def test_a_bytearray_comes_back_as_bytes():
    assert from_json(to_json(bytearray(b"ab"))) == b"ab"


@pytest.mark.parametrize(
    "mapping", [OrderedDict(b=1, a=2), defaultdict(int, b=1, a=2), MappingProxyType({"b": 1, "a": 2})]
)
def test_a_mapping_comes_back_as_a_dict(mapping):
    found = from_json(to_json(mapping))
    assert type(found) is dict
    assert found == {"a": 2, "b": 1}


def test_sets_and_maps_have_one_form_whatever_their_order():
    assert to_json({1: "a", 2: "b"}) == to_json({2: "b", 1: "a"})
    assert to_json({"b", "a", "c"}) == {"$set": ["a", "b", "c"]}


def test_the_form_is_a_copy():
    value = {"a": [1]}
    form = to_json(value)
    value["a"].append(2)
    assert form == {"a": [1]}


REFUSED = [
    (datetime.datetime(2026, 9, 1), NotEncodable, "zone"),
    (float("nan"), NotEncodable, "NaN"),
    (float("inf"), NotEncodable, "infinite"),
    (Decimal("NaN"), NotEncodable, "finite"),
    (Decimal("-Infinity"), NotEncodable, "finite"),
    (Decimal(10**1000), IntegerTooLong, "1000"),
    (10**1000, IntegerTooLong, "1000"),
    (Stranger.A, NotEncodable, ".value"),
    (Unregistered(), NotEncodable, "register"),
    (type("Text", (str,), {})("x"), NotEncodable, "plain str"),
    (type("Number", (int,), {})(1), NotEncodable, "plain int"),
    (type("Items", (list,), {})(), NotEncodable, "plain list"),
    (range(3), NotEncodable, "range"),
    (1j, NotEncodable, "complex"),
    (datetime.timedelta(1), NotEncodable, "timedelta"),
    (object(), NotEncodable, "object"),
    (len, NotEncodable, "builtin"),
]


@pytest.mark.parametrize("bad, error, word", REFUSED, ids=lambda item: repr(item).split(" at 0x")[0][:30])
def test_a_value_without_form_is_refused_by_path(bad, error, word):
    with pytest.raises(error) as refusal:
        to_json({"a": 1, "items": [0, {"amount": bad}]}, "$.arguments")
    assert refusal.value.path == "$.arguments.items[1].amount"
    assert word in str(refusal.value)


def test_a_key_of_a_map_is_refused_by_path_too():
    with pytest.raises(NotEncodable) as refusal:
        to_json({"m": {1: 1, object(): 2}})
    assert refusal.value.path == "$.m[1]"


def lists(count: int, innermost: object) -> object:
    value = innermost
    for _ in range(count):
        value = [value]
    return value


@pytest.mark.parametrize(
    "innermost, levels",
    [
        ("x", 0),
        (0.5, 0),
        (1.0, 1),
        (Decimal(1), 1),
        ({}, 1),
        ((), 2),
        ({1}, 2),
        ({"$x": 1}, 2),
        ({1: 2}, 3),
        (Money(1), 1),
        (Point(1, 0.5), 2),
    ],
)
def test_nesting_is_counted_as_it_will_be_stored(innermost, levels):
    fits = to_json(lists(NESTING_MAX - levels, innermost))
    assert canonical.decode(canonical.encode(fits)) == fits
    with pytest.raises(TooDeep):
        to_json(lists(NESTING_MAX - levels + 1, innermost))


def test_very_deep_python_values_are_refused_and_not_recursed_into():
    value: list = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(TooDeep) as refusal:
        to_json(value)
    assert refusal.value.path.startswith("$[0][0]")


def test_a_list_that_holds_itself_is_refused():
    value: list = []
    value.append(value)
    with pytest.raises(TooDeep):
        to_json(value)


MALFORMED = [
    {"$unknown": 1},
    {"$decimal": 1},
    {"$decimal": "one"},
    {"$decimal": " 1"},
    {"$decimal": "NaN"},
    {"$float": "nan"},
    {"$float": "1e999"},
    {"$float": "40"},
    {"$float": 40},
    {"$float": "0.5 "},
    {"$bytes": "AA"},
    {"$bytes": "A A="},
    {"$bytes": "//5="},
    {"$datetime": "2026-09-01T00:00:00"},
    {"$datetime": "2026-09-01"},
    {"$date": "20260901"},
    {"$time": "25:00"},
    {"$uuid": "{12345678123456781234567812345678}"},
    {"$tuple": {}},
    {"$set": [[1]]},
    {"$map": [[1]]},
    {"$map": {"a": 1}},
    {"$literal": 1},
    {"$part": -1},
    {"$part": "1"},
    {"$part": True},
    {"$decimal": "1", "a": 2},
    {"a": 1, "$b": 2},
    {"$type": "test_values.Colour", "value": "blue"},
    {"$type": "test_values.Receipt", "value": {"wrong": 1}},
    {"$type": 1, "value": 1},
    {"$type": "test_values.Colour"},
]


@pytest.mark.parametrize("bad", MALFORMED, ids=lambda bad: json.dumps(bad)[:50])
def test_a_tag_that_holds_something_else_is_refused_by_path(bad):
    with pytest.raises(NotDecodable) as refusal:
        from_json({"x": [bad]})
    assert refusal.value.path == "$.x[0]"


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "collections.OrderedDict", "test_values.Unregistered"]
)
def test_a_class_is_never_looked_up_by_a_name_found_in_data(name):
    with pytest.raises(NotDecodable) as refusal:
        from_json({"$type": name, "value": "true"})
    assert "not registered" in refusal.value.message


def test_deep_json_is_refused_when_read_back():
    value: list = []
    for _ in range(10_000):
        value = [value]
    with pytest.raises(TooDeep):
        from_json(value)


# ---- registering -------------------------------------------------------------------------------------------------


def test_a_name_belongs_to_one_class():
    with pytest.raises(InvalidForm):
        register(Unregistered, "test_values.Colour")


def test_a_class_that_cannot_be_taken_apart_needs_both_functions():
    with pytest.raises(InvalidForm):
        register(type("Opaque", (), {}), "test_values.Opaque")
    with pytest.raises(InvalidForm):
        register(type("Opaque", (), {}), "test_values.Opaque", encode=str)


def test_a_local_class_needs_a_name():
    class Local(enum.Enum):
        A = 1

    with pytest.raises(InvalidForm):
        register(Local)


# ---- comparing ---------------------------------------------------------------------------------------------------


def test_forty_point_naught_and_forty_are_the_same_argument_and_the_text_is_not():
    forms = [
        canonical.encode(comparable(to_json({"amount": amount}))) for amount in (40, 40.0, "40", Decimal(40))
    ]
    assert forms[0] == forms[1]
    assert len(set(forms)) == 3


def test_data_that_imitates_a_float_tag_is_not_compared_as_a_number():
    outside = comparable(to_json({"amount": {"$float": "40.0"}}))
    assert outside == {"amount": {"$literal": {"$float": "40.0"}}}


def test_floats_inside_tags_and_literals_are_compared_as_numbers():
    value = {"$x": [(1.0, {2.0})]}
    assert comparable(to_json(value)) == {"$literal": {"$x": [{"$tuple": [1.0, {"$set": [2.0]}]}]}}


def test_a_class_whose_own_code_fails_to_take_it_apart_is_refused_by_path():
    class Broken:
        """Registered, and wrong about itself."""

    def fail(_):
        raise ZeroDivisionError

    register(Broken, "test_values.Broken", encode=fail, decode=lambda _: Broken())
    with pytest.raises(NotEncodable, match="ZeroDivisionError") as refused:
        to_json({"a": [Broken()]})
    assert refused.value.path == "$.a[0]"
