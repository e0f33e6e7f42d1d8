"""Policies in Cedar: permitted, permitted with an approval, forbidden; and what Cedar cannot be shown."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from counterfoil.abc.policy import Asking, Proposal
from counterfoil.errors import ConfigInvalid, InvalidForm
from counterfoil.policy.cedar import CedarPolicy, cedar_value

POLICIES = """
@id("small")
permit (principal, action == Action::"pay", resource)
when { context.arguments.amount.lessThanOrEqual(decimal("50.0")) };

@id("large")
permit (principal == Agent::"desk", action == Action::"pay", resource)
when { context.approved && context.touches.contains("money") };

@id("frozen")
forbid (principal, action, resource)
when { context.arguments has order && context.arguments.order == "O-0" };
"""


def proposal(amount="1.00", agent="desk", tool="pay", **more):
    arguments = {"amount": Decimal(amount)} | more
    return Proposal(tool, "1", ("money",), arguments, agent, "default", "str", "run", "eff", 0)


CASES = [
    (proposal(), "allow", ("small",)),
    (proposal("50.00"), "allow", ("small",)),
    (proposal("50.01"), "ask", ("large",)),
    (proposal("50.01", agent="other"), "deny", ()),
    (proposal(order="O-0"), "deny", ("frozen",)),
    (proposal("60", order="O-0"), "deny", ("frozen",)),
    (proposal(tool="mail"), "deny", ()),
]


@pytest.mark.parametrize("call,outcome,rules", CASES)
def test_what_cedar_permits_is_allowed_and_what_it_permits_with_an_approval_is_asked(call, outcome, rules):
    ruling = CedarPolicy("shop", POLICIES, asking=Asking(needed=2)).evaluate(call)
    assert (ruling.outcome, ruling.rules) == (outcome, rules)
    assert (ruling.asking.needed == 2) == (outcome == "ask")


def test_an_error_while_evaluating_is_no_ruling():
    failing = "forbid (principal, action, resource) when { context.arguments.limit > 1 };"
    with pytest.raises(InvalidForm, match="limit"):
        CedarPolicy("shop", POLICIES + failing).evaluate(proposal())


def test_policies_that_do_not_parse_are_refused_when_the_policy_is_made():
    with pytest.raises(ConfigInvalid):
        CedarPolicy("shop", "permit (((")


def test_the_revision_follows_from_the_policies_and_entities():
    one = CedarPolicy("shop", POLICIES)
    assert one.revision == CedarPolicy("shop", POLICIES).revision
    entities = [{"uid": {"type": "Agent", "id": "desk"}, "attrs": {}, "parents": []}]
    others = {
        CedarPolicy("shop", POLICIES + "// more").revision,
        CedarPolicy("shop", POLICIES, entities=entities).revision,
    }
    assert len(others | {one.revision}) == 3
    assert CedarPolicy("shop", POLICIES, revision="2").revision == "2"
    assert one.snapshot()["policies"] == POLICIES


FORMS = {
    "text": ("a", "a"),
    "a number": (3, 3),
    "a truth": (True, True),
    "money": (Decimal(40), {"__extn": {"fn": "decimal", "arg": "40.0"}}),
    "a float": (0.5, {"__extn": {"fn": "decimal", "arg": "0.5"}}),
    "a list": ((1, "b"), [1, "b"]),
    "a record without what is none": ({"a": None, "b": {"c": 1}}, {"b": {"c": 1}}),
    "a time": (
        datetime(2026, 9, 1, tzinfo=UTC),
        {"__extn": {"fn": "datetime", "arg": "2026-09-01T00:00:00.000Z"}},
    ),
}


@pytest.mark.parametrize("case", FORMS)
def test_a_value_in_cedars_form(case):
    value, form = FORMS[case]
    assert cedar_value(value) == form


@pytest.mark.parametrize("value", [b"x", 2**63, 0.12345, float("nan"), object(), datetime(2026, 9, 1)])
def test_what_cedar_has_no_form_for_is_refused_with_its_path(value):
    with pytest.raises(InvalidForm, match=r"arguments.*x"):
        cedar_value({"x": [value]})


def test_a_time_reaches_cedar_as_a_time():
    late = 'permit (principal, action, resource) when { context.arguments.at > datetime("2026-01-01") };'
    call = proposal(at=datetime(2026, 9, 1, tzinfo=UTC))
    assert CedarPolicy("shop", late).evaluate(call).outcome == "allow"


def test_without_cedarpy_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cedarpy", None)
    with pytest.raises(ConfigInvalid) as missing:
        CedarPolicy("shop", POLICIES)
    assert "counterfoil[cedar]" in str(missing.value)
