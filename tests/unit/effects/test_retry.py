"""Failures that are certain are tried again by themselves: on record, under one key, across crashes (DESIGN 7)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from counterfoil.effects import Found, Retry, by_key, by_lookup, by_repeating, by_review, effect, events
from counterfoil.effects.late import record_late
from counterfoil.effects.outcome import Verdict
from counterfoil.effects.registry import own_tools
from counterfoil.errors import NotDone, Rejected, RunWaiting, ToolInvalid
from counterfoil.flow.context import RunScope
from counterfoil.flow.drive import drive
from counterfoil.policy import RuleList
from counterfoil.store.unit import Lease
from counterfoil.testing.crash import LifeUntil, live
from counterfoil.testing.truth import check_truth

PROMPT = Retry(attempts=3, first_delay_s=1, jitter=0)
PATIENT = Retry(attempts=3, first_delay_s=3_600, delay_max_s=7_200, jitter=0)


def declare(provider, retry, doubt=None, **more):
    settings = {"version": "1", "touches": {"money"}, "doubt": doubt or by_review(), "retry": retry} | more

    @effect("pay", **settings)
    def pay(order: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order)

    return pay


def run(ledger, **more):
    return ledger.run("agent", conversation="case", message="please", dedupe="m1", **more)


def act(ledger, pay):
    with run(ledger):
        return pay("o-1")


def test_a_failure_is_tried_again_in_place_and_the_caller_sees_only_the_end(world, ledger, provider, told):
    provider.plan("not_done", "not_done")
    pay = declare(provider, PROMPT)
    before = world.clock.now_ms()
    assert act(ledger, pay)["id"] == "re_1"
    assert told() == ["effect.intended", "effect.observed", "retry.decided"] * 2 + [
        "effect.intended",
        "effect.observed",
    ]
    assert world.clock.now_ms() - before == 3_000
    assert len(provider.requests) == 3
    assert len(set(provider.requests)) == 1
    check_truth(ledger)


def test_each_decision_says_what_failed_how_often_it_may_and_when_it_is_due(ledger, provider):
    provider.plan("not_done")
    act(ledger, declare(provider, PROMPT))
    (decided,) = ledger.events("case", types={"retry.decided"})
    assert dict(decided.data) == {
        "effect_id": ledger.effects()[0]["effect_id"],
        "error_class": "NotDone",
        "retry": True,
        "attempts_max": 3,
        "delay_ms": 1_000,
        "same_key": True,
    }
    assert decided.header.attempt == 1


def test_after_the_last_attempt_the_caller_gets_the_failure_now_and_when_resuming(ledger, provider, told):
    provider.plan(*["not_done"] * 3)
    pay = declare(provider, PROMPT)

    def agent():
        with run(ledger):
            with pytest.raises(NotDone):
                pay("o-1")
            return pay("o-1")

    receipt = agent()
    assert [retry for name, retry in told("retry") if name == "retry.decided"] == [True, True, False]
    recorded = told()
    assert agent() == receipt
    assert told() == recorded
    assert len(provider.requests) == 4


@pytest.mark.parametrize("fault", ["answer_lost", "unreached"])
def test_an_unknown_outcome_is_never_tried_again_by_a_policy(ledger, provider, fault):
    provider.plan(fault)
    with pytest.raises(RunWaiting):
        act(ledger, declare(provider, Retry(attempts=9)))
    assert len(provider.requests) <= 1
    assert ledger.effects()[0]["state"] == "in_review"


def test_a_rejection_is_final(ledger, provider):
    provider.plan("rejected")
    with pytest.raises(Rejected):
        act(ledger, declare(provider, PROMPT))
    assert len(provider.requests) == 1


def test_a_failure_that_a_lookup_found_is_tried_again_too(ledger, provider):
    provider.plan("unreached")
    pay = declare(provider, PROMPT, by_lookup(lambda: Found("failed")))
    assert act(ledger, pay)["id"] == "re_1"
    assert ledger.effects()[0]["attempt"] == 2


def test_an_error_of_a_tool_that_touches_nothing_may_be_named(ledger, provider):
    provider.plan("unreached", "unreached")
    look = declare(provider, Retry(on=ConnectionError, jitter=0), by_repeating(), touches=set())
    assert act(ledger, look)["id"] == "re_1"


def test_a_doubt_between_two_attempts_is_ended_first(ledger, provider):
    provider.plan("not_done", "answer_lost")
    assert act(ledger, declare(provider, PROMPT, by_key()))["id"] == "re_1"
    assert provider.booked() == 1
    check_truth(ledger)


def test_async_tools_are_tried_again_without_holding_up_the_loop(ledger, provider):
    provider.plan("not_done")

    @effect("pay", version="1", touches={"money"}, doubt=by_review(), retry=PROMPT)
    async def pay(order: str, *, idempotency_key: str = ""):
        return await provider.asend(idempotency_key=idempotency_key, order=order)

    async def agent():
        async with run(ledger):
            return await pay("o-1")

    assert asyncio.run(agent())["id"] == "re_1"


# ---- later -----------------------------------------------------------------------------------------------------------


def test_a_long_pause_parks_the_run_and_recovery_makes_the_attempt_when_it_is_due(world, ledger, provider):
    provider.plan("not_done")
    pay = declare(provider, PATIENT)
    with pytest.raises(RunWaiting) as waiting:
        act(ledger, pay)
    assert waiting.value.waits_for == (ledger.effects()[0]["effect_id"],)
    assert ledger.runs()[0]["state"] == "suspended"
    (early,) = ledger.recover().retries
    assert (early.done, early.state) == ("left", "failed")
    assert len(provider.requests) == 1
    world.clock.advance(3_600_000)
    (due,) = ledger.recover().retries
    assert (due.done, due.state) == ("decided", "succeeded")
    assert act(ledger, pay)["id"] == "re_1"
    assert len(provider.requests) == 2
    check_truth(ledger)


def test_running_the_code_again_makes_the_attempt_too_but_not_early(world, ledger, provider):
    provider.plan("not_done")
    pay = declare(provider, PATIENT)
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    recorded = [event.type for event in ledger.events("case")]
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    assert [event.type for event in ledger.events("case")] == recorded
    assert len(provider.requests) == 1
    world.clock.advance(3_600_000)
    assert act(ledger, pay)["id"] == "re_1"
    assert ledger.recover().retries == []
    check_truth(ledger)


def test_a_deadline_of_the_run_is_no_reason_to_wait_in_place(ledger, provider):
    provider.plan("not_done")
    pay = declare(provider, Retry(first_delay_s=20, jitter=0))
    with pytest.raises(RunWaiting), run(ledger, deadline_s=10):
        pay("o-1")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_retry_that_was_decided_outlives_its_worker(world, provider, when):
    provider.plan("not_done")
    pay = declare(provider, PROMPT)
    live(world, LifeUntil("wait", when), lambda ledger: act(ledger, pay))
    assert len(provider.requests) == 1
    world.time_passes()
    ledger = world.open()
    (made,) = ledger.recover().retries
    assert (made.done, made.state) == ("decided", "succeeded")
    assert act(world.open(), pay)["id"] == "re_1"
    check_truth(ledger)


def test_recovery_follows_the_policy_on(world, ledger, provider):
    provider.plan("not_done", "not_done")
    pay = declare(provider, PATIENT)
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    world.clock.advance(3_600_000)
    (again,) = ledger.recover().retries
    assert (again.done, again.state) == ("retrying", "failed")
    assert again.why.startswith("not done; its next attempt is due at ")
    assert not ledger.recover().undecided
    world.clock.advance(7_200_000)
    assert ledger.recover().retries[0].state == "succeeded"
    check_truth(ledger)


def test_doubt_that_arises_in_a_due_retry_goes_to_its_rule(world, ledger, provider):
    provider.plan("not_done", "answer_lost")
    pay = declare(provider, PATIENT)
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    world.clock.advance(3_600_000)
    report = ledger.recover()
    assert [(entry.done, entry.state) for entry in report.retries] == [("review", "in_review")]
    assert len(report.undecided) == 1


def given_up(ledger):
    (report,) = ledger.recover().retries
    assert (report.done, report.state) == ("given_up", "failed")
    assert ledger.recover().retries == []
    decided = list(ledger.events("case", types={"retry.decided"}))[-1].data
    check_truth(ledger)
    return decided["retry"], decided["error_class"]


def test_nobody_wants_the_retry_of_a_run_that_has_ended(world, ledger, provider):
    provider.plan("not_done")
    pay = declare(provider, PROMPT)
    live(world, LifeUntil("wait", "before"), lambda ledger: act(ledger, pay))
    world.time_passes()
    with run(world.open()):
        pass  # the code has been changed: it asks for nothing any more
    assert given_up(ledger) == (False, "RunEnded")
    assert len(provider.requests) == 1


def test_a_key_that_another_run_took_over_is_not_fought_for(world, ledger, provider):
    provider.plan("not_done")
    pay = declare(provider, PATIENT, key=lambda order: f"pay:{order}")
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    with ledger.run("agent", conversation="other", message="please", dedupe="m2"):
        receipt = pay("o-1")
    world.clock.advance(3_600_000)
    assert given_up(ledger) == (False, "KeyTaken")
    with pytest.raises(NotDone):
        act(ledger, pay)
    assert provider.booked() == 1
    assert receipt["id"] == "re_1"


def test_arguments_that_do_not_fit_the_tool_any_more_are_not_sent(world, ledger, provider):
    provider.plan("not_done")
    pay = declare(provider, PATIENT)
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    world.clock.advance(3_600_000)
    with own_tools():

        @effect("pay", version="1", touches={"money"}, doubt=by_review(), retry=PATIENT)
        def changed(invoice: str):
            raise AssertionError("not to be called")

        assert given_up(ledger) == (False, "SchemaChanged")
    with pytest.raises(NotDone):
        act(ledger, pay)


def test_without_the_tools_code_a_due_retry_is_left(world, ledger, provider):
    provider.plan("not_done")
    pay = declare(provider, PATIENT)
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    world.clock.advance(3_600_000)
    with own_tools():
        report = ledger.recover()
    assert [entry.done for entry in report.retries] == ["left"]
    assert report.tools_missing == ["pay"]


def test_a_late_answer_makes_the_retry_needless(world, ledger, provider):
    provider.plan("not_done")
    pay = declare(provider, PATIENT)
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    row = ledger.effects()[0]
    attempt = events.Attempt(row["effect_id"], 1, row["intended_event_id"])
    scope = RunScope(
        ledger.ports,
        stream_id=row["stream_id"],
        run_id=row["run_id"],
        agent="agent",
        lease=Lease(row["stream_id"], 1, "nobody", 0),
    )
    late = SimpleNamespace(scope=scope)
    drive(record_late(late, Verdict("succeeded", {"result": 1}), attempt), ledger.ports)
    assert ledger.effects()[0]["state"] == "contradicted"
    world.clock.advance(3_600_000)
    assert ledger.recover().retries == []
    assert len(provider.requests) == 1


def test_a_run_that_began_under_a_policy_goes_on_under_it(world, ledger, provider):
    provider.plan("not_done")
    pay = declare(provider, PATIENT)
    ledger.policy = RuleList("limits", revision="1", otherwise="allow", rules=[])
    with pytest.raises(RunWaiting):
        act(ledger, pay)
    world.clock.advance(3_600_000)
    assert [entry.done for entry in world.open().recover().retries] == ["left"]
    assert len(provider.requests) == 1
    assert act(ledger, pay)["id"] == "re_1"


def test_a_policy_is_refused_when_the_tool_is_declared(provider):
    with pytest.raises(ToolInvalid, match="unknown"):
        declare(provider, Retry(on=(NotDone, TimeoutError)))
