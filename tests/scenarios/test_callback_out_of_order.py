"""Failure mode: the provider's callback comes out of order: before the answer, twice, late, or against what is recorded."""

from __future__ import annotations

import pytest

from counterfoil.errors import EffectFailed, RunWaiting
from tests.stage import CASE

KEY = "refund:O-1042"
RECEIPT = {"id": "re_1", "key": KEY}


@pytest.fixture
def crashed(stage):
    """A refund by review that was sent by a worker that died before it had the answer."""
    refund = stage.refund("review")
    stage.crash(refund)
    return refund


def observe(stage, outcome="succeeded", **said):
    """The provider's webhook, answered by any process."""
    return stage.open().observe(KEY, outcome, **said).done


def told(stage):
    return stage.stream("source", "outcome")


def test_the_stream_keeps_a_callback_that_comes_while_nobody_is_there_and_the_doubt_ends(stage, crashed):
    assert observe(stage, result=RECEIPT) == "decided"
    assert told(stage) == [
        ("effect.intended", None, None),
        ("effect.late_observed", "callback", "succeeded"),
    ]


def test_the_rows_show_the_outcome_and_the_run_goes_on_without_sending(stage, crashed):
    observe(stage, result=RECEIPT)
    assert (stage.effects(), stage.runs()) == (["succeeded"], [("running", None)])
    stage.world.time_passes()
    assert stage.open().recover().effects == []
    assert stage.serve(crashed) == "re_1"
    assert (stage.runs(), stage.reviews()) == ([("finished", "success")], [])
    assert stage.provider.requests == [KEY]


def test_a_callback_that_is_quicker_than_the_answer_is_the_outcome_and_the_answer_confirms_it(stage):
    provider = stage.provider

    def refund(order: str, *, idempotency_key: str = ""):
        receipt = provider.send(idempotency_key=idempotency_key, order=order)
        assert observe(stage, result=receipt) == "decided"
        return receipt

    async def arefund(order: str, *, idempotency_key: str = ""):
        receipt = await provider.asend(idempotency_key=idempotency_key, order=order)
        assert observe(stage, result=receipt) == "decided"
        return receipt

    tool = stage.declare(refund, arefund, doubt=stage.doubt("review"))
    assert stage.serve(tool) == "re_1"
    assert told(stage)[1] == ("effect.late_observed", "callback", "succeeded")
    assert (stage.effects(), stage.runs()) == (["succeeded"], [("finished", "success")])
    assert (stage.reviews(), stage.provider.requests) == ([], [KEY])


def test_a_callback_that_comes_twice_is_recorded_once(stage, crashed):
    assert [observe(stage, result=RECEIPT, delivery="hook-7") for _ in range(3)] == [
        "decided",
        "repeated",
        "repeated",
    ]
    assert stage.stream() == ["effect.intended", "effect.late_observed"]


def test_a_callback_that_comes_while_a_person_is_asked_ends_the_review(stage, crashed):
    stage.world.time_passes()
    stage.open().recover()
    with pytest.raises(RunWaiting):
        stage.serve(crashed)
    assert stage.reviews() == ["by_review"]
    assert observe(stage, result=RECEIPT) == "decided"
    assert (stage.effects(), stage.reviews()) == (["succeeded"], [])
    assert stage.serve(crashed) == "re_1"
    assert stage.provider.requests == [KEY]


def test_news_of_an_attempt_before_the_last_one_does_not_touch_what_is_known(stage):
    provider = stage.provider
    provider.plan("answer_lost")
    stage.serve(stage.refund("key"))
    assert [attempt for kind, attempt in attempts(stage) if kind == "effect.intended"] == [1, 2]
    assert observe(stage, "failed") == "ignored"
    assert (stage.effects(), stage.reviews()) == (["succeeded"], [])


def test_a_callback_that_contradicts_what_is_recorded_is_kept_and_a_person_is_asked(stage):
    stage.serve(stage.refund("key"))
    assert observe(stage, "rejected", message="the card was closed") == "contradicted"
    assert stage.stream() == [
        "effect.intended",
        "effect.observed",
        "effect.late_observed",
        "effect.contradicted",
        "effect.review_requested",
    ]
    assert (stage.effects(), stage.reviews()) == (["contradicted"], ["contradicted"])
    assert stage.runs() == [("finished", "success")]


def test_a_callback_after_a_person_has_settled_it_overwrites_nothing(stage, crashed):
    stage.world.time_passes()
    ledger = stage.open()
    ledger.recover()
    (review,) = ledger.reviews()
    ledger.settle(review["review_id"], "failed", by="A. Clerk", reason="nothing in the book")
    assert observe(stage, result=RECEIPT) == "contradicted"
    assert (stage.effects(), stage.reviews()) == (["contradicted"], ["contradicted"])
    with pytest.raises((EffectFailed, RunWaiting)):
        stage.serve(crashed)
    assert stage.provider.requests == [KEY]


def attempts(stage):
    return [(event.type, event.header.attempt) for event in stage.open().events(CASE)]
