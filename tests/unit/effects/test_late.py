"""Answers that come after their call was given up: kept, never overwriting, contradicting where they differ."""

from __future__ import annotations

import threading

import pytest

from counterfoil.effects import Found, by_key, by_lookup, by_repeating, by_review, effect, late
from counterfoil.effects.outcome import Verdict
from counterfoil.errors import LeaseLost, Rejected, RunWaiting
from counterfoil.flow.drive import drive
from counterfoil.testing.truth import check_truth


def declare(provider, doubt, **more):
    settings = {"version": "1", "touches": {"money"}, "doubt": doubt, "timeout_s": 0.2} | more

    @effect("pay", **settings)
    def pay(order: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order)

    return pay


def run(ledger, dedupe="m1"):
    return ledger.run("agent", conversation="case", message="please", dedupe=dedupe)


def test_an_answer_after_the_timeout_ends_the_doubt(ledger, provider, told, late_recorded):
    provider.plan("slow")
    pay = declare(provider, by_review())
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    assert ledger.effects()[0]["state"] == "in_review"
    provider.answer_now()
    assert late_recorded()
    assert told()[-1] == "effect.late_observed"
    assert ledger.effects()[0]["state"] == "succeeded"
    assert ledger.reviews() == []
    check_truth(ledger)


def test_a_run_resumes_with_the_answer_that_came_late(ledger, provider, world, late_recorded):
    provider.plan("slow")
    pay = declare(provider, by_review())
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    provider.answer_now()
    assert late_recorded()
    with run(world.open()):
        assert pay("o-1")["id"] == "re_1"
    assert len(provider.requests) == 1


def test_a_late_answer_that_agrees_with_the_lookup_is_kept_and_changes_nothing(
    ledger, provider, told, late_recorded
):
    provider.plan("slow")
    pay = declare(provider, by_lookup(provider.find))
    with run(ledger):
        assert pay("o-1")["id"] == "re_1"
    before = ledger.effects()[0]["state"]
    provider.answer_now()
    assert late_recorded()
    assert told()[-1] == "effect.late_observed"
    assert ledger.effects()[0]["state"] == before == "succeeded"


def test_a_late_answer_that_differs_contradicts_and_asks_a_human(ledger, provider, told, late_recorded):
    provider.plan("slow")
    pay = declare(provider, by_lookup(lambda **_: Found("rejected")))
    with run(ledger), pytest.raises(Rejected):
        pay("o-1")
    provider.answer_now()
    assert late_recorded()
    assert told()[-3:] == ["effect.late_observed", "effect.contradicted", "effect.review_requested"]
    (review,) = ledger.reviews()
    assert review["cause"] == "contradicted"
    (contradicted,) = ledger.events("case", types={"effect.contradicted"})
    assert (contradicted.data["recorded"], contradicted.data["found"]) == ("rejected", "succeeded")
    assert ledger.effects()[0]["state"] == "contradicted"
    check_truth(ledger)


def test_a_call_that_fails_late_without_knowing_adds_nothing(ledger, provider, told, late_recorded):
    let_go = threading.Event()

    @effect("pay", version="1", touches={"money"}, doubt=by_review(), timeout_s=0.2)
    def pay():
        let_go.wait(30)
        raise ConnectionError("gone")

    with pytest.raises(RunWaiting), run(ledger):
        pay()
    before = told()
    let_go.set()
    assert late_recorded()
    assert told() == before


def test_a_tool_that_touches_nothing_has_nothing_to_say_late(ledger, provider):
    provider.plan("slow")

    @effect("look", version="1", touches=set(), doubt=by_repeating(), timeout_s=0.2)
    def look():
        return provider.send(idempotency_key="k")

    with run(ledger), pytest.raises(TimeoutError):
        look()
    provider.answer_now()
    assert ledger.effects()[0]["state"] == "failed"


