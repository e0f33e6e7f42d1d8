"""The clock moved by hand and the ids that count."""

from __future__ import annotations

import asyncio
import threading

import pytest

from counterfoil.testing import ManualClock, SequentialIds
from counterfoil.testing import manual as manual_module


def test_time_stands_still_until_it_is_moved():
    clock = ManualClock(1000)
    assert [clock.now_ms(), clock.now_ms(), clock.monotonic()] == [1000, 1000, 0.0]
    clock.advance(250)
    assert (clock.now_ms(), clock.monotonic()) == (1250, 0.25)


def test_sleeping_passes_exactly_the_time_slept():
    clock = ManualClock(1000)
    clock.sleep(1.5)
    asyncio.run(clock.asleep(0.25))
    assert (clock.now_ms(), clock.monotonic()) == (2750, 1.75)


def test_the_wall_clock_can_be_set_back_while_no_time_passes():
    clock = ManualClock(1000)
    clock.set_wall(10)
    assert (clock.now_ms(), clock.monotonic()) == (10, 0.0)
    with pytest.raises(ValueError, match="forwards"):
        clock.advance(-1)


def test_sleepers_on_a_held_clock_wake_when_it_has_moved_far_enough():
    clock, woken = ManualClock(0, held=True), []
    threads = [threading.Thread(target=lambda s=s: (clock.sleep(s), woken.append(s))) for s in (1, 3)]
    for thread in threads:
        thread.start()
    clock.wait_for_sleepers(2)
    clock.advance(2000)
    threads[0].join(30)
    assert woken == [1]
    clock.advance(1000)
    threads[1].join(30)
    assert woken == [1, 3]


def test_a_task_on_a_held_clock_does_not_hold_the_event_loop():
    clock = ManualClock(0, held=True)

    async def main():
        sleeper = asyncio.create_task(clock.asleep(5))
        await asyncio.to_thread(clock.wait_for_sleepers)
        clock.advance(5000)
        await sleeper

    asyncio.run(main())
    assert clock.now_ms() == 5000


def test_a_sleeper_whom_nobody_wakes_fails_instead_of_hanging(monkeypatch):
    monkeypatch.setattr(manual_module, "WAIT_REAL_S_MAX", 0.01)
    clock = ManualClock(0, held=True)
    with pytest.raises(TimeoutError):
        clock.sleep(1)
    with pytest.raises(TimeoutError):
        clock.wait_for_sleepers()


def test_the_same_seed_mints_the_same_ids():
    first, second = SequentialIds("a seed"), SequentialIds("a seed")
    assert [first.new("evt") for _ in range(5)] == [second.new("evt") for _ in range(5)]


def test_ids_rise_whatever_their_prefix():
    ids = SequentialIds()
    minted = [ids.new(prefix).partition("_")[2] for prefix in ("str", "evt", "dk", "evt", "run") * 20]
    assert minted == sorted(set(minted))


def test_ids_of_different_seeds_do_not_meet():
    minted = [{ids.new("evt") for _ in range(100)} for ids in map(SequentialIds, range(20))]
    assert len(set().union(*minted)) == 2000
