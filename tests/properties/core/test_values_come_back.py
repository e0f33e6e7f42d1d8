"""Python values through their tagged form, stored bytes and back."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from counterfoil.core import canonical
from counterfoil.core.values import comparable, from_json, to_json

surrogates = st.characters(categories=["Cs"])
texts = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("$\x00\ud99c")), max_size=6
).filter(lambda text: canonical.join_surrogates(text) == text)
zones = st.integers(-1439, 1439).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.binary(max_size=8),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.times(),
    st.datetimes(timezones=zones),
    st.uuids(),
)
hashables = st.recursive(
    scalars,
    lambda inner: st.one_of(st.frozensets(inner, max_size=3), st.lists(inner, max_size=3).map(tuple)),
    max_leaves=4,
)
names = st.one_of(texts, st.sampled_from(["$float", "$decimal", "$type", "$literal", "$", "value"]))
values = st.recursive(
    hashables,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(names, inner, max_size=3),
        st.dictionaries(hashables, inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.sets(hashables, max_size=3),
    ),
    max_leaves=12,
)


def shape(value: object) -> object:
    """The value with every type told, since 1, 1.0 and True are equal in Python."""
    if isinstance(value, float):
        return "float", value, math.copysign(1, value)
    if isinstance(value, Decimal):
        return "Decimal", str(value)
    if isinstance(value, datetime.datetime | datetime.time):
        return type(value).__name__, value.isoformat()
    if isinstance(value, list | tuple):
        return type(value).__name__, [shape(item) for item in value]
    if isinstance(value, set | frozenset):
        return "set", sorted(repr(shape(item)) for item in value)
    if isinstance(value, dict):
        return "dict", sorted(repr((shape(name), shape(item))) for name, item in value.items())
    return type(value).__name__, value


@given(values)
def test_a_value_comes_back_as_what_it_was(value):
    stored = canonical.encode(to_json(value))
    assert shape(from_json(canonical.decode(stored))) == shape(value)


@given(values)
def test_the_form_is_json_and_always_the_same(value):
    assert canonical.encode(to_json(value)) == canonical.encode_exactly(to_json(value))


@given(st.dictionaries(names, st.one_of(st.integers(), texts), max_size=4))
def test_data_from_outside_never_imitates_a_tag(value):
    assert from_json(to_json(value)) == value


@given(st.integers(-(2**53), 2**53))
def test_a_whole_float_compares_as_the_integer_it_is(number):
    one, other = (canonical.encode(comparable(to_json({"n": value}))) for value in (number, float(number)))
    assert one == other
