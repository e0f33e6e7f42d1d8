"""Inputs that wait, on every engine and in both ways: workers start each once, whoever dies in between."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import counterfoil
from counterfoil.errors import RunBusy, RunWaiting
from counterfoil.runtime.agents import agent, own_agents
from counterfoil.testing.crash import A_LONG_TIME_MS, LifeUntil, live
from tests.stage import CASE

DAY_MS = 86_400_000


@pytest.fixture
def served(stage):
    """The refund agent as a worker runs it, and the messages of its runs."""
    messages = []

    def serve(run):
        messages.append(run.message)
        run.finish(run.message)

    async def aserve(run):
        serve(run)

    with own_agents():
        agent("refund-agent")(aserve if stage.asynchronous else serve)
        yield messages


def later(stage, after_ms):
    return datetime.fromtimestamp((stage.open().ports.now_ms() + after_ms) / 1000, UTC)


def pass_of_a_worker(stage):
    told = []
    stage.open().worker(tell=told.append).look()
    return [(each.done, each.terminal) for each in told]


def test_an_input_waits_for_days_and_is_run_once(stage, served):
    ledger = stage.open()
    ledger.admit(
        "refund-agent", conversation=CASE, message="later", dedupe="m1", until=later(stage, 30 * DAY_MS)
    )
    assert pass_of_a_worker(stage) == []
    with pytest.raises(RunBusy, match="waits until"):
        stage.play(answer(stage))
    stage.world.clock.advance(30 * DAY_MS)
    assert pass_of_a_worker(stage) == [("ended", "success")]
    assert pass_of_a_worker(stage) == []
    assert served == ["later"]


async def answer(stage):
    async with stage.run(stage.open(), message="later"):
        pass


@pytest.mark.parametrize("where", ["append admission.released, run.started", "append run.finished"])
def test_a_worker_that_dies_with_an_input_in_hand_leaves_it_to_the_next(stage, served, where):
    stage.open().admit(
        "refund-agent", conversation=CASE, message="later", dedupe="m1", until=later(stage, DAY_MS)
    )
    stage.world.clock.advance(DAY_MS)

    def work(ledger):
        ledger.worker().look()

    live(stage.world, LifeUntil(where), work)
    stage.world.clock.advance(A_LONG_TIME_MS)
    while pass_of_a_worker(stage):
        pass
    assert stage.runs() == [("finished", "success")]
    assert set(served) == {"later"}


async def stepwise(stage, pay):
    async with stage.run(stage.open()) as run:
        if stage.asynchronous:
            await run.astep("plan", str.upper, "plan")
        else:
            run.step("plan", str.upper, "plan")
        run.finish(await stage.call(pay, "O-1"))
    return run


def test_a_run_that_waits_for_a_month_goes_on_where_it_was(stage):
    """Long suspensions: no lease, no slot, and other runs of the conversation come and go meanwhile."""

    def lost(order: str):
        raise ConnectionError

    async def alost(order: str):
        raise ConnectionError

    pay = stage.declare(lost, alost, doubt=counterfoil.by_review())
    with pytest.raises(RunWaiting):
        stage.play(stepwise(stage, pay))
    for day in range(30):
        stage.world.clock.advance(DAY_MS)
        if day % 10 == 0:
            stage.play(other(stage, day))
    ledger = stage.open()
    (review,) = ledger.reviews()
    ledger.settle(review["review_id"], "succeeded", by="Ines", reason="seen", result={"id": "r1"})
    run = stage.play(stepwise(stage, pay))
    assert (run.terminal, run.output) == ("success", {"id": "r1"})
    steps = [e for e in ledger.events(CASE, types=["step.finished"]) if e.header.run_id == run.id]
    assert [step.data["name"] for step in steps if step.data["kind"] == "code"] == ["plan"]


async def other(stage, day):
    async with stage.run(stage.open(), message="meanwhile", dedupe=f"day {day}"):
        pass
