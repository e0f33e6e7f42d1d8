"""Failure mode: the provider carries the request out and its answer comes after the client's timeout (case S12)."""

from __future__ import annotations

from contextlib import closing

import pytest

from counterfoil.effects import by_key, by_lookup, by_repeating, by_review, effect
from counterfoil.effects.registry import own_tools
from counterfoil.errors import RunWaiting
from counterfoil.testing.crash import World
from counterfoil.testing.provider import FakeProvider

RULES = ("by_key", "by_lookup", "by_review")


@pytest.fixture
def provider():
    return FakeProvider()


@pytest.fixture
def world(somewhere):
    with own_tools(), closing(World(somewhere)) as made:
        yield made


@pytest.fixture
def ledger(world):
    return world.open()


def declare(provider, rule):
    doubt = {"by_key": by_key(), "by_lookup": by_lookup(provider.find), "by_review": by_review()}[rule]

    @effect("payment.refund", version="1", touches={"money"}, doubt=doubt, timeout_s=0.2)
    def refund(order: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order)

    return refund


def call(ledger, refund):
    with ledger.run("agent", conversation="case", message="refund it", dedupe="m1"):
        return refund("O-1042")


def stream(ledger, field):
    return [
        (event.type, event.data.get(field))
        for event in ledger.events("case")
        if event.type.startswith(("effect.", "retry."))
    ]


@pytest.mark.parametrize("rule", RULES)
def test_the_stream_says_unknown_and_never_failed(ledger, provider, rule):
    provider.plan("slow")
    refund = declare(provider, rule)
    if rule == "by_review":
        with pytest.raises(RunWaiting):
            call(ledger, refund)
    else:
        call(ledger, refund)
    provider.answer_now()
    first = next(ledger.events("case", types={"effect.observed"}))
    assert first.data["outcome"] == "unknown"
    assert ("effect.observed", "failed") not in stream(ledger, "outcome")


def test_a_tool_with_a_key_is_sent_again_and_the_provider_sees_one_refund(ledger, provider):
    provider.plan("slow")
    call(ledger, declare(provider, "by_key"))
    provider.answer_now()
    assert provider.booked() == 1
    assert ledger.effects()[0]["state"] == "succeeded"


def test_a_tool_with_a_lookup_is_not_sent_again(ledger, provider):
    provider.plan("slow")
    call(ledger, declare(provider, "by_lookup"))
    provider.answer_now()
    assert len(provider.requests) == 1
    assert ledger.effects()[0]["state"] == "succeeded"


def test_a_tool_with_neither_is_parked_for_a_person_and_never_sent_again(world, ledger, provider):
    provider.plan("slow")
    refund = declare(provider, "by_review")
    for worker in (ledger, world.open(), world.open()):
        with pytest.raises(RunWaiting):
            call(worker, refund)
        world.time_passes()
        worker.recover()
    assert len(provider.requests) == 1
    # The projection shows a safe state: the effect and the run wait for the same review.
    (review,) = ledger.reviews()
    assert (ledger.effects()[0]["state"], ledger.runs()[0]["state"]) == ("in_review", "suspended")
    assert review["effect_id"] == ledger.effects()[0]["effect_id"]
    provider.answer_now()


def test_only_a_read_only_tool_is_simply_called_again(ledger, provider):
    provider.plan("slow")

    @effect("order.read", version="1", touches=set(), doubt=by_repeating(), timeout_s=0.2)
    def read(order: str):
        return provider.send(idempotency_key=order)

    with ledger.run("agent", conversation="case", message="look", dedupe="m1"):
        with pytest.raises(TimeoutError):
            read("O-1042")
        provider.answer_now()
        assert read("O-1042")["id"] == "re_1"
    assert [row["state"] for row in ledger.effects()] == ["failed", "succeeded"]
