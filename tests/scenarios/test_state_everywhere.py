"""State slots on every engine, by sync code and by tasks: over runs, restarts and a worker that dies in between."""

from __future__ import annotations

from counterfoil.testing.crash import A_LONG_TIME_MS, LifeUntil, live
from tests.stage import CASE


async def put(stage, run, name, value):
    return await run.state.aset(name, value) if stage.asynchronous else run.state.set(name, value)


async def got(stage, run, name):
    return await run.state.aget(name) if stage.asynchronous else run.state.get(name)


async def count_up(stage, ledger, dedupe, **settings):
    """A run that adds one to a number in a slot, twice."""
    async with stage.run(ledger, dedupe=dedupe, **settings) as run:
        for _ in range(2):
            await put(stage, run, "count", (await got(stage, run, "count") or 0) + 1)
        run.finish(await got(stage, run, "count"))
    return run.output


def test_a_slot_outlives_runs_and_restarts(stage):
    assert [stage.play(count_up(stage, stage.open(), str(n))) for n in range(3)] == [2, 4, 6]
    (slot,) = stage.open().slots(CASE)
    assert (slot.name, slot.version, slot.value) == ("count", 6, 6)
    third = [event.sequence for event in stage.open().events(CASE, types=["state.set"])][2]
    assert [slot.value for slot in stage.open().slots(CASE, third)] == [3]


def test_a_worker_that_dies_behind_a_set_has_set_once(stage):
    def work(ledger):
        agent = count_up(stage, ledger, "1")
        return agent if stage.asynchronous else stage.play(agent)

    live(stage.world, LifeUntil("append state.set"), work)
    stage.world.clock.advance(A_LONG_TIME_MS)
    assert stage.play(count_up(stage, stage.open(), "1")) == 2
    assert [slot.version for slot in stage.open().slots(CASE)] == [2]
