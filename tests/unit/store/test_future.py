"""Futures of appends: the chain of wakers."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed, wait

import pytest

from counterfoil.errors import StoreIO
from counterfoil.store.future import AppendFuture, answer, answered

SOON_S = 20.0


def future(wait_s=SOON_S):
    return AppendFuture(lambda _: None, wait_s)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as made:
        yield made


def until_waited(*futures):
    """Return when a thread waits on each."""
    never = threading.Event()
    while not all(one.has_waiter for one in futures):
        never.wait(0.001)


def settle_with(value):
    return lambda one, index: one.set_result((value, index))


def test_all_who_wait_are_woken_one_by_the_other(pool):
    futures = [future() for _ in range(8)]
    waiting = [pool.submit(one.result) for one in futures]
    until_waited(*futures)
    answer(futures, settle_with("told"))
    assert [one.result(SOON_S) for one in waiting] == [("told", n) for n in range(8)]


def test_futures_nobody_waits_for_do_not_break_the_chain(pool):
    futures = [future() for _ in range(5)]
    waiting = [pool.submit(futures[number].result) for number in (1, 4)]
    until_waited(futures[1], futures[4])
    answer(futures, settle_with("told"))
    assert [one.result(SOON_S) for one in waiting] == [("told", 1), ("told", 4)]
    assert futures[0].result() == ("told", 0)


def test_a_waiter_whose_deadline_comes_as_it_is_answered_passes_the_chain_on(pool):
    hasty, patient = future(wait_s=0.02), future()
    first, second = pool.submit(hasty.result), pool.submit(patient.result)
    until_waited(hasty, patient)
    # Settled but not yet woken: the hasty one's deadline passes between the two.
    hasty.set_result("one")
    patient.set_result("two")
    with pytest.raises(TimeoutError):
        first.result(0.2)
    hasty.follow(patient)
    hasty.wake()
    assert (first.result(SOON_S), second.result(SOON_S)) == ("one", "two")


def test_a_waiter_that_has_given_up_before_the_answer_has_no_place_in_the_chain(pool):
    left = threading.Event()
    back = threading.Event()

    def leave(_):
        left.set()
        assert back.wait(SOON_S)

    hasty, patient = AppendFuture(leave, 0.02), future()
    first, second = pool.submit(hasty.result), pool.submit(patient.result)
    assert left.wait(SOON_S)
    until_waited(patient)
    answer([hasty, patient], settle_with("told"))
    assert second.result(SOON_S) == ("told", 1)
    back.set()
    assert first.result(SOON_S) == ("told", 0)


def test_two_threads_may_wait_on_one_future(pool):
    one, after = future(), future()
    waiting = [pool.submit(one.result), pool.submit(one.result), pool.submit(after.result)]
    until_waited(one, after)
    answer([one, after], settle_with("told"))
    assert [thread.result(SOON_S) for thread in waiting] == [("told", 0), ("told", 0), ("told", 1)]


def test_an_error_is_told_to_the_whole_chain(pool):
    futures = [future() for _ in range(3)]
    waiting = [pool.submit(one.exception, SOON_S) for one in futures[:1]]
    waiting += [pool.submit(one.result) for one in futures[1:]]
    until_waited(*futures[1:])
    answer(futures, lambda one, _: one.set_exception(StoreIO("no")))
    assert isinstance(waiting[0].result(SOON_S), StoreIO)
    for one in waiting[1:]:
        with pytest.raises(StoreIO):
            one.result(SOON_S)


def test_a_future_answered_from_the_start_behaves_like_any_other():
    one = answered("told")
    heard = []
    one.add_done_callback(heard.append)
    assert one.result() == one.result(1) == "told"
    assert one.exception() is None
    assert one.done()
    assert not one.running()
    assert not one.cancel()
    assert not one.cancelled()
    assert heard == [one]
    assert "finished" in repr(one)
    assert wait([one, answered("another")], timeout=SOON_S).not_done == set()
    assert set(as_completed([one, future_of("later")])) >= {one}


def test_a_future_answered_from_the_start_can_be_awaited():
    async def main():
        return await asyncio.wrap_future(answered("told"))

    assert asyncio.run(main()) == "told"


def future_of(value):
    one = future()
    one.set_result(value)
    return one
