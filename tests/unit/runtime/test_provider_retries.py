"""Attempts at a provider call: each is two appends, retries share their step, and usage counts once."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import counterfoil
from counterfoil.effects import Retry
from counterfoil.errors import InvalidForm, ModelFailed
from counterfoil.flow.drive import watched
from counterfoil.flow.requests import Append
from tests.running import ScriptedModel, facts, types_of, vanish


class Busy(Exception):
    """As HTTP clients raise it."""

    def __init__(self, status_code):
        super().__init__(f"status {status_code}")
        self.status_code = status_code


class Appends:
    """Counts the appends of a flow."""

    def __init__(self):
        self.count = 0

    def before(self, request):
        self.count += isinstance(request, Append)

    def after(self, request):
        pass


SERVED = counterfoil.Response(
    "ok", input_tokens=10, output_tokens=2, cost="0.01", currency="EUR", id="resp_1"
)


@pytest.mark.parametrize(
    "answers, attempts",
    [
        ([SERVED], 1),
        ([Busy(429), SERVED], 2),
        ([Busy(429), Busy(503), TimeoutError(), SERVED], 4),
        ([Busy(400)], 1),
        ([Busy(429)] * 4, 4),
        ([KeyboardInterrupt()], 1),
        ([object()], 1),
    ],
    ids=["answered", "second", "fourth", "refused", "never", "interrupted", "unusable"],
)
@pytest.mark.parametrize("history", [1, 150])
def test_each_attempt_at_a_provider_call_is_two_appends(ledger, answers, attempts, history):
    counted = Appends()
    passed = contextlib.suppress(ModelFailed, KeyboardInterrupt)
    with ledger.run("a", conversation="c") as run, watched(counted), passed:
        run.ask(ScriptedModel(*answers), ["m"] * history, retry=Retry(attempts=4, first_delay_s=0))
    assert counted.count == 2 * attempts
    assert len(facts(ledger, "c", "provider.requested")) == attempts


def test_retries_share_their_step_and_usage_counts_once(world, ledger):
    model = ScriptedModel(Busy(429), ConnectionError("reset"), SERVED)
    with ledger.run("a", conversation="c") as run:
        assert run.ask(model, "q", retry=Retry(attempts=3, first_delay_s=2, jitter=0)).text == "ok"
    assert types_of(ledger, "c")[3:-1] == [
        "step.started",
        "provider.message_recorded",
        "provider.requested",
        "provider.failed",
        "retry.decided",
        "step.started",
        "provider.requested",
        "provider.failed",
        "retry.decided",
        "step.started",
        "provider.requested",
        "provider.responded",
        "step.finished",
    ]
    events = [event for event in ledger.events("c") if event.header.step_id]
    assert len({event.header.step_id for event in events}) == 1
    assert [event.header.attempt for event in events if event.type == "provider.requested"] == [1, 2, 3]
    decided = [dict(event.data) for event in events if event.type == "retry.decided"]
    assert [(data["retry"], data["attempts_max"], data["delay_ms"]) for data in decided] == [
        (True, 3, 2000),
        (True, 3, 4000),
    ]
    calls = [event.data["call_id"] for event in events if event.type == "provider.failed"]
    assert [data["call_id"] for data in decided] == calls
    (finished,) = facts(ledger, "c", "run.finished")
    assert (finished["calls"], finished["input_tokens"], finished["cost"]) == (1, 10, "0.01")
    assert "response" not in finished
    step = next(event for event in events if event.type == "step.finished")
    responded = next(event for event in events if event.type == "provider.responded")
    assert step.content["response"] == responded.content["response"] == {"id": "resp_1"}
    assert len({found.body for found in ledger.requests("c")}) == 1


def test_the_pause_is_made_on_the_ledgers_clock(world, ledger):
    began = world.clock.now_ms()
    with ledger.run("a", conversation="c") as run:
        run.ask(ScriptedModel(Busy(429), "ok"), "q", retry=Retry(attempts=2, first_delay_s=7, jitter=0))
    assert world.clock.now_ms() - began == 7000


@pytest.mark.parametrize(
    "error, tried",
    [
        (Busy(408), 2), (Busy(429), 2), (Busy(500), 2), (Busy(529), 2), (Busy(400), 1), (Busy(401), 1), (Busy(404), 1),
        (TimeoutError(), 2), (ConnectionError(), 2), (ValueError(), 1), (counterfoil.NotDone("not now"), 2),
    ],
    ids=lambda value: str(getattr(value, "status_code", type(value).__name__)),
)  # fmt: skip
def test_a_policy_without_errors_of_its_own_is_for_what_may_pass(ledger, error, tried):
    model = ScriptedModel(error, "ok")
    with ledger.run("a", conversation="c") as run, contextlib.suppress(ModelFailed):
        run.ask(model, "q", retry=Retry(attempts=2, first_delay_s=0))
    assert len(model.requests) == tried


def test_a_policy_may_name_its_errors_and_the_first_that_covers_one_counts(ledger):
    model = ScriptedModel(ValueError(), ValueError(), KeyError(), "ok")
    policies = [
        Retry(attempts=9, first_delay_s=0, on=ValueError),
        Retry(attempts=4, first_delay_s=0, on=LookupError),
    ]
    with ledger.run("a", conversation="c") as run:
        assert run.ask(model, "q", retry=policies).text == "ok"


def test_a_pause_that_a_provider_asks_for_is_kept_and_one_too_long_is_the_agents_to_decide(world, ledger):
    class Limited(Busy):
        retry_after_s = 20

    began = world.clock.now_ms()
    with ledger.run("a", conversation="c") as run:
        run.ask(ScriptedModel(Limited(429), "ok"), "q", retry=Retry(attempts=2, first_delay_s=1))
        assert world.clock.now_ms() - began == 20_000
        with pytest.raises(ModelFailed):
            run.ask(
                ScriptedModel(Limited(429), "ok"), "q2", retry=Retry(attempts=2, first_delay_s=1, wait_s=10)
            )
    assert [data["retry"] for data in facts(ledger, "c", "retry.decided")] == [True, False]


def test_a_model_may_bring_its_policy_along(ledger):
    model = ScriptedModel(Busy(429), "ok")
    model.retry = Retry(attempts=2, first_delay_s=0)
    with ledger.run("a", conversation="c") as run:
        assert run.ask(model, "q").text == "ok"


def test_a_retry_that_its_worker_did_not_live_to_make_is_made_when_it_is_due(world, ledger):
    class Gone(BaseException):
        pass

    def dies(run):
        world.clock.sleep, sleep = _dying(Gone), world.clock.sleep
        try:
            with pytest.raises(Gone):
                run.ask(ScriptedModel(Busy(429)), "q", retry=Retry(attempts=3, first_delay_s=25, jitter=0))
        finally:
            world.clock.sleep = sleep

    decided = world.clock.now_ms()
    vanish(ledger.run("a", conversation="c", dedupe="1"), dies)
    with world.worker().run("a", conversation="c", dedupe="1", wait_s=60) as again:
        assert again.ask(ScriptedModel("yes"), "q").text == "yes"
    attempts = [event.header.attempt for event in ledger.events("c", types=["provider.requested"])]
    assert attempts == [1, 2]
    assert world.clock.now_ms() - decided >= 25_000


def _dying(error):
    def sleep(seconds):
        raise error

    return sleep


def test_a_retry_that_is_no_policy_is_named_before_anything_is_written(ledger):
    with ledger.run("a", conversation="c") as run, pytest.raises(InvalidForm, match="retry is"):
        run.ask(ScriptedModel("ok"), "q", retry=3)
    assert "step.started" not in types_of(ledger, "c")


def test_tasks_retry_in_the_same_way(ledger):
    model = ScriptedModel(Busy(503), "ok")

    async def main():
        async with ledger.run("a", conversation="c") as run:
            return (await run.aask(model, "q", retry=Retry(attempts=2, first_delay_s=0))).text

    assert asyncio.run(main()) == "ok"
    assert len(model.requests) == 2
