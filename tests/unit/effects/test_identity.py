"""The digests of FORMAT 8, against the vector of FORMAT 21 and against what must and must not be the same."""

from __future__ import annotations

from decimal import Decimal

import pytest

from counterfoil.core.keyed import KeyMaterial, index_value
from counterfoil.core.values import to_json
from counterfoil.effects.identity import binding, business_identity, run_identity

INDEX_KEY = bytes(range(0x20, 0x40))
RUN = "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR"


def index(purpose, text):
    return index_value(INDEX_KEY, purpose, "default", text)


def arguments_of(**values):
    return business_identity(index, "k", to_json(values)).arguments_index


def test_the_binding_is_that_of_the_format():
    material = KeyMaterial(
        "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS", bytes(range(32))
    )
    arguments = to_json({"order": "O-1042", "line": 1, "amount": Decimal("40.00")})
    made = binding(material, "eff_01J9ZC3Y3V7W2R5T8QK4M6N0PF", "payment.refund", "2026-08-01", arguments)
    assert made == "534af66406c88c631e02f85168734bf75ebff57531d917c2c00f5ac5fabb3bab"


def test_the_key_index_is_that_of_the_format():
    made = business_identity(index, "refund:O-1042:1", {}).key_index
    assert made == "cfc7bf922f61395361060ed1e04be599050160861dd33f2dc66c8e6e4fb71121"


@pytest.mark.parametrize("one,other", [(40, 40.0), (0.5, 0.50), ({"a": [1.0]}, {"a": [1]})])
def test_numbers_that_are_equal_are_the_same_arguments(one, other):
    assert arguments_of(amount=one) == arguments_of(amount=other)


@pytest.mark.parametrize(
    "one,other",
    [
        ("40", 40),
        (Decimal(40), 40),
        (Decimal("40.0"), Decimal("40.00")),
        (Decimal("4E+1"), Decimal(40)),
        (True, 1),
        (None, "null"),
        ([1], (1,)),
        ({"$float": "1.0"}, 1.0),
        ("$float", 1.0),
    ],
)
def test_values_that_only_look_alike_are_other_arguments(one, other):
    assert arguments_of(amount=one) != arguments_of(amount=other)


def test_a_run_identity_is_made_of_run_tool_and_arguments():
    same = run_identity(index, RUN, "pay", {"order": "o-1"})
    others = [
        run_identity(index, RUN[:-1] + "Q", "pay", {"order": "o-1"}),
        run_identity(index, RUN, "refund", {"order": "o-1"}),
        run_identity(index, RUN, "pay", {"order": "o-2"}),
        run_identity(index, RUN, "pay", {"order": "o-1"}, ("", 1)),
        run_identity(index, RUN, "pay", {"order": "o-1"}, ("plan#1", 1)),
    ]
    assert run_identity(index, RUN, "pay", {"order": "o-1"}) == same
    assert len({identity.key_index for identity in [same, *others]}) == 1 + len(others)


def test_half_a_surrogate_pair_can_be_told_apart():
    assert arguments_of(text="\ud99c") != arguments_of(text="\ud99d")
