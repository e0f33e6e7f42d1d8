"""Failure mode: the worker dies after the provider has the request and before it has the answer (seed 004, step 4)."""

from __future__ import annotations

from contextlib import closing

import pytest

from counterfoil.effects import by_lookup, by_review, effect
from counterfoil.effects.registry import own_tools
from counterfoil.effects.settle import Person, settle_effect
from counterfoil.errors import RunWaiting
from counterfoil.flow.drive import drive
from counterfoil.testing.crash import LifeUntil, World, live
from counterfoil.testing.provider import FakeProvider


@pytest.fixture
def provider():
    return FakeProvider(deduplicates=False)


@pytest.fixture
def world(somewhere):
    with own_tools(), closing(World(somewhere)) as made:
        yield made


def declare(provider, doubt):
    @effect(
        "payment.refund",
        version="1",
        touches={"money"},
        key=lambda order, line: f"refund:{order}:{line}",
        doubt=doubt,
        provider_id=lambda result: result["id"],
    )
    def refund(order: str, line: int, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order, line=line)

    return refund


def agent(refund):
    def work(ledger):
        with ledger.run("refund-agent", conversation="case-8472", message="please", dedupe="m1") as run:
            run.finish(refund("O-1042", 1)["id"])

    return work


def crash(world, refund):
    live(world, LifeUntil("call payment.refund"), agent(refund))
    world.time_passes()


def story(ledger):
    return [event.type for event in ledger.events("case-8472") if event.type.startswith("effect.")]


def test_what_is_left_is_an_intention_and_no_claim_about_its_outcome(world, provider):
    crash(world, declare(provider, by_review()))
    ledger = world.open()
    assert story(ledger) == ["effect.intended"]
    assert ledger.effects()[0]["state"] == "intended"
    assert ledger.runs()[0]["state"] == "running"


def test_the_next_worker_asks_with_the_recorded_key_and_finds_the_refund(world, provider):
    crash(world, declare(provider, by_lookup(provider.find)))
    ledger = world.open()
    ledger.recover()
    assert story(ledger) == ["effect.intended", "effect.looked_up", "effect.observed"]
    observed = list(ledger.events("case-8472", types={"effect.observed"}))[-1]
    assert (observed.data["source"], observed.content["provider_effect_id"]) == ("lookup", "re_1")
    assert provider.booked("refund:O-1042:1") == 1


def test_the_agent_goes_on_with_what_was_found_and_sends_nothing(world, provider):
    refund = declare(provider, by_lookup(provider.find))
    crash(world, refund)
    ledger = world.open()
    agent(refund)(ledger)
    assert ledger.runs()[0]["terminal"] == "success"
    assert len(provider.requests) == 1


def test_a_provider_that_cannot_be_asked_leaves_a_visible_hold_that_a_human_ends(world, provider):
    refund = declare(provider, by_review())
    crash(world, refund)
    ledger = world.open()
    ledger.recover()
    (review,) = ledger.reviews()
    assert (review["cause"], ledger.effects()[0]["state"]) == ("by_review", "in_review")
    with pytest.raises(RunWaiting):
        agent(refund)(ledger)
    clerk = Person(ledger.ports.subject_key(review["stream_id"], "clerk@shop"), "A. Clerk")
    result = {"id": "re_1", "key": "refund:O-1042:1"}
    settlement = settle_effect(
        review["review_id"], "succeeded", person=clerk, reason="in the provider's book", result=result
    )
    drive(settlement, ledger.ports)
    agent(refund)(world.open())
    assert ledger.runs()[0]["terminal"] == "success"
    assert len(provider.requests) == 1
    assert story(ledger) == ["effect.intended", "effect.review_requested", "effect.settled"]
