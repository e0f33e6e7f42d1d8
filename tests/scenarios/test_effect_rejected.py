"""Failure mode: the provider rejects the request. The rejection is final, recorded once, and seen by the code."""

from __future__ import annotations

from contextlib import closing

import pytest

from counterfoil.effects import by_key, effect
from counterfoil.effects.registry import own_tools
from counterfoil.errors import Rejected
from counterfoil.testing.crash import World
from counterfoil.testing.provider import FakeProvider


@pytest.fixture
def provider():
    provider = FakeProvider()
    provider.plan("rejected")
    return provider


@pytest.fixture
def world(somewhere):
    with own_tools(), closing(World(somewhere)) as made:
        yield made


@pytest.fixture
def refund(provider, world):
    @effect(
        "payment.refund", version="1", touches={"money"}, doubt=by_key(), key=lambda order: f"refund:{order}"
    )
    def refund(order: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order)

    return refund


def agent(ledger, refund, dedupe="m1"):
    """Tells the customer what came of it."""
    with ledger.run("agent", conversation="case", message="refund it", dedupe=dedupe) as run:
        try:
            refund("O-1042")
            said = "refunded"
        except Rejected as error:
            said = f"not refunded: {error.reason}"
        run.finish(said)
        return said


def test_the_stream_holds_the_rejection_with_its_reason_as_content(world, refund):
    ledger = world.open()
    assert agent(ledger, refund) == "not refunded: limit"
    (observed,) = ledger.events("case", types={"effect.observed"})
    assert (observed.data["outcome"], observed.data["error_class"]) == ("rejected", "Rejected")
    assert observed.content["error"]["fields"] == {"reason": "limit"}
    assert (
        b"limit"
        not in ledger.store.read(ledger.stream_of("case"), after=observed.sequence - 1, limit=1)[0].header
    )


def test_the_projection_shows_it_and_the_run_ends_well(world, refund):
    ledger = world.open()
    agent(ledger, refund)
    assert ledger.effects()[0]["state"] == "rejected"
    assert ledger.runs()[0]["terminal"] == "success"


def test_it_is_not_sent_again_by_a_resumed_run_or_by_another(world, refund, provider):
    for dedupe in ("m1", "m1", "m2"):
        assert agent(world.open(), refund, dedupe) == "not refunded: limit"
    assert len(provider.requests) == 1


def test_recovery_has_nothing_to_do(world, refund):
    agent(world.open(), refund)
    world.time_passes()
    assert world.open().recover().effects == []
