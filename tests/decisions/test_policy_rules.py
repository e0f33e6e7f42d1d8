"""A list of rules: which one decides, and what it says (DESIGN 7)."""

from __future__ import annotations

from functools import partial

import pytest

from counterfoil.abc.policy import Proposal
from counterfoil.errors import InvalidForm
from counterfoil.policy import Rule, RuleList, allow, ask, constrain, deny

RULES = [
    deny("closed", tool="books.*", reason="the books are closed"),
    ask("large", touches={"money"}, when=lambda call: call.arguments["amount"] > 50, needed=2),
    constrain(
        "capped", tool="pay", when=lambda call: call.arguments["amount"] > 20, to=lambda call: {"amount": 20}
    ),
    allow("small", touches={"money", "access"}),
]


def proposal(tool="pay", touches=("money",), amount=1):
    return Proposal(tool, "1", touches, {"amount": amount}, "agent", "default", "str", "run", "eff", 0)


CASES = [
    (proposal("books.post", amount=99), "deny", "closed"),
    (proposal(amount=51), "ask", "large"),
    (proposal(amount=50), "constrain", "capped"),
    (proposal(amount=20), "allow", "small"),
    (proposal("mail", ("messages",), 99), "deny", "by-default"),
    (proposal("look", (), 0), "deny", "by-default"),
    (proposal("grant", ("access", "data"), 0), "allow", "small"),
]


@pytest.mark.parametrize("call,outcome,rule", CASES)
def test_the_first_rule_that_fits_decides(call, outcome, rule):
    ruling = RuleList("p", revision="1", rules=RULES, otherwise="deny").evaluate(call)
    assert (ruling.outcome, ruling.rules) == (outcome, (rule,))


def test_a_ruling_carries_what_the_rule_was_given():
    rules = RuleList("p", revision="1", rules=RULES, otherwise="deny")
    assert rules.evaluate(proposal("books.post")).reasons == ("the books are closed",)
    assert rules.evaluate(proposal(amount=60)).asking.needed == 2
    assert rules.evaluate(proposal(amount=30)).arguments == {"amount": 20}


def test_the_snapshot_names_every_rule_in_order_and_the_default():
    shown = RuleList("p", revision="1", rules=RULES, otherwise="allow").snapshot()["rules"]
    assert [rule["rule"] for rule in shown] == ["closed", "large", "capped", "small", "by-default"]
    assert [rule["outcome"] for rule in shown] == ["deny", "ask", "constrain", "allow", "allow"]


WRONG = {
    "a name with a space": {"name": "my policy"},
    "a revision that is no label": {"revision": "v 1"},
    "a rule twice": {"rules": [allow("a"), deny("a")]},
    "a rule with the default's name": {"rules": [allow("by-default")]},
    "a default that is none": {"otherwise": "constrain"},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_list_is_refused(case):
    settings = {"name": "p", "revision": "1", "rules": [], "otherwise": "deny"} | WRONG[case]
    with pytest.raises(InvalidForm):
        RuleList(settings.pop("name"), **settings)


WRONG_LABELS = {
    "touches as one text": {"touches": "messages"},
    "touches with a label that no tool has": {"touches": {"mesages"}},
    "touches that are no texts": {"touches": [1]},
    "touches that are no collection": {"touches": 1},
}


@pytest.mark.parametrize(
    "made", [allow, deny, partial(constrain, to=dict), ask, partial(Rule, outcome="deny")]
)
@pytest.mark.parametrize("wrong", WRONG_LABELS.values(), ids=WRONG_LABELS.keys())
def test_a_rule_that_would_silently_fit_no_tool_is_refused_when_it_is_made(made, wrong):
    with pytest.raises(InvalidForm) as refused:
        made("r", **wrong)
    assert refused.value.fields["argument"] == "touches"


def test_one_assignee_given_as_a_text_is_refused_when_the_rule_is_made():
    with pytest.raises(InvalidForm, match="assignees takes several names"):
        ask("r", assignees="Ines")
