"""The crash matrix finds what it is made to find: a second sending, a swallowed death, a ledger that does not tell."""

from __future__ import annotations

import asyncio
import itertools
import threading
from contextlib import suppress

import pytest

from counterfoil.effects import by_key, effect
from counterfoil.effects.registry import own_tools
from counterfoil.testing import crash
from counterfoil.testing.provider import FakeProvider


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


class Careless(crash.Scenario):
    """Talks to the provider in a memoised step, with no intention before it and no key the provider knows."""

    def prepare(self, world):
        self.provider = FakeProvider(deduplicates=False)

    def work(self, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            run.step("pay", self.provider.send, idempotency_key="k")

    def check(self, world, ledger):
        assert self.provider.booked() <= 1, "paid twice"


def test_a_payment_made_twice_is_found_and_the_point_is_named():
    with pytest.raises(AssertionError, match="paid twice") as found:
        crash.run_matrix(Careless)
    assert any("call pay" in note for note in found.value.__notes__)


class Stubborn(crash.Scenario):
    """Catches everything and goes on."""

    def prepare(self, world):
        self.provider = FakeProvider()

        @effect("pay", version="1", touches={"money"}, doubt=by_key())
        def pay(order: str, *, idempotency_key: str = ""):
            return self.provider.send(idempotency_key=idempotency_key, order=order)

        self.pay = pay

    def work(self, ledger):
        with suppress(BaseException), ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            for _ in range(5):
                with suppress(BaseException):
                    self.pay("o-1")
        ledger.conversations()

    def check(self, world, ledger):
        assert self.provider.booked() == 1


def test_code_that_swallows_its_death_gets_nothing_done_after_it():
    matrix = crash.run_matrix(Stubborn)
    assert len(matrix) > 20


class InTasks(Stubborn):
    """The same among tasks that catch everything."""

    async def work(self, ledger):
        async def pay():
            with suppress(BaseException):
                await self.pay.acall("o-1")

        async with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            await asyncio.gather(pay(), pay())


def test_tasks_cannot_swallow_it_either():
    crash.run_matrix(InTasks)


def test_how_often_one_call_looks_after_another_makes_no_point():
    looked = iter([1, 40])

    class Slow(InTasks):
        def prepare(self, world):
            super().prepare(world)
            until_ms, send = world.clock.now_ms() + next(looked) * 20, self.provider.send

            def slowly(**arguments):
                # Time passes by the other call's looking alone.
                while world.clock.now_ms() < until_ms:
                    threading.Event().wait(0)
                return send(**arguments)

            self.provider.send = slowly

    assert len(crash.points_of(Slow)) == len(crash.points_of(Slow))


def test_every_request_has_a_point_before_and_after_it():
    points = crash.points_of(Stubborn)
    assert [point.when for point in points] == ["before", "after"] * (len(points) // 2)
    assert [point.number for point in points[::2]] == list(range(1, len(points) // 2 + 1))
    assert "call pay" in {point.what for point in points}


def test_a_point_that_is_never_reached_is_an_error():
    def beyond(points):
        return [crash.CrashPoint(len(points), "before", "nothing")]

    with pytest.raises(AssertionError, match="without reaching"):
        crash.run_matrix(Stubborn, choose=beyond)


def test_a_point_that_other_turns_do_not_reach_is_tried_again():
    turns = itertools.cycle([2, 1])

    class Wavering(crash.Scenario):
        def prepare(self, world):
            self.steps = next(turns)

        def work(self, ledger):
            with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
                for number in range(self.steps):
                    run.step(f"s{number}", lambda: None)

        def check(self, world, ledger):
            pass

    matrix = crash.run_matrix(Wavering, choose=lambda points: points[-1:])
    assert [point.what for point in matrix.points] == ["append run.finished"]


def test_a_life_can_end_at_a_request_by_name():
    world = crash.World()
    scenario = Stubborn()
    scenario.prepare(world)
    life = crash.LifeUntil("append effect.observed", "before")
    crash.live(world, life, scenario.work)
    assert not life.alive
    (row,) = world.open().effects()
    assert (row["state"], scenario.provider.booked()) == ("intended", 1)


def test_an_error_of_the_work_itself_is_not_taken_for_a_crash():
    world = crash.World()

    def broken(ledger):
        raise KeyError("a fault of the agent")

    with pytest.raises(KeyError):
        crash.live(world, crash.Life(), broken)
