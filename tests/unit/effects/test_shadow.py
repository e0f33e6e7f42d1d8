"""A policy in shadow: judged and recorded, nothing refused; and what it would have done, counted (DESIGN 7)."""

from __future__ import annotations

import pytest

from counterfoil.errors import PolicyDenied, PolicyFailed
from counterfoil.policy import RuleList, deny, shadow
from tests.approving import Shop, policy


@pytest.fixture
def shop(ledger):
    return Shop(ledger, shadow(policy()))


def rulings(ledger):
    return [
        (event.data["outcome"], event.data.get("enforced"))
        for event in ledger.events("case", types={"policy.evaluated"})
    ]


def test_what_would_be_denied_asked_about_or_changed_is_made_as_it_was_asked_for(ledger, shop):
    for order, amount in (("a", 2000), ("b", 80), ("c", 40), ("d", 10)):
        shop.serve(amount, order)
    assert [dict(entry.what)["amount"] for entry in shop.provider.book] == [2000, 80, 40, 10]
    assert rulings(ledger) == [("deny", False), ("ask", False), ("constrain", False), ("allow", False)]
    assert ledger.approvals(None) == []


def test_the_ruling_stands_in_the_append_of_the_intention(ledger, shop):
    shop.serve(2000)
    assert shop.types() == ["decision.proposed", "policy.evaluated", "effect.intended", "effect.observed"]


def test_an_enforced_ruling_says_nothing_of_it(ledger):
    shop = Shop(ledger, policy())
    with pytest.raises(PolicyDenied):
        shop.serve(2000)
    assert rulings(ledger) == [("deny", None)]


def test_a_run_that_resumes_is_not_refused_by_what_was_ruled_in_shadow(world, ledger, shop):
    shop.serve(2000)
    assert shop.serve(2000)
    assert shop.provider.booked() == 1


def test_a_policy_that_fails_in_shadow_hinders_nobody_and_is_named(ledger):
    broken = RuleList("broken", revision="1", otherwise="allow", rules=[deny("x", when=lambda call: 1 / 0)])
    shop = Shop(ledger, shadow(broken))
    shop.serve(10)
    (ruled,) = ledger.events("case", types={"policy.evaluated"})
    assert (ruled.data["outcome"], ruled.data["rules"]) == ("deny", ["policy-failed"])
    assert "ZeroDivisionError" in ruled.content["reasons"][0]
    with pytest.raises(PolicyFailed):
        serve_with(shop, broken)


def serve_with(shop, rules):
    shop.use(shop.ledger, rules)
    return shop.serve(10, "other")


def test_putting_the_same_revision_into_force_judges_anew(ledger, shop):
    with ledger.run("agent", conversation="case", message="m", dedupe="m") as run:
        shop.refund("a", 10)
        run.finish("done")
    shop.use(ledger, policy())
    with pytest.raises(PolicyDenied):
        shop.serve(2000, "b")


def test_asking_ahead_asks_nobody_in_shadow(ledger, shop):
    with ledger.run("agent", conversation="case", message="m", dedupe="m") as run:
        assert run.propose(shop.refund, "a", 80) is None
        shop.refund("a", 80)
        run.finish("done")
    assert ledger.approvals(None) == []
    assert shop.provider.booked() == 1


def test_calls_are_counted_by_what_would_have_become_of_them(ledger, shop):
    for number in range(3):
        shop.serve(2000, f"big-{number}")
    shop.serve(80, "large")
    shop.serve(10, "small")
    told = [(line.outcome, line.rules, line.tool, line.calls, line.made) for line in ledger.shadowed()]
    assert told == [
        ("deny", ("too-much",), "shop.refund", 3, 3),
        ("ask", ("large",), "shop.refund", 1, 1),
        ("allow", ("by-default",), "shop.refund", 1, 1),
    ]
    assert ledger.shadowed("limits", "1") == ledger.shadowed()
    assert ledger.shadowed("limits", "2") == ledger.shadowed("others") == []


def test_the_counts_come_from_rows_that_can_be_made_again(ledger, shop):
    shop.serve(2000)
    before = ledger.shadowed()
    ledger.rebuild()
    assert ledger.shadowed() == before
