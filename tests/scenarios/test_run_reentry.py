"""Work before a pause does not run again (S11), and what waits is found by asking the ledger (X9)."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import RunWaiting
from tests.running import ScriptedModel, World, facts, types_of


@pytest.fixture
def world():
    with own_tools():
        yield World()


class Shop:
    """An e-mail, then a refund that needs a person, then a note: what an agent does around a pause."""

    def __init__(self):
        self.mails = []
        self.refunds = []

        @counterfoil.effect("mail.send", version="1", touches={"messages"}, doubt=counterfoil.by_key())
        def send(to, *, idempotency_key):
            self.mails.append(to)
            return {"id": f"m_{len(self.mails)}"}

        @counterfoil.effect(
            "payment.refund",
            version="1",
            touches={"money"},
            key=lambda order: f"refund:{order}",
            doubt=counterfoil.by_review(),
        )
        def refund(order):
            self.refunds.append(order)
            raise ConnectionError("no answer")

        self.send, self.refund = send, refund

    def agent(self, ledger, model):
        with ledger.run("a", conversation="c", message="refund O-1", dedupe="m-1") as run:
            plan = run.ask(model, "what now?").text
            mail = self.send("jane@example.com")
            receipt = self.refund("O-1")
            run.finish([plan, mail, receipt])
        return run.output


def test_what_ran_before_the_pause_is_a_replay_however_often_it_is_entered(world):
    shop, model = Shop(), ScriptedModel("refund it")
    for _ in range(3):
        with pytest.raises(RunWaiting):
            shop.agent(world.worker(), model)
    ledger = world.worker()
    (review,) = ledger.reviews()
    ledger.settle(
        review["review_id"], "succeeded", by="Jane", reason="seen in the book", result={"id": "re_1"}
    )
    for _ in range(3):
        assert shop.agent(world.worker(), model) == ["refund it", {"id": "m_1"}, {"id": "re_1"}]
    assert (len(model.requests), shop.mails, shop.refunds) == (1, ["jane@example.com"], ["O-1"])
    assert len(facts(ledger, "c", "effect.intended")) == 2
    assert len(facts(ledger, "c", "effect.observed")) == 2
    assert len(facts(ledger, "c", "provider.requested")) == 1
    assert [event["cause"] for event in facts(ledger, "c", "run.claimed")] == ["resume"]
    assert types_of(ledger, "c").count("run.finished") == 1


def test_a_crash_between_re_entries_repeats_nothing(world):
    class Gone(BaseException):
        pass

    shop, model = Shop(), ScriptedModel("refund it")
    with pytest.raises(RunWaiting):
        shop.agent(world.worker(), model)
    ledger = world.worker()
    (review,) = ledger.reviews()
    ledger.settle(review["review_id"], "rejected", by="Jane", reason="too late")
    dying = ledger.run("a", conversation="c", message="refund O-1", dedupe="m-1")
    dying.__enter__()
    assert dying.ask(model, "what now?").text == "refund it"
    ledger._heartbeat.remove(dying._scope)
    dying._close(dying._scope)
    world.expire_leases()
    with pytest.raises(counterfoil.EffectFailed):
        shop.agent(world.worker(), model)
    assert (len(model.requests), len(shop.mails), len(shop.refunds)) == (1, 1, 1)


def test_what_waits_for_a_person_is_a_query_after_a_restart(world):
    with pytest.raises(RunWaiting):
        Shop().agent(world.worker(), ScriptedModel("refund it"))
    restarted = world.worker()
    (review,) = restarted.reviews()
    (run,) = restarted.runs(state="suspended")
    assert (run["cause"], run["waits_for"]) == ("review", review["review_id"])
    assert restarted.conversations()[0].waiting == 1
