"""Appending from asyncio, over a store that a test holds in its hands."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from counterfoil.errors import AppendTimeout, QueueFull, StoreIO
from counterfoil.store import aio
from counterfoil.store.aio import AsyncAppender
from counterfoil.store.future import AppendFuture
from counterfoil.store.unit import Unit

SOON_S = 20.0


class Store:
    """Keeps each append until it is told to answer; a unit's outcome is the unit itself."""

    def __init__(self):
        self.appends = []
        self.futures = []
        self.refuse = None
        self.taken = asyncio.Event()

    def append(self, units):
        if self.refuse is not None:
            raise self.refuse
        future = Future()
        self.appends.append(list(units))
        self.futures.append(future)
        self.taken.set()
        return future

    def answer(self, number=-1):
        self.futures[number].set_result(list(self.appends[number]))


@pytest.fixture
def store():
    return Store()


def unit():
    return Unit(())


async def settle():
    """Let every task that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


def run(main):
    return asyncio.run(asyncio.wait_for(main, SOON_S))


def test_callers_of_one_loop_iteration_become_one_append(store):
    async def main():
        appender = AsyncAppender(store)
        units = [unit() for _ in range(20)]
        tasks = [asyncio.create_task(appender.append([one])) for one in units]
        await settle()
        assert store.appends == [units]
        store.answer()
        assert await asyncio.gather(*tasks) == [[one] for one in units]

    run(main())


def test_each_caller_gets_the_outcomes_of_its_own_units(store):
    async def main():
        appender = AsyncAppender(store)
        first, second = [unit()], [unit(), unit(), unit()]
        tasks = [asyncio.create_task(appender.append(units)) for units in (first, second)]
        await settle()
        store.answer()
        one, three = await asyncio.gather(*tasks)
        assert [id(u) for u in one] == [id(u) for u in first]
        assert [id(u) for u in three] == [id(u) for u in second]

    run(main())


def test_nothing_to_append_is_no_append(store):
    async def main():
        assert await AsyncAppender(store).append([]) == []

    run(main())
    assert store.appends == []


def test_cancelling_an_awaiter_does_not_cancel_its_append(store):
    async def main():
        appender = AsyncAppender(store)
        cancelled = asyncio.create_task(appender.append([unit()]))
        other = asyncio.create_task(appender.append([unit()]))
        await settle()
        cancelled.cancel()
        await settle()
        assert cancelled.cancelled()
        assert not store.futures[0].cancelled()
        store.answer()
        assert len(await other) == 1

    run(main())
    assert len(store.appends[0]) == 2


def test_a_caller_cancelled_before_its_append_was_sent_is_appended_all_the_same(store):
    async def main():
        appender = AsyncAppender(store)
        task = asyncio.create_task(appender.append([unit()]))
        await asyncio.sleep(0)
        task.cancel()
        await settle()

    run(main())
    assert len(store.appends) == 1


def test_an_answer_from_another_thread_wakes_the_loop_once(store):
    async def main():
        appender = AsyncAppender(store)
        loop = asyncio.get_running_loop()
        wakes = []
        real = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *args: (wakes.append(args), real(*args))[1]
        tasks = [asyncio.create_task(appender.append([unit()])) for _ in range(50)]
        await settle()
        thread = threading.Thread(target=store.answer)
        thread.start()
        await asyncio.gather(*tasks)
        thread.join()
        assert len(wakes) == 1

    run(main())


def test_those_who_come_meanwhile_wait_for_a_free_place(store):
    async def main():
        appender = AsyncAppender(store)
        tasks = []
        for _ in range(aio.IN_FLIGHT_MAX + 3):
            tasks.append(asyncio.create_task(appender.append([unit()])))
            await settle()
        assert len(store.appends) == aio.IN_FLIGHT_MAX
        store.answer(0)
        await settle()
        assert [len(units) for units in store.appends] == [1] * aio.IN_FLIGHT_MAX + [3]
        for number in range(1, len(store.appends)):
            store.answer(number)
        assert len(await asyncio.gather(*tasks)) == aio.IN_FLIGHT_MAX + 3

    run(main())


def test_an_error_of_the_append_reaches_every_caller(store):
    async def main():
        appender = AsyncAppender(store)
        tasks = [asyncio.create_task(appender.append([unit()])) for _ in range(3)]
        await settle()
        store.futures[0].set_exception(StoreIO("no"))
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, StoreIO)

    run(main())


def test_a_store_that_refuses_the_call_is_told_to_every_caller(store):
    store.refuse = StoreIO("cannot begin")

    async def main():
        appender = AsyncAppender(store)
        tasks = [asyncio.create_task(appender.append([unit()])) for _ in range(2)]
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, StoreIO)

    run(main())


def test_a_full_queue_is_tried_again_until_there_is_room(store):
    store.refuse = QueueFull("full")

    async def main():
        appender = AsyncAppender(store)
        task = asyncio.create_task(appender.append([unit()]))
        await settle()
        assert store.appends == []
        store.refuse = None
        await store.taken.wait()
        store.answer()
        assert len(await task) == 1

    run(main())


def test_a_queue_that_stays_full_is_an_error_after_the_deadline(store):
    store.refuse = QueueFull("full")

    async def main():
        with pytest.raises(QueueFull):
            await AsyncAppender(store, wait_s=0.02).append([unit()])

    run(main())


def test_an_append_that_is_not_answered_is_a_timeout(store):
    async def main():
        with pytest.raises(AppendTimeout, match="unknown"):
            await AsyncAppender(store, wait_s=0.02).append([unit()])

    run(main())


def test_an_append_that_nobody_has_begun_is_withdrawn_at_the_deadline(store):
    withdrawn = []

    class Waiting(AppendFuture):
        def give_up(self):
            withdrawn.append(self)
            self.set_exception(StoreIO("withdrawn"))
            return True

    store.append = lambda units: Waiting(lambda _: None, SOON_S)

    async def main():
        with pytest.raises(StoreIO, match="withdrawn"):
            await AsyncAppender(store, wait_s=0.02).append([unit()])

    run(main())
    assert len(withdrawn) == 1


def test_one_appender_serves_several_loops(store):
    appender = AsyncAppender(store)

    async def main():
        task = asyncio.create_task(appender.append([unit()]))
        await settle()
        store.answer()
        return await task

    assert len(run(main())) == 1
    assert len(run(main())) == 1
    assert len(store.appends) == 2
