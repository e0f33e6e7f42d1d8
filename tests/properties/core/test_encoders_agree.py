"""The quick encoder against the exact one and against `rfc8785`, on exactly the values where they could differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import assume, example, given
from hypothesis import strategies as st

from counterfoil.core import canonical
from counterfoil.core.guard import is_plain, same_order
from counterfoil.core.numerals import float_text, integer_text, integer_value
from counterfoil.core.refusals import check_encodable
from counterfoil.core.strict import decode_strictly
from counterfoil.errors import InputError, NotEncodable

# Floats where orjson and ECMAScript differ or nearly do: whole, minus zero, tiny, huge, and the edges of each form.
_edges = [
    edge * factor
    for edge in (
        0.0,
        1.0,
        1e-4,
        1e-5,
        1e-6,
        1e-7,
        1e15,
        1e16,
        1e17,
        1e20,
        1e21,
        1e22,
        2.0**53,
        2.0**63,
        2.0**64,
    )
    for factor in (1, -1)
]
edge_floats = st.sampled_from(_edges).flatmap(
    lambda edge: st.sampled_from([edge, math.nextafter(edge, math.inf), math.nextafter(edge, -math.inf)])
)
whole_floats = st.integers(-(2**70), 2**70).map(float)
powers = st.builds(lambda m, e: float(f"{m}e{e}"), st.integers(1, 10**17), st.integers(-330, 290)).filter(
    math.isfinite
)
floats = st.one_of(st.floats(allow_nan=False, allow_infinity=False), edge_floats, whole_floats, powers)
bad_floats = st.sampled_from([math.nan, math.inf, -math.inf])

# Integers around 2^53, 64 bits and the interpreter's own conversion limits.
integers = st.one_of(
    st.integers(-(2**53), 2**53),
    st.sampled_from(
        [2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**600, 10**999]
    ),
    st.integers(-(10**40), 10**40),
)

# Letters on both sides of the surrogates, beyond U+FFFF, control characters, and halves of pairs.
letters = st.sampled_from(
    'ab"\\/\x00\x1f\x7f\u00e9\u2028\u20ac\ud7ff\ue000\uf8ff\uffff\U00010000\U0001f600\U0010ffff'
)
halves = st.sampled_from("\ud800\ud99c\udbff\udc00\udfff")
texts = st.text(st.one_of(letters, st.characters(exclude_categories=["Cs"])), max_size=8)
broken_texts = st.text(st.one_of(letters, halves), max_size=6)


def values(scalars: st.SearchStrategy[Any], names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(names, inner, max_size=5)),
        max_leaves=20,
    )


plain_scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), floats, texts)
all_scalars = st.one_of(plain_scalars, integers, broken_texts, bad_floats)


@given(values(plain_scalars, texts))
def test_both_encoders_agree_with_rfc8785(value):
    data = canonical.encode(value)
    assert data == canonical.encode_exactly(value)
    assert data == rfc8785.dumps(value)


@given(st.dictionaries(texts, st.none(), min_size=2, max_size=8))
@example({"\U00010000": None, "\ue000": None})
@example({"\uffff": None, "\U0010ffff": None, "\ud7ff": None, "": None})
def test_member_order_is_that_of_utf16_units(value):
    assert canonical.encode(value) == rfc8785.dumps(value)


@given(floats)
def test_a_float_has_the_text_of_ecmascript(value):
    assert float_text(value).encode() == rfc8785.dumps(value)
    assert canonical.encode([value]) == rfc8785.dumps([value])


def outcome(call: Callable[[Any], Any], given: Any) -> object:
    """What a call gives, or the refusal with its fields."""
    try:
        return repr(call(given))
    except InputError as refusal:
        return type(refusal), refusal.fields


@given(values(all_scalars, st.one_of(texts, broken_texts)))
def test_both_encoders_agree_on_everything_else_and_refuse_the_same(value):
    assert outcome(canonical.encode, value) == outcome(canonical.encode_exactly, value)


@given(values(all_scalars, st.one_of(texts, broken_texts)))
def test_what_is_written_is_read_back_and_written_the_same_again(value):
    try:
        data = canonical.encode(value)
    except InputError:
        assume(False)
    again = canonical.decode(data)
    assert canonical.encode(again) == data
    check_encodable(again)


@given(values(all_scalars, st.one_of(texts, broken_texts)))
def test_the_guard_lets_nothing_through_that_has_no_form_or_another(value):
    if not is_plain(value):
        return
    try:
        quick = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return
    if same_order(value, quick):
        assert quick == canonical.encode_exactly(value)


@given(st.one_of(st.integers(-(10**1000) + 1, 10**1000 - 1), integers))
def test_an_integer_is_exact_both_ways(value):
    assert integer_value(integer_text(value)) == value
    assert canonical.decode(canonical.encode([value])) == [value]


class _Text(str):
    __slots__ = ()


class _Count(int):
    __slots__ = ()


class _List(list):
    __slots__ = ()


strangers = st.one_of(
    st.builds(tuple, st.lists(st.integers(), max_size=2)),
    st.builds(_Text, st.text(max_size=2)),
    st.builds(_Count, st.integers(0, 9)),
    st.builds(_List),
    st.binary(max_size=2),
    st.uuids(),
    st.dates(),
    st.decimals(allow_nan=False),
    st.dictionaries(
        st.one_of(st.integers(), st.none(), st.builds(_Text, st.text(max_size=2))), st.none(), min_size=1
    ),
)


@given(values(st.one_of(plain_scalars, strangers), texts), strangers)
def test_nothing_but_exact_json_types_has_a_form(value, stranger):
    for encode in (canonical.encode, canonical.encode_exactly):
        with pytest.raises(NotEncodable):
            encode({"a": [value, stranger]})


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_refusal_at_an_offset(data):
    found = outcome(canonical.decode, data)
    if isinstance(found, tuple):
        assert 0 <= found[1]["offset"] <= len(data)
    else:
        check_encodable(canonical.decode(data))


json_like = st.text(st.sampled_from('[]{}",:0123456789.-+eEtruefalsn \\ud8\u20ac'), max_size=40)


@given(json_like)
def test_json_like_text_is_read_alike_by_both_readers_or_refused_alike(text):
    assert outcome(canonical.decode, text.encode()) == outcome(decode_strictly, text.encode())
