"""The async block: cancellation, deadlines and interrupts end the run by name, and the record survives them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars

import pytest

from counterfoil.errors import NoRun
from counterfoil.flow.context import current_scope, scope_or_none
from tests.running import facts, gone, types_of


def terminal(ledger):
    return facts(ledger, "c", "run.finished")[-1]["terminal"]


def test_a_cancelled_task_ends_its_run_as_cancelled_and_stays_cancelled(ledger):
    async def main():
        entered = asyncio.Event()

        async def agent():
            async with ledger.run("a", conversation="c"):
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(agent())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert terminal(ledger) == "cancelled"


def test_a_second_cancellation_does_not_cut_the_record_short(ledger, monkeypatch):
    async def main():
        entered, appending, go = asyncio.Event(), asyncio.Event(), asyncio.Event()
        aappend = ledger.ports.aappend

        async def slow_append(unit, claim=None):
            if claim is None:
                appending.set()
                await go.wait()
            return await aappend(unit, claim)

        async def agent():
            async with ledger.run("a", conversation="c"):
                entered.set()
                await asyncio.Event().wait()

        monkeypatch.setattr(ledger.ports, "aappend", slow_append)
        task = asyncio.create_task(agent())
        await entered.wait()
        task.cancel()
        await appending.wait()
        task.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert types_of(ledger, "c")[-1] == "run.finished"


def test_a_cancellation_while_a_run_ends_well_is_not_lost(ledger, monkeypatch):
    async def main():
        appending, go = asyncio.Event(), asyncio.Event()
        aappend = ledger.ports.aappend

        async def slow_append(unit, claim=None):
            if claim is None:
                appending.set()
                await go.wait()
            return await aappend(unit, claim)

        async def agent():
            async with ledger.run("a", conversation="c"):
                monkeypatch.setattr(ledger.ports, "aappend", slow_append)

        task = asyncio.create_task(agent())
        await appending.wait()
        task.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert terminal(ledger) == "success"


def test_the_deadline_of_an_async_run_interrupts_what_it_waits_for(ledger):
    async def main():
        with pytest.raises(TimeoutError):
            async with ledger.run("a", conversation="c", deadline_s=0.01):
                await asyncio.Event().wait()
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(main())
    assert terminal(ledger) == "timeout"


def test_an_interrupt_of_the_event_loop_ends_the_run_as_interrupted(ledger):
    async def main():
        async with ledger.run("a", conversation="c"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert terminal(ledger) == "interrupted"


def test_the_run_travels_into_tasks_and_threads_of_the_loop(ledger):
    async def main():
        async with ledger.run("a", conversation="c") as run:
            in_thread = await asyncio.to_thread(lambda: run.step("thread", lambda: scope_or_none().run_id))
            in_task = await asyncio.create_task(run.astep("task", lambda: scope_or_none().run_id))
            assert in_thread == in_task == run.id
        assert scope_or_none() is None

    asyncio.run(main())


def test_a_bound_async_function_runs_in_the_context_of_the_run(ledger):
    async def look():
        return scope_or_none().run_id

    async def main():
        async with ledger.run("a") as run:
            bound = run.bind(look)
            elsewhere = asyncio.get_running_loop().create_task(bound(), context=contextvars.Context())
            assert await elsewhere == run.id

    asyncio.run(main())


def test_concurrent_runs_of_one_loop_keep_their_own_scopes(ledger):
    async def agent(name):
        async with ledger.run("a", conversation=name) as run:
            for number in range(3):
                assert await run.astep("s", lambda n: (n, scope_or_none().run_id), number) == (number, run.id)

    async def main():
        await asyncio.gather(*(agent(f"c{number}") for number in range(20)))

    asyncio.run(main())
    assert {row["terminal"] for row in ledger.runs()} == {"success"}


def test_siblings_with_the_same_arguments_each_get_a_recorded_result(ledger):
    async def work():
        await asyncio.sleep(0)
        return 1

    async def main(expected):
        async with ledger.run("a", conversation="c", dedupe="1") as run:
            results = await asyncio.gather(*(run.astep("s", work) for _ in range(5)))
        assert results == expected

    asyncio.run(main([1] * 5))
    asyncio.run(main([1] * 5))
    assert len(facts(ledger, "c", "step.finished")) == 5


def test_an_async_block_closed_by_another_task_still_records_its_end(ledger):
    async def generator():
        async with ledger.run("a", conversation="c"):
            yield 1

    async def main():
        stream = generator()
        assert await anext(stream) == 1
        await asyncio.get_running_loop().create_task(stream.aclose(), context=contextvars.Context())

    asyncio.run(main())
    assert types_of(ledger, "c")[-1] == "run.finished"


def test_a_sync_block_inside_async_code_does_not_wait_for_its_own_loop(ledger):
    async def main():
        with pytest.raises(ValueError, match="left"), ledger.run("a", conversation="c") as run:
            started = asyncio.Event()

            async def endless():
                started.set()
                await asyncio.Event().wait()

            sibling = asyncio.create_task(run.astep("endless", endless))
            await started.wait()
            assert (await run.aask(lambda request: "hi", "q")).text == "hi"
            raise ValueError("left")
        sibling.cancel()
        await asyncio.wait({sibling})

    asyncio.run(main())
    assert terminal(ledger) == "runtime_failure"


def test_a_step_that_timed_out_and_is_tried_again_is_the_same_step(world, ledger):
    async def patient(run, delays):
        for delay in delays:
            gate = asyncio.Event()
            if not delay:
                gate.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    return await run.astep("s", gate.wait)
        return pytest.fail("no try came through")

    async def first():
        run = ledger.run("a", conversation="c", dedupe="1")
        await run.__aenter__()
        assert await patient(run, [True, False]) is True
        gone(run)

    asyncio.run(first())
    world.expire_leases()

    async def again():
        async with world.worker().run("a", conversation="c", dedupe="1") as run:
            assert await run.astep("s", lambda: pytest.fail("ran again")) is True

    asyncio.run(again())
    assert [event["outcome"] for event in facts(ledger, "c", "step.finished")] == ["cancelled", "ok"]
    assert len({event.header.step_id for event in ledger.events("c", types=["step.finished"])}) == 1


def test_an_async_generator_consumed_after_the_block_has_no_run(ledger):
    async def stream():
        yield current_scope()

    async def main():
        async with ledger.run("a"):
            late = stream()
        with pytest.raises(NoRun, match="bind"):
            await anext(late)

    asyncio.run(main())
