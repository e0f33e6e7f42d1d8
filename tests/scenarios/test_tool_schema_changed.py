"""Failure mode: the tool is declared anew, with other parameters, between an intention and the end of its doubt.

What was intended is on record with its arguments and the digest of the schema they were given for. Today's code gets
them only if its schema is the same; otherwise a person is asked, and nothing is sent.
"""

from __future__ import annotations

import pytest

from counterfoil.effects.registry import own_tools
from counterfoil.errors import RunWaiting
from tests.stage import CASE


@pytest.fixture
def deployed(stage):
    """A refund that was sent by a worker that died, under this rule; then a new program, which knows another version."""
    with own_tools():

        def deploy(rule, send, asend):
            with own_tools():
                stage.crash(stage.refund(rule))
                stage.world.time_passes()
            return stage.declare(send, asend, version="2", doubt=stage.doubt(rule))

        yield deploy


@pytest.fixture
def demanding(stage):
    """The new version wants a currency that nobody gave."""

    def refund(order: str, amount: int, currency: str, *, idempotency_key: str = ""):
        return stage.provider.send(idempotency_key=idempotency_key, order=order, currency=currency)

    async def arefund(order: str, amount: int, currency: str, *, idempotency_key: str = ""):
        return await stage.provider.asend(idempotency_key=idempotency_key, order=order, currency=currency)

    return refund, arefund


@pytest.fixture
def lenient(stage):
    """The new version takes a currency, and does without."""

    def refund(order: str, amount: int, currency: str = "EUR", *, idempotency_key: str = ""):
        return stage.provider.send(idempotency_key=idempotency_key, order=order, amount=amount)

    async def arefund(order: str, amount: int, currency: str = "EUR", *, idempotency_key: str = ""):
        return await stage.provider.asend(idempotency_key=idempotency_key, order=order, amount=amount)

    return refund, arefund


@pytest.fixture
def same(stage):
    """The new version takes what the old one took."""

    def refund(order: str, amount: int = 40, *, idempotency_key: str = ""):
        return stage.provider.send(idempotency_key=idempotency_key, order=order, amount=amount)

    async def arefund(order: str, amount: int = 40, *, idempotency_key: str = ""):
        return await stage.provider.asend(idempotency_key=idempotency_key, order=order, amount=amount)

    return refund, arefund


def schemas(stage):
    """Version and schema digest of each intention."""
    events = stage.open().events(CASE, types={"effect.intended"})
    return [(event.data["tool_version"], event.data["schema"]) for event in events]


def test_the_stream_says_that_the_schema_changed_and_that_nothing_was_sent(stage, deployed, demanding):
    deployed("key", *demanding)
    stage.open().recover()
    assert stage.stream("cause", "attempt") == [
        ("effect.intended", None, None),
        ("effect.review_requested", "schema_changed", None),
    ]
    assert stage.provider.requests == ["refund:O-1042"]


def test_the_rows_show_a_hold_that_the_run_waits_for(stage, deployed, demanding):
    refund = deployed("key", *demanding)
    stage.open().recover()
    with pytest.raises(RunWaiting):
        stage.play(ask(stage, refund, "EUR"))
    assert (stage.effects(), stage.reviews()) == (["in_review"], ["schema_changed"])
    assert stage.runs() == [("suspended", None)]


def test_a_person_ends_it_and_the_run_goes_on(stage, deployed, demanding):
    deployed("key", *demanding)
    ledger = stage.open()
    ledger.recover()
    (review,) = ledger.reviews()
    ledger.settle(review["review_id"], "succeeded", by="A. Clerk", reason="booked", result={"id": "re_1"})
    assert stage.stream()[-1] == "effect.settled"
    assert (stage.effects(), stage.reviews()) == (["settled"], [])


def test_arguments_that_would_still_fit_are_put_to_a_person_too(stage, deployed, lenient):
    deployed("key", *lenient)
    stage.open().recover()
    assert (stage.effects(), stage.reviews()) == (["in_review"], ["schema_changed"])
    assert stage.provider.requests == ["refund:O-1042"]


def test_another_version_with_the_same_parameters_sends_again_under_the_same_key(stage, deployed, same):
    deployed("key", *same)
    stage.open().recover()
    (first, old), (second, new) = schemas(stage)
    assert ((first, second), old) == (("1", "2"), new)
    assert stage.provider.requests == ["refund:O-1042"] * 2
    assert (stage.effects(), stage.provider.booked()) == (["succeeded"], 1)


def test_a_provider_that_can_be_asked_is_asked_whatever_the_tool_takes_today(stage, deployed, demanding):
    deployed("lookup", *demanding)
    stage.open().recover()
    assert stage.stream("answer", "outcome") == [
        ("effect.intended", None, None),
        ("effect.looked_up", "found", None),
        ("effect.observed", None, "succeeded"),
    ]
    assert stage.effects() == ["succeeded"]


async def ask(stage, refund, currency):
    async with stage.run(stage.open()):
        await stage.call(refund, "O-1042", 40, currency)
