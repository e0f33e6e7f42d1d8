"""Canonical JSON beyond the vectors: what Python values may hold, limits, and refusals by path (cases S01-S06, X3)."""

from __future__ import annotations

import hashlib
import json
import sys
import uuid
from collections import OrderedDict
from enum import Enum, IntEnum, StrEnum

import pytest

from counterfoil.core import canonical
from counterfoil.core.limits import INTEGER_DIGITS_MAX, NESTING_MAX
from counterfoil.errors import DuplicateMember, IntegerTooLong, NotCanonical, NotEncodable, TooDeep


class Word(str):
    __slots__ = ()


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    ONE = 1


class Mood(StrEnum):
    GOOD = "good"


@pytest.fixture
def few_digits():
    """The interpreter's own limit on long integers, as low as it goes."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    yield
    sys.set_int_max_str_digits(before)


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


# ---- S01, S02: text ----------------------------------------------------------------------------------------------


def test_nul_in_text_is_kept_as_an_escape():
    assert canonical.encode({"text": "ab\x00cd"}) == b'{"text":"ab\\u0000cd"}'
    assert canonical.decode(b'{"text":"ab\\u0000cd"}') == {"text": "ab\x00cd"}


def test_a_lone_surrogate_of_a_model_comes_back_as_it_was():
    arguments = json.loads('{"q":"\\ud99c x"}')
    data = canonical.encode(arguments)
    assert data == b'{"q":"\\ud99c x"}'
    assert canonical.decode(data) == arguments


def test_two_surrogates_side_by_side_are_one_character():
    assert canonical.encode("\ud83d\ude00") == canonical.encode("\U0001f600") == '"\U0001f600"'.encode()


def test_two_names_that_are_one_after_joining_are_refused():
    with pytest.raises(DuplicateMember) as refusal:
        canonical.encode({"a": [{"\ud83d\ude00": 1, "\U0001f600": 2}]})
    assert refusal.value.path == "$.a[0]"


def test_a_text_that_only_looks_like_an_escape_is_kept():
    value = {"pattern": "\\ud800", "deep": ["\\uD83D"]}
    assert canonical.decode(canonical.encode(value)) == value


# ---- S03: floats that are no numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_float_that_is_no_number_is_refused_by_path(bad):
    with pytest.raises(NotEncodable) as refusal:
        canonical.encode({"events": [{"score": 0.5}, {"score": bad}]})
    assert refusal.value.path == "$.events[1].score"


@pytest.mark.parametrize("text", [b"[NaN]", b"[Infinity]", b"[-Infinity]", b"[1e999]"])
def test_a_number_json_does_not_have_is_refused_by_offset(text):
    with pytest.raises(NotCanonical) as refusal:
        canonical.decode(text)
    assert refusal.value.offset == (2 if text.startswith(b"[-") else 1)


# ---- S04: integers -----------------------------------------------------------------------------------------------


def test_integers_beyond_64_bits_are_exact_both_ways():
    value = {
        "h": int(hashlib.sha256(b"x").hexdigest(), 16),
        "ns": 1758026593210770000,
        "id": 2**53 + 1,
        "least": -(2**63) - 1,
    }
    assert canonical.decode(canonical.encode(value)) == value


@pytest.mark.usefixtures("few_digits")
@pytest.mark.parametrize("value", [10**999 + 7, -(10**1000) + 1, 10**600, 10**500, 10**640 - 1])
def test_an_integer_of_1000_digits_is_exact_whatever_the_interpreter_allows(value):
    data = canonical.encode([value])
    assert canonical.decode(data) == [value]
    assert len(data) <= INTEGER_DIGITS_MAX + len("[-]")


def test_an_integer_with_more_digits_is_refused_by_path_and_by_offset():
    with pytest.raises(IntegerTooLong) as by_path:
        canonical.encode({"n": [1, 10**1000]})
    with pytest.raises(IntegerTooLong) as by_offset:
        canonical.decode(b'{"n":[1,' + b"9" * 5000 + b"]}")
    assert (by_path.value.path, by_offset.value.offset) == ("$.n[1]", 8)


def test_five_is_not_five_point_naught_is_not_the_text_five():
    assert canonical.decode(b'["5",5,5.5]') == ["5", 5, 5.5]
    assert type(canonical.decode(b"5.0")) is float
    assert type(canonical.decode(b"5")) is int


# ---- S05: other types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        (1, 2),
        {1},
        b"x",
        uuid.UUID(int=1),
        Word("x"),
        Colour.RED,
        Level.ONE,
        Mood.GOOD,
        OrderedDict(),
        object(),
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_a_value_that_is_not_exactly_json_is_refused_by_path(bad):
    with pytest.raises(NotEncodable) as refusal:
        canonical.encode({"arguments": {"items": [1, {"amount": bad}]}})
    assert refusal.value.path == "$.arguments.items[1].amount"


@pytest.mark.parametrize("name", [1, None, True, ("a",), Word("a"), b"a"])
def test_a_member_name_that_is_not_exactly_text_is_refused(name):
    with pytest.raises(NotEncodable) as refusal:
        canonical.encode({"a": {name: 1}})
    assert refusal.value.path == "$.a"


def test_an_error_never_repeats_the_value_or_an_odd_member_name():
    with pytest.raises(NotEncodable) as refusal:
        canonical.encode({"ada@shop.example": {"secret": float("nan"), "x": "hunter2"}})
    assert "ada" not in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.path == "$[a name of 16 characters].secret"


def test_a_long_path_is_shortened_in_the_middle():
    value: object = float("nan")
    for _ in range(60):
        value = {"a_member_with_a_long_name": value}
    with pytest.raises(NotEncodable) as refusal:
        canonical.encode(value)
    assert len(refusal.value.path) <= 200


# ---- S06: order and numbers --------------------------------------------------------------------------------------


def test_members_are_sorted_by_utf16_units_and_small_floats_written_as_ecmascript_does():
    data = canonical.encode({"\U00010000": 1, "\ue000": 2, "x": 1e-7})
    assert data == '{"x":1e-7,"\U00010000":1,"\ue000":2}'.encode()


def test_whole_floats_are_written_without_fraction():
    assert canonical.encode([1.0, -0.0, 1e21, 1e20]) == b"[1,0,1e+21,100000000000000000000]"


# ---- X3: nesting -------------------------------------------------------------------------------------------------


def test_nesting_up_to_the_limit_goes_both_ways():
    data = canonical.encode(nested(NESTING_MAX))
    assert canonical.decode(data) == nested(NESTING_MAX)


@pytest.mark.parametrize("innermost", [0, "text", 1.5])
def test_a_scalar_inside_the_deepest_list_is_no_deeper(innermost):
    value = innermost
    for _ in range(NESTING_MAX):
        value = [value]
    assert canonical.decode(canonical.encode(value)) == value


def test_nesting_beyond_the_limit_is_refused_by_path():
    with pytest.raises(TooDeep) as refusal:
        canonical.encode({"a": nested(NESTING_MAX)})
    assert refusal.value.path.startswith("$.a[0][0]")


@pytest.mark.parametrize("text", [b"[" * 3000, b"[" * 65 + b"]" * 65, b'{"a":' * 3000, b"[" * 1_000_000])
def test_deeply_nested_text_is_refused_before_it_is_read(text):
    with pytest.raises(TooDeep) as refusal:
        canonical.decode(text)
    assert refusal.value.offset == NESTING_MAX * (5 if text.startswith(b"{") else 1)


def test_deep_nesting_after_a_surrogate_is_refused_too():
    with pytest.raises(TooDeep):
        canonical.decode(b'["\\ud800",' + b"[" * 3000)


def test_brackets_inside_text_are_not_nesting():
    value = ["[" * 3000, '{"' * 3000]
    assert canonical.decode(canonical.encode(value)) == value


def test_a_list_that_holds_itself_is_refused():
    value: list = []
    value += [value, value]
    with pytest.raises((TooDeep, NotEncodable)):
        canonical.encode(value)


def test_a_value_shared_exponentially_often_is_refused_quickly():
    value: list = ["x"]
    for _ in range(50):
        value = [value, value]
    with pytest.raises(NotEncodable) as refusal:
        canonical.encode(value)
    assert "inside one another" in refusal.value.message


# ---- reading -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, offset",
    [
        (b'{"a":1,"b":{"c":1,"c":2}}', 18),
        ('{"\u00e9":{"a":1,"a":2}}'.encode(), 13),
        (b'{"a":1,"\\u0061":2}', 7),
        (b'[{"a":"\\ud800","b":[{"x":1,"x":1}]}]', 27),
    ],
)
def test_the_second_of_two_equal_names_is_named_by_byte_offset(text, offset):
    with pytest.raises(DuplicateMember) as refusal:
        canonical.decode(text)
    assert refusal.value.offset == offset


def test_the_same_name_in_two_objects_is_no_duplicate():
    assert canonical.decode(b'[{"a":1},{"a":{"a":2}}]') == [{"a": 1}, {"a": {"a": 2}}]


@pytest.mark.parametrize(
    "text, offset", [(b"", 0), (b"[1,x]", 3), (b'{"a" 1}', 5), ('["\u20ac" 1]'.encode(), 7), (b"[1] x", 4)]
)
def test_what_is_no_json_is_refused_at_its_byte_offset(text, offset):
    with pytest.raises(NotCanonical) as refusal:
        canonical.decode(text)
    assert refusal.value.offset == offset


def test_what_is_no_utf8_is_refused_at_its_byte_offset():
    with pytest.raises(NotCanonical) as refusal:
        canonical.decode(b'["ab\xff"]')
    assert refusal.value.offset == 4


# ---- signed records ----------------------------------------------------------------------------------------------


def test_a_signed_record_is_read_back_as_written():
    members = {"b": [1, 2], "a": {"c": "text", "d": True}}
    data = canonical.encode_header(members)
    assert data == b'{"a":{"c":"text","d":true},"b":[1,2]}'
    assert canonical.parse_header(data) == members


@pytest.mark.parametrize(
    "bad, path",
    [
        (1.5, "$.m"),
        (float("nan"), "$.m"),
        (2**53, "$.m"),
        (-(2**53), "$.m"),
        ("\u00e9", "$.m"),
        ("a\x7f", "$.m"),
        ("a\nb", "$.m"),
        ('say "x"', "$.m"),
        ("back\\slash", "$.m"),
        ([0, ["\u00e9"]], "$.m[1][0]"),
        ({"k": [1.0]}, "$.m.k[0]"),
        ("\ud800", "$.m"),
        (b"x", "$.m"),
    ],
)
def test_what_a_signed_record_cannot_hold_is_refused_by_path(bad, path):
    with pytest.raises(NotEncodable) as refusal:
        canonical.encode_header({"a": 1, "m": bad})
    assert refusal.value.path == path


def test_integers_of_a_signed_record_reach_2_to_the_53_minus_1():
    data = canonical.encode_header({"n": [2**53 - 1, -(2**53) + 1]})
    assert canonical.parse_header(data) == {"n": [2**53 - 1, -(2**53) + 1]}


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": 1}',
        b'{"a":1}\n',
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1.0}',
        b'{"a":1.5}',
        b'{"a":-0}',
        b'{"a":1e2}',
        b'{"a":"\\u0062"}',
        b'{"a":"\\n"}',
        b'{"a":"\xc3\xa9"}',
        b'{"a":"\x7f"}',
        b'{"a":9007199254740992}',
        b'{"a":99999999999999999999}',
        b'["a"]',
        b'"a"',
        b"{",
        b"",
        b'{"a":NaN}',
        b"\xff",
        b"[" * 3000,
    ],
)
def test_a_signed_record_in_any_other_spelling_is_refused(text):
    with pytest.raises((NotCanonical, TooDeep)):
        canonical.parse_header(text)
