"""Failure mode: the provider carries the request out and its answer comes after the client's timeout (case S12)."""

from __future__ import annotations

import pytest

from counterfoil.effects import by_repeating
from counterfoil.errors import RunWaiting

RULES = ("key", "lookup", "review")


@pytest.fixture(autouse=True)
def slow(stage):
    """The first answer comes when nobody waits for it any more."""
    stage.provider.plan("slow")


def serve(stage, rule):
    """One worker calls; with nobody to ask, the run waits."""
    refund = stage.refund(rule, timeout_s=0.4)
    if rule == "review":
        with pytest.raises(RunWaiting):
            stage.serve(refund)
    else:
        assert stage.serve(refund) == "re_1"
    return refund


@pytest.mark.parametrize("rule", RULES)
def test_the_stream_says_unknown_and_never_failed(stage, rule):
    serve(stage, rule)
    outcomes = [outcome for kind, outcome in stage.stream("outcome") if kind == "effect.observed"]
    assert outcomes[0] == "unknown"
    assert "failed" not in outcomes


def test_a_tool_with_a_key_is_sent_again_and_the_provider_sees_one_refund(stage):
    serve(stage, "key")
    assert (len(stage.provider.requests), stage.provider.booked()) == (2, 1)
    assert stage.effects() == ["succeeded"]


def test_a_tool_with_a_lookup_is_not_sent_again(stage):
    serve(stage, "lookup")
    assert len(stage.provider.requests) == 1
    assert stage.effects() == ["succeeded"]


def test_a_tool_with_neither_is_parked_for_a_person_and_never_sent_again(stage):
    refund = serve(stage, "review")
    for _ in range(2):
        stage.world.time_passes()
        stage.open().recover()
        with pytest.raises(RunWaiting):
            stage.serve(refund)
    assert len(stage.provider.requests) == 1
    # The rows show a safe state: the effect and the run wait for the same review.
    assert (stage.effects(), stage.runs()) == (["in_review"], [("suspended", None)])
    ledger = stage.open()
    (review,) = ledger.reviews()
    assert review["effect_id"] == ledger.effects()[0]["effect_id"]


def test_only_a_read_only_tool_is_simply_called_again(stage):
    provider = stage.provider

    def read(order):
        return provider.send(idempotency_key=order)

    async def aread(order):
        return await provider.asend(idempotency_key=order)

    tool = stage.declare(
        read, aread, name="order.read", touches=set(), key=None, doubt=by_repeating(), timeout_s=0.4
    )

    async def agent():
        async with stage.run(stage.open()):
            with pytest.raises(TimeoutError):
                await stage.call(tool, "O-1042")
            provider.answer_now()
            return (await stage.call(tool, "O-1042"))["id"]

    assert stage.play(agent()) == "re_1"
    assert stage.effects() == ["failed", "succeeded"]
