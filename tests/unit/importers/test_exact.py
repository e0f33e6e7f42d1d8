from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.core import canonical, values
from counterfoil.importers.exact import Number, from_content, money, money_text, to_content, whole

numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True).map(
    Number
)
foreign = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | numbers,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["a", "$type", "value", "$decimal", "$literal", "$part", ""]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(foreign)
def test_what_became_content_comes_back_exactly(value):
    assert from_content(canonical.decode(canonical.encode(to_content(value)))) == value


@given(foreign)
def test_every_reader_of_content_can_decode_it(value):
    values.from_json(to_content(value))


@pytest.mark.parametrize(
    "text, content",
    [
        ("0.5", 0.5),
        ("2.5e-7", 2.5e-7),
        ("40.0", {"$float": "40.0"}),
        ("0.10", {"$decimal": "0.10"}),
        ("42.595907499999999555", {"$decimal": "42.595907499999999555"}),
        ("1E5", {"$type": "counterfoil.number", "value": "1E5"}),
    ],
)
def test_a_number_takes_the_plainest_form_that_keeps_its_text(text, content):
    assert to_content(Number(text)) == content


def test_an_object_that_imitates_a_tag_is_literal():
    assert to_content({"$decimal": "1"}) == {"$literal": {"$decimal": "1"}}


def test_an_integer_is_an_amount_of_money():
    assert money(0) == 0


@pytest.mark.parametrize("value", [None, True, "1.00", 10**41, Number("1e999999999"), Number("1e-60"), [1]])
def test_what_has_no_decimal_text_is_no_money(value):
    assert money(value) is None


def test_money_is_read_digit_by_digit():
    amount = money(Number("0.0035250000000000004"))
    assert amount == Decimal("0.0035250000000000004")


def test_money_is_written_without_exponent():
    amount = money(Number("5e-7"))
    assert amount is not None
    assert money_text(amount) == "0.0000005"


@pytest.mark.parametrize("value", [-1, 2**53, True, "3", None, Number("3.0")])
def test_what_is_no_count_is_none(value):
    assert whole(value, 2**53 - 1) is None


def test_a_count_is_itself():
    assert whole(7, 10) == 7
