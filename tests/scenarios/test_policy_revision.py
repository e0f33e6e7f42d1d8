"""Failure mode: the policy changes while a run waits. What was permitted under the old revision is judged anew.

Around it, policies over time: denied and recorded, constrained and shown.
"""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil import PolicyDenied, RunWaiting
from counterfoil.effects.registry import own_tools
from counterfoil.errors import PolicyFailed, StoreBusy
from counterfoil.policy import RuleList, Ruling, allow, constrain, deny
from counterfoil.testing.crash import World
from counterfoil.testing.truth import check_truth
from tests.approving import Shop, policy

# ---- the revision changed between the grant and its use, on every engine -------------------------------------------


@pytest.fixture
def granted(stage):
    """A refund of 80 that a person has permitted under revision 1, and has not been sent."""
    stage.policy = policy(expires_s=86_400)
    refund = stage.refund()

    def resume():
        return stage.play(large(stage, refund))

    with pytest.raises(RunWaiting):
        resume()
    ledger = stage.open()
    (row,) = ledger.approvals()
    ledger.approve(str(row["approval_id"]), by="Ines")
    return resume


async def large(stage, refund):
    async with stage.run(stage.open()) as run:
        run.finish((await stage.call(refund, "O-1042", 80))["id"])
    return run.output


def approval_states(stage):
    return [row["state"] for row in stage.open().approvals(None)]


def test_the_stream_shows_the_grant_and_the_new_ruling_that_overtook_it(stage, granted):
    stage.policy = RuleList("limits", revision="2", rules=[], otherwise="deny")
    with pytest.raises(PolicyDenied):
        granted()
    assert stage.stream("outcome", "revision") == [
        ("decision.proposed", None, None),
        ("policy.evaluated", "ask", "1"),
        ("approval.requested", None, None),
        ("approval.granted", None, None),
        ("policy.evaluated", "deny", "2"),
        ("approval.expired", None, None),
    ]
    assert stage.provider.requests == []


def test_the_rows_show_a_grant_that_was_never_used_and_no_effect(stage, granted):
    stage.policy = RuleList("limits", revision="2", rules=[], otherwise="deny")
    with pytest.raises(PolicyDenied):
        granted()
    assert (stage.effects(), stage.runs()) == ([], [("finished", "policy_stop")])
    assert approval_states(stage) == ["expired"]


def test_a_revision_that_still_asks_lets_the_grant_be_used_once(stage, granted):
    stage.policy = policy("2", expires_s=86_400)
    assert [granted(), granted()] == ["re_1", "re_1"]
    assert [ruling for ruling in stage.stream("revision") if ruling[0] == "policy.evaluated"] == [
        ("policy.evaluated", "1"),
        ("policy.evaluated", "2"),
    ]
    assert (approval_states(stage), stage.effects()) == (["consumed"], ["succeeded"])
    assert stage.provider.requests == ["refund:O-1042"]


# ---- policies over time ----------------------------------------------------------------------------------------------


@pytest.fixture
def shop():
    with own_tools():
        world = World()
        shop = Shop(world.open())
        yield shop
        check_truth(shop.ledger)
        world.close()


def rulings(shop):
    events = shop.ledger.events("case", types=["policy.evaluated"])
    return [(event.data["outcome"], event.data["revision"], *event.data["rules"]) for event in events]


def test_what_is_denied_is_recorded_and_the_tool_is_never_called(shop):
    with pytest.raises(PolicyDenied, match="above every limit") as denied:
        shop.serve(2000)
    assert shop.types() == ["decision.proposed", "policy.evaluated"]
    assert rulings(shop) == [("deny", "1", "too-much")]
    assert (denied.value.rules, denied.value.revision) == (["too-much"], "1")
    assert shop.provider.requests == []
    assert shop.ledger.effects() == []
    assert shop.ledger.runs()[0]["terminal"] == "policy_stop"


def test_a_denial_is_handed_out_again_on_resume_and_recorded_once(shop):
    for _ in range(2):
        with (
            pytest.raises(StoreBusy),
            shop.ledger.run("agent", conversation="case", message="m", dedupe="m"),
        ):
            with pytest.raises(PolicyDenied, match="above every limit"):
                shop.refund("o-1", 2000)
            assert shop.refund("o-1", 10)["amount"] == 10
            raise StoreBusy("the run stays open")
    assert rulings(shop) == [("deny", "1", "too-much"), ("allow", "1", "by-default")]
    assert shop.types().count("effect.repeated") == 0
    assert shop.provider.booked() == 1


def test_what_is_constrained_is_sent_with_the_new_arguments_and_shown_to_the_caller(shop):
    for _ in range(2):
        with shop.ledger.run("agent", conversation="case", message="m", dedupe="m") as run:
            assert shop.refund("o-1", 40)["amount"] == 20
            (shown,) = run.constrained
    assert (shown.proposed["amount"], shown.allowed["amount"], shown.rules) == (40, 20, ("capped",))
    proposed, evaluated, intended = (event for event in shop.ledger.events("case") if "binding" in event.data)
    assert proposed.data["binding"] != evaluated.data["binding"] == intended.data["binding"]
    assert intended.content["arguments"]["amount"] == 20
    assert intended.content["proposed"]["amount"] == 40
    assert shop.provider.booked() == 1


