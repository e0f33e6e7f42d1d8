"""What may wait for a disk or a server is asked for off the event loop, and what was asked for is never lost."""

from __future__ import annotations

import asyncio
import threading

import pytest

import counterfoil
from counterfoil.effects import by_key
from counterfoil.effects.registry import own_tools
from counterfoil.flow.calls import off_the_loop
from counterfoil.flow.context import LEASE_TTL_MS
from tests.running import facts

WAIT_S = 30


class Gate:
    """A call of the store that waits until somebody else, on the event loop, opens it."""

    def __init__(self, real):
        self.real = real
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self, *args):
        self.begun.set()
        assert self.open.wait(WAIT_S), "the event loop waited too"
        return self.real(*args)

    async def when_begun(self):
        assert await asyncio.to_thread(self.begun.wait, WAIT_S)


@pytest.fixture
def gate(ledger, monkeypatch):
    """Holds back the call of this name of the ledger's store."""

    def at(name):
        made = Gate(getattr(ledger.store, name))
        monkeypatch.setattr(ledger.store, name, made)
        return made

    return at


def test_the_loop_goes_on_while_a_run_is_claimed(ledger, gate):
    claiming = gate("claim")

    async def agent():
        async with ledger.run("a", conversation="c") as run:
            run.finish("done")

    async def main():
        task = asyncio.create_task(agent())
        await claiming.when_begun()
        claiming.open.set()
        await task

    asyncio.run(main())
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "success"


def test_a_task_that_is_cancelled_while_its_run_is_claimed_leaves_no_run_behind(ledger, gate):
    claiming = gate("claim")

    async def agent():
        async with ledger.run("a", conversation="c"):
            await asyncio.sleep(0)
            pytest.fail("went on after it was cancelled")

    async def main():
        task = asyncio.create_task(agent())
        await claiming.when_begun()
        task.cancel()
        await asyncio.sleep(0)
        claiming.open.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "cancelled"
    assert ledger.store.head(ledger.stream_of("c")).lease is None


def test_the_loop_goes_on_while_a_lease_is_renewed_for_a_call(world, ledger, gate):
    renewing = gate("renew")
    with own_tools():

        @counterfoil.effect("pay", version="1", touches={"money"}, key=lambda order: order, doubt=by_key())
        async def pay(order: str, *, idempotency_key: str = ""):
            return {"order": order}

        async def agent():
            async with ledger.run("a", conversation="c"):
                world.clock.advance(LEASE_TTL_MS // 2)
                return await pay("o-1")

        async def main():
            task = asyncio.create_task(agent())
            await renewing.when_begun()
            renewing.open.set()
            return await task

        assert asyncio.run(main()) == {"order": "o-1"}


def test_the_loop_goes_on_while_a_lease_is_given_up(ledger, gate):
    releasing = gate("release")

    async def agent():
        async with ledger.run("a", conversation="c"):
            pass

    async def main():
        task = asyncio.create_task(agent())
        await releasing.when_begun()
        releasing.open.set()
        await task

    asyncio.run(main())
    assert ledger.store.head(ledger.stream_of("c")).lease is None


def test_nobody_who_only_looks_at_a_run_waits_for_its_renewal(world, ledger, gate):
    with ledger.run("a", conversation="c") as run:
        renewing = gate("renew")
        world.clock.advance(LEASE_TTL_MS // 2)
        beat = threading.Thread(target=ledger._heartbeat.beat)
        beat.start()
        assert renewing.begun.wait(WAIT_S)
        assert run.step("s", lambda: 1) == 1
        renewing.open.set()
        beat.join(WAIT_S)


def test_a_cancellation_is_heard_after_the_answer_and_counts_once():
    gate = Gate(lambda: "answer")

    async def asking(told):
        told.append(await off_the_loop(gate))
        told.append(asyncio.current_task().cancelling())
        await asyncio.sleep(0)
        told.append("went on")

    async def main():
        told = []
        task = asyncio.create_task(asking(told))
        await gate.when_begun()
        task.cancel()
        await asyncio.sleep(0)
        gate.open.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return told

    assert asyncio.run(main()) == ["answer", 1]


def test_a_timeout_that_passes_meanwhile_is_told_as_a_timeout():
    gate = Gate(lambda: "answer")

    async def main():
        opening = asyncio.get_running_loop()
        async with asyncio.timeout(0):
            opening.call_later(0.01, gate.open.set)
            assert await off_the_loop(gate) == "answer"
            await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_what_a_call_raises_comes_out_of_it():
    async def main():
        await off_the_loop(int, "no number")

    with pytest.raises(ValueError, match="no number"):
        asyncio.run(main())
