"""What a provider says by itself: by key, once, in any order, and never overwriting (DESIGN 2.4 and 2.6)."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from counterfoil.effects import Retry, by_review, effect
from counterfoil.errors import (
    EffectFailed,
    EffectNotFound,
    IdempotencyConflict,
    InvalidForm,
    NotDone,
    Rejected,
    RunWaiting,
)
from counterfoil.testing.truth import check_truth

KEY = "pay:o-1"


def declare(provider, doubt=None, **more):
    settings = {
        "version": "1",
        "touches": {"money"},
        "doubt": doubt or by_review(),
        "key": lambda order: f"pay:{order}",
    } | more

    @effect("pay", **settings)
    def pay(order: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order)

    return pay


def act(ledger, pay, name="m1"):
    with ledger.run("agent", conversation="case" if name == "m1" else name, message="please", dedupe=name):
        return pay("o-1")


@pytest.fixture
def doubted(ledger, provider):
    """An effect in review whose answer was lost."""
    provider.plan("answer_lost")
    pay = declare(provider)
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    return pay


def test_a_callback_ends_doubt_and_the_review_with_it(ledger, doubted, told):
    heard = ledger.observe(KEY, "succeeded", result={"id": "re_1"}, provider_id="re_1")
    assert (heard.done, heard.state, heard.tool) == ("decided", "succeeded", "pay")
    assert told("source")[-1] == ("effect.late_observed", "callback")
    assert ledger.reviews() == []
    assert act(ledger, doubted) == {"id": "re_1"}
    check_truth(ledger)


@pytest.mark.parametrize("outcome, error", [("rejected", Rejected), ("failed", NotDone)])
def test_a_refusal_is_raised_where_the_run_goes_on(ledger, doubted, outcome, error):
    ledger.observe(KEY, outcome, message="the card has expired")
    with pytest.raises(error, match="the card has expired"):
        act(ledger, doubted)


@pytest.mark.parametrize("delivery", [None, "evt_4711"])
def test_a_message_that_is_delivered_again_changes_nothing(ledger, doubted, told, delivery):
    ledger.observe(KEY, "succeeded", result=1, delivery=delivery)
    before = told()
    assert ledger.observe(KEY, "succeeded", result=1, delivery=delivery).done == "repeated"
    assert told() == before


def test_a_delivery_is_known_by_its_id_whatever_it_says_then(ledger, doubted):
    ledger.observe(KEY, "succeeded", delivery="evt_1")
    assert ledger.observe(KEY, "failed", delivery="evt_1", attempt=1).done == "repeated"
    assert ledger.effects()[0]["state"] == "succeeded"


def test_a_message_delivered_many_times_at_once_is_recorded_once(world, ledger, doubted, told):
    gate = threading.Barrier(8)

    def deliver(_):
        handle = world.open()
        gate.wait(30)
        return handle.observe(KEY, "succeeded", result=1, delivery="evt_1").done

    with ThreadPoolExecutor(8) as pool:
        done = sorted(pool.map(deliver, range(8)))
    assert done == ["decided", *["repeated"] * 7]
    assert told().count("effect.late_observed") == 1


def test_a_message_delivered_twice_in_one_millisecond_decides_once(world, ledger, doubted, told):
    first, second = world.open(), world.open()
    heard, find = [], second.store.find

    def beaten(stream_id, event_ids):
        found = find(stream_id, event_ids)
        if not heard:
            heard.append(first.observe(KEY, "succeeded", result=1, delivery="evt_1").done)
        return found

    second.store.find = beaten
    heard.append(second.observe(KEY, "succeeded", result=1, delivery="evt_1").done)
    assert heard == ["decided", "repeated"]
    assert told().count("effect.late_observed") == 1


def test_a_callback_may_be_quicker_than_the_answer_to_the_call(world, ledger, provider, told):
    def pay_and_hear(order: str, *, idempotency_key: str = ""):
        receipt = provider.send(idempotency_key=idempotency_key, order=order)
        assert world.open().observe(KEY, "succeeded").done == "decided"
        return receipt

    pay = effect("pay", version="1", touches={"money"}, doubt=by_review(), key=lambda order: f"pay:{order}")(
        pay_and_hear
    )
    receipt = act(ledger, pay)
    assert receipt["id"] == "re_1"
    assert told("source")[1:] == [("effect.late_observed", "callback"), ("effect.late_observed", "call")]
    assert act(ledger, pay) == receipt
    check_truth(ledger)


def test_a_callback_after_the_answer_confirms_it(ledger, provider):
    act(ledger, declare(provider))
    assert ledger.observe(KEY, "succeeded", provider_id="re_1").done == "confirmed"
    check_truth(ledger)


@pytest.mark.parametrize(
    "fault, outcome", [(None, "rejected"), ("rejected", "succeeded"), ("not_done", "succeeded")]
)
def test_a_callback_that_differs_contradicts_and_asks_a_person(ledger, provider, fault, outcome):
    provider.plan(fault)
    pay = declare(provider)
    with contextlib.suppress(Rejected, NotDone):
        act(ledger, pay)
    heard = ledger.observe(KEY, outcome)
    assert (heard.done, heard.state) == ("contradicted", "contradicted")
    assert len(ledger.reviews()) == 1
    check_truth(ledger)


def test_after_a_settlement_it_confirms_or_contradicts(ledger, doubted):
    (review,) = ledger.reviews()
    ledger.settle(review["review_id"], "failed", by="Ines", reason="nothing there")
    assert ledger.observe(KEY, "failed").done == "confirmed"
    assert ledger.observe(KEY, "succeeded").done == "contradicted"
    ledger.settle(review["review_id"], "succeeded", by="Ines", reason="there it is")
    assert ledger.effects()[0]["outcome"] == "succeeded"


def test_a_failure_of_an_older_attempt_says_nothing_of_a_newer_one(world, ledger, provider):
    provider.plan("not_done", "answer_lost")
    pay = declare(provider, retry=Retry(jitter=0))
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    assert ledger.observe(KEY, "failed").done == "ignored"
    assert ledger.observe(KEY, "failed", attempt=1).done == "ignored"
    assert ledger.effects()[0]["state"] == "in_review"
    assert ledger.observe(KEY, "failed", attempt=2).done == "decided"


def test_a_late_failure_does_not_shift_what_a_resumed_run_is_given(ledger, provider):
    provider.plan("not_done")
    pay = declare(provider)

    def agent():
        with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            with pytest.raises(NotDone):
                pay("o-1")
            ledger.observe(KEY, "failed")
            return pay("o-1")

    first = agent()
    assert agent() == first
    assert len(provider.requests) == 2


def test_the_newest_effect_under_a_key_is_meant(ledger, provider):
    provider.plan("not_done", "answer_lost")
    pay = declare(provider)
    with pytest.raises(NotDone):
        act(ledger, pay)
    with pytest.raises(RunWaiting):
        act(ledger, pay, "m2")
    newest = ledger.effects(state="in_review")[0]["effect_id"]
    assert ledger.observe(KEY, "succeeded").effect_id == newest


def test_an_effect_without_a_business_key_is_known_by_its_id(ledger, provider):
    provider.plan("answer_lost")
    with pytest.raises(RunWaiting):
        act(ledger, declare(provider, key=None))
    (row,) = ledger.effects()
    assert provider.requests == [row["effect_id"]]
    assert ledger.observe(row["effect_id"], "succeeded").state == "succeeded"


def test_what_cannot_be_meant_is_refused(ledger, doubted):
    with pytest.raises(EffectNotFound):
        ledger.observe("pay:o-2", "succeeded")
    with pytest.raises(EffectNotFound):
        ledger.observe("eff_01J9ZC3Y3V7W2R5T8QK4M6N0PF", "succeeded")
    with pytest.raises(IdempotencyConflict):
        ledger.observe(KEY, "succeeded", tool="ship")
    with pytest.raises(InvalidForm):
        ledger.observe(KEY, "unknown")
    with pytest.raises(InvalidForm):
        ledger.observe(KEY, "failed", result=1)
    assert ledger.effects()[0]["state"] == "in_review"


def test_a_settled_outcome_is_raised_as_such_beside_an_agreeing_callback(ledger, doubted):
    ledger.settle(ledger.reviews()[0]["review_id"], "rejected", by="Ines", reason="they wrote")
    assert ledger.observe(KEY, "rejected").done == "confirmed"
    with pytest.raises(EffectFailed):
        act(ledger, doubted)
