"""Case S15: calls that ran side by side are matched by what they are and not by their order, on whichever worker goes on."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import Divergence
from counterfoil.testing.crash import World, crash_here
from counterfoil.testing.provider import FakeProvider
from counterfoil.testing.truth import check_truth

LANES = ("a", "b", "c")
WORKERS = 50
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


class Turns:
    """Which of the calls ends first, second and third: each waits for the one before it to be on record.

    ``begun`` and ``ended`` are two orders that chance has chosen; the last one to end is where the worker dies.
    """

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.begun, self.ended = chance.sample(LANES, 3), chance.sample(LANES, 3)
        self._over = {lane: threading.Event() for lane in LANES}
        self._over_async = {lane: asyncio.Event() for lane in LANES}

    def await_turn(self, lane: str) -> None:
        before = self.ended.index(lane) - 1
        if before >= 0:
            assert self._over[self.ended[before]].wait(PATIENCE_S)

    async def await_turn_async(self, lane: str) -> None:
        before = self.ended.index(lane) - 1
        if before >= 0:
            await asyncio.wait_for(self._over_async[self.ended[before]].wait(), PATIENCE_S)

    def over(self, lane: str) -> None:
        self._over[lane].set()
        self._over_async[lane].set()

    def is_last(self, lane: str) -> bool:
        return lane == self.ended[-1]


class Agent:
    """Three calls at once, as effects or as steps, by threads or by tasks. ``turns`` is the worker's own."""

    def __init__(self, kind: str, way: str) -> None:
        self.kind, self.way = kind, way
        self.provider = FakeProvider()
        self.ran: list[str] = []
        self.turns: Turns = Turns(0)
        declare = counterfoil.effect(
            "note.send", version="1", touches={"messages"}, doubt=counterfoil.by_key()
        )
        self.tool = declare(self.asend if way == "tasks" else self.send)

    def send(self, lane: str, *, idempotency_key: str = "") -> str:
        self.turns.await_turn(lane)
        return self.work(lane, idempotency_key)

    async def asend(self, lane: str, *, idempotency_key: str = "") -> str:
        await self.turns.await_turn_async(lane)
        return self.work(lane, idempotency_key)

    def work(self, lane: str, key: str) -> str:
        if self.turns.is_last(lane):
            crash_here()
        self.ran.append(lane)
        if key:
            self.provider.send(idempotency_key=key, lane=lane)
        return f"did {lane}"

    def call(self, run, lane: str):
        result = self.tool(lane) if self.kind == "effect" else run.step(lane, self.send, lane)
        self.turns.over(lane)
        return result

    async def acall(self, run, lane: str):
        if self.kind == "effect":
            result = await self.tool(lane)
        else:
            result = await run.astep(lane, self.asend, lane)
        self.turns.over(lane)
        return result

    def begin(self, ledger):
        return ledger.run("agent", conversation="case", message="please", dedupe="m1", wait_s=60)

    def __call__(self, ledger):
        return self.tasks(ledger) if self.way == "tasks" else self.threads(ledger)

    async def tasks(self, ledger):
        async with self.begin(ledger) as run:
            got = await asyncio.gather(*(self.acall(run, lane) for lane in self.turns.begun))
            run.finish(dict(zip(self.turns.begun, got, strict=True)))
        return run.output

    def threads(self, ledger):
        with self.begin(ledger) as run, ThreadPoolExecutor(3) as pool:
            lanes = [pool.submit(run.bind(self.call), run, lane) for lane in self.turns.begun]
            wait(lanes)
            run.finish({lane: done.result() for lane, done in zip(self.turns.begun, lanes, strict=True)})
        return run.output


def carried(work):
    return asyncio.run(work) if asyncio.iscoroutine(work) else work


@pytest.mark.parametrize("way", ["tasks", "threads"])
@pytest.mark.parametrize("kind", ["effect", "step"])
def test_what_two_of_three_calls_gave_is_handed_to_the_same_calls_by_the_next_worker(kind, way):
    for seed in range(WORKERS):
        agent = Agent(kind, way)
        with World() as world:
            agent.turns = Turns(seed)
            *done, last = agent.turns.ended
            assert world.dies(agent), seed
            assert agent.ran == done, seed
            world.time_passes()
            agent.turns = Turns(WORKERS + seed)
            agent.turns.ended = [*done, last]
            ledger = world.open()
            assert carried(agent(ledger)) == {lane: f"did {lane}" for lane in LANES}, seed
            assert agent.ran == [*done, last], seed
            if kind == "effect":
                assert sorted(dict(entry.what)["lane"] for entry in agent.provider.book) == list(LANES), seed
                assert [row["state"] for row in ledger.effects()] == ["succeeded"] * 3
            check_truth(ledger)


@pytest.mark.parametrize("way", ["tasks", "threads"])
def test_other_code_before_the_calls_stops_each_time_with_both_sides_and_the_right_code_goes_on(way):
    agent, orders = Agent("step", way), []
    plain = agent.begin

    class Planned:
        """The same run, with one step before the three: ``order`` says for which order it plans."""

        def __init__(self, ledger, order):
            self.inner, self.order = plain(ledger), order

        def plan(self, run):
            run.step("plan", orders.append, self.order)
            return run

        def __enter__(self):
            return self.plan(self.inner.__enter__())

        def __exit__(self, *left):
            return self.inner.__exit__(*left)

        async def __aenter__(self):
            run = await self.inner.__aenter__()
            await run.astep("plan", orders.append, self.order)
            return run

        async def __aexit__(self, *left):
            return await self.inner.__aexit__(*left)

    with World() as world:
        agent.begin = lambda ledger: Planned(ledger, "O-1")
        agent.turns = Turns(1)
        *done, last = agent.turns.ended
        assert world.dies(agent)
        world.time_passes()
        for _ in range(2):
            with pytest.raises(Divergence) as stopped, plain(world.open()) as run:
                run.step("plan", orders.append, "O-2")
            assert stopped.value.recorded["name"] == stopped.value.found["name"] == "plan"
            assert stopped.value.recorded["memo"] != stopped.value.found["memo"]
        assert (orders, agent.ran) == (["O-1"], done)
        agent.turns = Turns(2)
        agent.turns.ended = [*done, last]
        assert carried(agent(world.open())) == {lane: f"did {lane}" for lane in LANES}
        assert (orders, agent.ran) == (["O-1"], [*done, last])