def test_an_answer_to_an_older_attempt_counts_when_it_says_that_it_was_done(ledger, provider, late_recorded):
    provider.plan("slow", "unreached", "unreached")
    pay = declare(provider, by_key())
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    provider.answer_now()
    assert late_recorded()
    (late_answer,) = ledger.events("case", types={"effect.late_observed"})
    assert late_answer.header.attempt == 1
    assert ledger.effects()[0]["state"] == "succeeded"


def test_an_answer_that_comes_in_the_pause_before_a_retry_makes_the_retry_needless(
    world, ledger, provider, late_recorded, monkeypatch
):
    provider.plan("slow")
    pay = declare(provider, by_key())
    sleep = world.clock.sleep

    def answered_meanwhile(seconds):
        provider.answer_now()
        assert late_recorded()
        sleep(seconds)

    monkeypatch.setattr(world.clock, "sleep", answered_meanwhile)
    with run(ledger):
        assert pay("o-1")["id"] == "re_1"
    assert len(provider.requests) == 1
    assert len(list(ledger.events("case", types={"effect.intended"}))) == 1
    check_truth(ledger)


# ---- a worker that lost its run -----------------------------------------------------------------------------------------


def test_a_result_whose_token_is_stale_is_kept_as_late_and_the_worker_stops(world, provider, told):
    ledger, other = world.open(), world.open()
    pay = declare(provider, by_review(), timeout_s=30)
    provider_send = provider.send

    def taken_over(**what):
        answer = provider_send(**what)
        world.time_passes()
        head = other.store.head(other.stream_of("case"))
        other.store.claim(head.stream_id, "another", 30_000, head.token)
        return answer

    provider.send = taken_over
    with pytest.raises(LeaseLost), run(ledger):
        pay("o-1")
    (late_answer,) = other.events("case", types={"effect.late_observed"})
    assert late_answer.data["fencing_token"] == 1
    assert other.effects()[0]["state"] == "succeeded"
    assert "effect.observed" not in told()


def test_a_stale_result_contradicts_what_another_worker_recorded_meanwhile(world, provider):
    ledger, other = world.open(), world.open()
    pay = declare(provider, by_lookup(lambda **_: Found("failed")), timeout_s=30)
    provider_send = provider.send

    def taken_over(**what):
        answer = provider_send(**what)
        world.time_passes()
        other.recover()
        return answer

    provider.send = taken_over
    with pytest.raises(LeaseLost), run(ledger):
        pay("o-1")
    assert other.effects()[0]["state"] == "contradicted"
    assert [review["cause"] for review in other.reviews()] == ["contradicted"]
    check_truth(other)


def test_nothing_is_sent_by_a_worker_that_was_taken_over_before_its_intention(world, provider):
    ledger, other = world.open(), world.open()
    pay = declare(provider, by_review())

    def block():
        with run(ledger):
            world.time_passes()
            head = other.store.head(other.stream_of("case"))
            other.store.claim(head.stream_id, "another", 30_000, head.token)
            pay("o-1")

    with pytest.raises(LeaseLost):
        block()
    assert provider.requests == []
    assert other.effects() == []


# ---- many late answers ---------------------------------------------------------------------------------------------------


def test_further_answers_after_a_contradiction_keep_its_review_open(ledger, provider, monkeypatch):
    watched = []
    monkeypatch.setattr(late, "watch", lambda work, call, **_: watched.append(work))
    provider.plan("slow")
    pay = declare(provider, by_lookup(lambda **_: Found("rejected")))
    with run(ledger), pytest.raises(Rejected):
        pay("o-1")
    provider.answer_now()
    (work,) = watched
    for outcome in ("succeeded", "rejected", "failed", "succeeded"):
        drive(late.record_late(work, Verdict(outcome)), ledger.ports)
        assert ledger.effects()[0]["state"] == "contradicted"
        assert len(ledger.reviews()) == 1
    check_truth(ledger)
