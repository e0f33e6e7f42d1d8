"""Schedules on every engine: each due time brings its input once, whoever fires it, dies over it, or has another clock."""

from __future__ import annotations

import threading

import pytest

from counterfoil.errors import RunWaiting
from counterfoil.runtime.agents import agent, own_agents
from counterfoil.testing.crash import A_LONG_TIME_MS, LifeUntil, live
from tests.stage import CASE

MINUTE_MS = 60_000


@pytest.fixture
def served(stage):
    """The refund agent as a worker runs it, and the messages of its runs."""
    messages = []

    def serve(run):
        messages.append(run.message)

    async def aserve(run):
        serve(run)

    with own_agents():
        agent("refund-agent")(aserve if stage.asynchronous else serve)
        yield messages


def scheduled(stage, **how):
    settings = {"conversation": CASE, "message": "tick", "every_s": 60, "missed": "all", **how}
    return stage.open().schedule("refund-agent", **settings)


def due_times(stage):
    return [event.data["due_at"] for event in stage.open().events(CASE, types=["schedule.fired"])]


def work(stage):
    while stage.open().worker().look():
        pass


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", ["append schedule.fired", "append run.started", "append run.finished"])
def test_a_due_time_comes_once_whatever_dies_over_it(stage, served, where, when):
    scheduled(stage)
    stage.world.clock.advance(2 * MINUTE_MS)
    live(stage.world, LifeUntil(where, when), _look)
    stage.world.clock.advance(A_LONG_TIME_MS)
    stage.open().cancel_schedule(stage.open().schedules()[0]["schedule_id"], by="Ines")
    work(stage)
    times = due_times(stage)
    assert len(times) == len(set(times))
    accepted = stage.open().events(CASE, types=["admission.accepted"])
    assert len(list(accepted)) == len(times) == len(stage.runs())
    assert {terminal for _, terminal in stage.runs()} <= {"success"}


def _look(ledger):
    while ledger.worker().look():
        pass


def test_many_workers_at_once_fire_each_due_time_once(stage, served):
    """Ten minutes passed; four workers, each with a handle of its own, begin at the same moment."""
    made = scheduled(stage)
    stage.world.clock.advance(10 * MINUTE_MS)
    ledgers = [stage.open() for _ in range(4)]
    barrier, told = threading.Barrier(4), []

    def fire(ledger):
        barrier.wait()
        for _ in range(12):
            told.extend(ledger.fire_due())

    threads = [threading.Thread(target=fire, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {fired.done for fired in told} == {"fired"}
    assert sorted(fired.due_ms for fired in told) == [made.due_ms + n * MINUTE_MS for n in range(10)]
    assert len(due_times(stage)) == 10
    work(stage)
    assert served == ["tick"] * 10


def test_a_run_sleeps_over_a_restart(stage):
    steps = []

    def begin(run):
        run.step("before", steps.append, 1)
        run.sleep(86_400)
        run.step("after", steps.append, 2)

    async def abegin(run):
        await run.astep("before", steps.append, 1)
        await run.asleep(86_400)
        await run.astep("after", steps.append, 2)

    with own_agents():
        agent("refund-agent")(abegin if stage.asynchronous else begin)
        with pytest.raises(RunWaiting):
            stage.play(sleeping(stage, abegin if stage.asynchronous else begin))
        work(stage)
        stage.world.clock.advance(86_400_000)
        work(stage)
    assert steps == [1, 2]
    assert stage.runs() == [("finished", "success")]


async def sleeping(stage, code):
    async with stage.run(stage.open()) as run:
        given = code(run)
        if stage.asynchronous:
            await given