def test_the_same_call_in_another_run_is_the_constrained_effect_too(shop):
    shop.serve(40, dedupe="a", message="a")
    assert shop.serve(40, dedupe="b", message="b")["amount"] == 20
    assert shop.types()[-1] == "effect.repeated"
    assert shop.provider.booked() == 1


def test_doubt_about_a_constrained_call_is_ended_with_what_was_sent(shop):
    shop.provider.plan("answer_lost")
    assert shop.serve(40)["amount"] == 20
    assert [dict(entry.what)["amount"] for entry in shop.provider.book] == [20]


STRICTER = [
    ([deny("frozen", reason="nothing goes out today")], PolicyDenied, ["ask", "deny"]),
    ([constrain("capped", to=lambda call: {**call.arguments, "amount": 20})], 20, ["ask", "constrain"]),
    ([allow("anything")], 80, ["ask", "allow"]),
]


@pytest.mark.parametrize("rules,then,outcomes", STRICTER, ids=["deny", "constrain", "allow"])
def test_a_revision_that_changed_while_people_were_asked_is_asked_before_the_grant_is_used(
    shop, rules, then, outcomes
):
    shop.ledger.approve(shop.waits(), by="Ines")
    shop.use(shop.ledger, RuleList("limits", revision="2", rules=rules, otherwise="deny"))
    if then is PolicyDenied:
        with pytest.raises(PolicyDenied):
            shop.serve()
        assert shop.provider.requests == []
    else:
        assert shop.serve()["amount"] == then
    assert [ruling[0] for ruling in rulings(shop)] == outcomes
    assert ("approval.consumed" in shop.types()) == (then == 80)


def test_the_same_revision_is_not_asked_again(shop):
    shop.ledger.approve(shop.waits(), by="Ines")
    shop.serve()
    assert rulings(shop) == [("ask", "1", "large")]


def test_another_attempt_under_a_changed_revision_is_judged_anew(shop):
    shop.provider.plan("not_done")
    with pytest.raises(StoreBusy), shop.ledger.run("agent", conversation="case", message="m", dedupe="m"):
        with pytest.raises(counterfoil.NotDone):
            shop.refund("o-1", 10)
        raise StoreBusy("the run stays open")
    shop.use(shop.ledger, RuleList("limits", revision="2", rules=[], otherwise="deny"))
    with shop.ledger.run("agent", conversation="case", message="m", dedupe="m"):
        with pytest.raises(counterfoil.NotDone):
            shop.refund("o-1", 10)
        with pytest.raises(PolicyDenied):
            shop.refund("o-1", 10)
    assert [ruling[:2] for ruling in rulings(shop)] == [("allow", "1"), ("deny", "2")]


def test_the_policy_itself_is_recorded_once_in_a_run_for_each_revision(shop):
    with shop.ledger.run("agent", conversation="case", message="m", dedupe="m"):
        shop.refund("o-1", 10)
        shop.refund("o-2", 10)
        shop.ledger.policy = None
    first, second = shop.ledger.events("case", types=["policy.evaluated"])
    assert first.content["snapshot"]["rules"][0]["rule"] == "too-much"
    assert "snapshot" not in second.content
    assert first.content["snapshot_sha256"] == second.content["snapshot_sha256"]
    (started,) = shop.ledger.events("case", types=["run.started"])
    assert started.data["policy_revision"] == "1"


class Odd:
    name, revision = "odd", "1"

    def __init__(self, ruling):
        self.ruling = ruling

    def snapshot(self):
        return {}

    def evaluate(self, proposal):
        if isinstance(self.ruling, Exception):
            raise self.ruling
        return self.ruling


ODD = {
    "an exception": ValueError("no such table"),
    "no ruling": "allow",
    "a rule that is no label": Ruling("allow", rules=("a rule",)),
    "rules as one text": Ruling("allow", rules="small"),
    "reasons as one text": Ruling("allow", reasons="it is small"),
    "new arguments with an allow": Ruling("allow", arguments={"order": "o-1", "amount": 1}),
    "a constrain without arguments": Ruling("constrain"),
    "arguments that do not fit": Ruling("constrain", arguments={"order": "o-1", "sum": 1}),
    "arguments that mean another effect": Ruling("constrain", arguments={"order": "o-2", "amount": 1}),
}


@pytest.mark.parametrize("case", ODD)
def test_a_policy_that_does_not_rule_lets_nothing_through_and_leaves_no_trace(shop, case):
    shop.use(shop.ledger, Odd(ODD[case]))
    with pytest.raises(PolicyFailed, match="odd"):
        shop.serve(10)
    assert shop.types() == []
    assert shop.provider.requests == []


def test_a_policy_cannot_change_the_call_by_changing_what_it_is_shown(shop):
    class Sly(Odd):
        def evaluate(self, proposal):
            proposal.arguments["amount"] = 1
            return Ruling("allow")

    shop.use(shop.ledger, Sly(None))
    assert shop.serve(10)["amount"] == 10


def test_a_redelivered_message_does_not_ask_people_a_second_time(shop):
    for _ in range(3):
        with pytest.raises(RunWaiting):
            shop.serve()
    assert shop.types().count("approval.requested") == 1
