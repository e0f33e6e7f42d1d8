"""Two runners on one conversation whose clocks disagree: one wins, the other is told, and nothing interleaves.

DESIGN 2.6 and 2.12: a lease is on the store's clock, and what a wrong clock does about it is harmless behind the token.
"""

from __future__ import annotations

import threading
from contextlib import closing, suppress

import pytest

import counterfoil
from counterfoil.errors import LeaseLost, RunBusy
from counterfoil.testing.manual import ManualClock
from counterfoil.testing.truth import check_truth
from tests.scenarios.conftest import ON_SERVER, lies

HOUR_MS = 3_600_000


@pytest.fixture(params=["sqlite", ON_SERVER])
def place(request, tmp_path, monkeypatch):
    return lies(request.param, request, tmp_path, monkeypatch)


def opened(place, clock, apart_ms=0):
    """A handle whose clock is so far from the other's, as on another machine."""
    return counterfoil.open(place, clock=ManualClock(clock.now_ms() + apart_ms))


def steps_of(ledger):
    """Who claimed and what was done, in order: the token of the claim beside the name of each step."""
    told, token = [], 0
    for event in ledger.events("c"):
        if event.type in ("run.started", "run.claimed"):
            token = event.data["fencing_token"]
        elif event.type == "step.finished":
            told.append((token, event.data["name"]))
    return told


@pytest.mark.parametrize("apart_ms", [HOUR_MS, 40_000])
def test_a_runner_whose_clock_is_ahead_takes_over_and_the_first_is_told(place, apart_ms):
    clock = ManualClock()
    with closing(opened(place, clock)) as first, closing(opened(place, clock, apart_ms)) as second:
        # As if on another machine: nothing is known of its process.
        with pytest.raises(LeaseLost), first.run("a", conversation="c", dedupe="1") as slow:
            slow.step("one", lambda: 1)
            with second.run("a", conversation="c", dedupe="1") as fast:
                assert fast.id == slow.id
                assert fast.step("one", lambda: pytest.fail("ran again")) == 1
                with pytest.raises(LeaseLost):
                    slow.step("two", lambda: pytest.fail("the first went on"))
                fast.step("two", lambda: 2)
        assert steps_of(first) == [(1, "one"), (2, "two")]
        check_truth(second)


@pytest.mark.parametrize("apart_ms", [-HOUR_MS, -1_000, 0, 1_000])
def test_a_runner_whose_clock_is_behind_or_hardly_ahead_is_told_to_wait(place, apart_ms):
    clock = ManualClock()
    with closing(opened(place, clock)) as first, closing(opened(place, clock, apart_ms)) as second:
        with first.run("a", conversation="c", dedupe="1") as run:
            run.step("one", lambda: 1)
            with pytest.raises(RunBusy), second.run("a", conversation="c", dedupe="1"):
                pytest.fail("both ran")
            run.step("two", lambda: 2)
        with second.run("a", conversation="c", dedupe="1") as again:
            assert again.done
        assert steps_of(first) == [(1, "one"), (1, "two")]
        check_truth(second)


def test_runners_with_clocks_all_over_interleave_nothing(place):
    """Five workers, hours apart, run the same input at once: each step is done under one claim, none is done twice."""
    clock = ManualClock()
    done, barrier = [], threading.Barrier(5)

    def work(apart_ms):
        with closing(opened(place, clock, apart_ms)) as ledger:
            barrier.wait()
            for _ in range(10):
                with suppress(LeaseLost, RunBusy), ledger.run("a", conversation="c", dedupe="1") as run:
                    for number in range(5):
                        run.step(f"s{number}", done.append, number)

    threads = [threading.Thread(target=work, args=(hours * HOUR_MS,)) for hours in range(-2, 3)]
    with closing(opened(place, clock)):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with closing(opened(place, clock, 24 * HOUR_MS)) as ledger:
        with ledger.run("a", conversation="c", dedupe="1") as run:
            for number in range(5):
                run.step(f"s{number}", done.append, number)
        told = steps_of(ledger)
        assert [name for _, name in told] == [f"s{number}" for number in range(5)]
        assert [token for token, _ in told] == sorted(token for token, _ in told)
        assert ledger.run_row(run.id)["terminal"] == "success"
        check_truth(ledger)


def test_a_worker_whose_step_another_one_took_over_and_did_is_told_so(place):
    clock = ManualClock()
    with closing(opened(place, clock)) as slow, closing(opened(place, clock, HOUR_MS)) as quick:
        with pytest.raises(LeaseLost), slow.run("a", conversation="c", dedupe="1") as late:
            # The other one finds its lease expired, does the same step at another time, and goes on.
            with quick.run("a", conversation="c", dedupe="1") as run:
                assert run.step("s0", str, 0) == "0"
            late.step("s0", str, 0)
        check_truth(quick)


RECORDED_ONCE = {
    "fact": lambda run: run.record("app.noted", {"number": 1}, ignorable=True),
    "slot": lambda run: run.state.set("stage", "shipped"),
    "artifact": lambda run: run.artifact(b"a letter"),
}


@pytest.mark.parametrize("what", sorted(RECORDED_ONCE))
def test_a_worker_that_records_what_another_one_did_in_the_same_millisecond_is_told_so(place, what, tmp_path):
    # Same id, same words: to the store it is an append whose answer was lost.
    slow_clock, quick_clock = ManualClock(), ManualClock()
    quick_clock.advance(HOUR_MS)
    with (
        closing(counterfoil.open(place, clock=slow_clock, artifacts=tmp_path / "kept")) as slow,
        closing(counterfoil.open(place, clock=quick_clock, artifacts=tmp_path / "kept")) as quick,
    ):
        with pytest.raises(LeaseLost), slow.run("a", conversation="c", dedupe="1") as late:
            with quick.run("a", conversation="c", dedupe="1") as run:
                RECORDED_ONCE[what](run)
            slow_clock.advance(HOUR_MS)
            assert slow_clock.now_ms() == quick_clock.now_ms()
            with pytest.raises(LeaseLost):
                RECORDED_ONCE[what](late)
        check_truth(quick)
