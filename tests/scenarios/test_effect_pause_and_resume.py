"""Case S11: work done before a pause is not done again when the run is entered again, however often."""

from __future__ import annotations

from contextlib import closing

import pytest

from counterfoil.effects import by_key, by_review, effect
from counterfoil.effects.registry import own_tools
from counterfoil.effects.settle import Person, settle_effect
from counterfoil.errors import RunWaiting
from counterfoil.flow.drive import drive
from counterfoil.testing.crash import LifeUntil, World, live
from counterfoil.testing.provider import FakeProvider


class Shop:
    """A mail, then a refund that waits for a human, then another mail."""

    def __init__(self):
        self.post, self.bank = FakeProvider(deduplicates=False), FakeProvider(deduplicates=False)
        self.bank.plan("answer_lost")
        post, bank = self.post, self.bank

        @effect("mail.send", version="1", touches={"messages"}, doubt=by_key())
        def mail(text: str, *, idempotency_key: str = ""):
            return post.send(idempotency_key=idempotency_key, text=text)

        @effect("payment.refund", version="1", touches={"money"}, doubt=by_review())
        def refund(order: str, *, idempotency_key: str = ""):
            return bank.send(idempotency_key=idempotency_key, order=order)

        self.mail, self.refund = mail, refund

    def agent(self, ledger):
        with ledger.run("agent", conversation="case", message="refund it", dedupe="m1"):
            self.mail("we are looking into it")
            self.refund("O-1042")
            self.mail("done")


@pytest.fixture
def world(somewhere):
    with own_tools(), closing(World(somewhere)) as made:
        yield made


@pytest.fixture
def shop(world):
    return Shop()


def effects_told(ledger):
    return [
        (event.type, event.sequence) for event in ledger.events("case") if event.type.startswith("effect.")
    ]


def settle(ledger):
    (review,) = ledger.reviews()
    clerk = Person(ledger.ports.subject_key(review["stream_id"], "clerk@shop"), "A. Clerk")
    drive(
        settle_effect(review["review_id"], "succeeded", person=clerk, reason="seen", result={}), ledger.ports
    )


def test_entering_while_it_waits_sends_nothing_and_records_no_new_effect(world, shop):
    told = []
    for _ in range(3):
        ledger = world.open()
        with pytest.raises(RunWaiting):
            shop.agent(ledger)
        told.append(effects_told(ledger))
    assert told[0] == told[1] == told[2]
    assert len(shop.post.requests) == 1
    assert len(shop.bank.requests) == 1


def test_after_the_answer_the_run_goes_on_where_it_waited(world, shop):
    with pytest.raises(RunWaiting):
        shop.agent(world.open())
    settle(world.open())
    for _ in range(3):
        shop.agent(world.open())
    ledger = world.open()
    assert [entry.what for entry in shop.post.book] == [
        (("text", "we are looking into it"),),
        (("text", "done"),),
    ]
    assert len(shop.bank.requests) == 1
    assert [event for event, _ in effects_told(ledger)].count("effect.intended") == 3


def test_a_crash_between_two_entries_changes_nothing_about_it(world, shop):
    with pytest.raises(RunWaiting):
        shop.agent(world.open())
    settle(world.open())
    live(world, LifeUntil("append effect.intended"), shop.agent)
    world.time_passes()
    shop.agent(world.open())
    assert len(shop.post.book) == 2
    assert len(shop.bank.requests) == 1
    assert world.open().runs()[0]["terminal"] == "success"
