"""The parts for tests of one's own tools: dying everywhere and here, providers that fail, a ledger in memory."""

from __future__ import annotations

import asyncio

import pytest

import counterfoil
from counterfoil import testing
from counterfoil.effects.registry import own_tools, tools
from counterfoil.testing import FakeProvider, World, crash_everywhere, crash_here, memory_ledger


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


@pytest.fixture
def bank():
    return FakeProvider()


def declare(bank, after=lambda: None):
    @counterfoil.effect("pay", version="1", touches={"money"}, doubt=counterfoil.by_key())
    def pay(order: str, *, idempotency_key: str = ""):
        receipt = bank.send(idempotency_key=idempotency_key, order=order)
        after()
        return receipt

    return pay


def agent(pay):
    def work(ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            pay("o-1")

    return work


def test_every_public_part_is_there():
    assert sorted(testing.__all__) == testing.__all__
    for name in testing.__all__:
        assert getattr(testing, name).__doc__


def test_an_agent_dies_at_every_point_and_what_it_came_to_is_looked_at_each_time(bank):
    looks = []
    points = crash_everywhere(
        agent(declare(bank)), check=lambda ledger: looks.append(bank.booked()), before=bank.reset
    )
    assert ("call pay", "after") in {(point.what, point.when) for point in points}
    # Once more than there are points: the first, undisturbed pass is looked at too.
    assert looks == [1] * (len(points) + 1)


def test_async_code_dies_as_well(bank):
    @counterfoil.effect("pay", version="1", touches={"money"}, doubt=counterfoil.by_key())
    async def pay(order: str, *, idempotency_key: str = ""):
        return await bank.asend(idempotency_key=idempotency_key, order=order)

    async def work(ledger):
        async with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            await pay("o-1")

    def check(ledger):
        assert bank.booked() == 1

    assert len(crash_everywhere(work, check=check, before=bank.reset)) > 20


def test_a_failed_check_names_the_point(bank):
    bank.deduplicates = False

    def check(ledger):
        assert bank.booked() == 1

    with pytest.raises(AssertionError) as failed:
        crash_everywhere(agent(declare(bank)), check=check, before=bank.reset)
    assert failed.value.__notes__[-1].endswith("(call pay)")


def test_tools_declared_before_are_known_inside_and_stay_as_they_were(bank):
    pay = declare(bank)
    crash_everywhere(agent(pay), check=lambda ledger: None, before=bank.reset, place=None)
    assert tools() == [pay]


def test_a_worker_dies_in_the_middle_of_a_tool_and_the_next_one_passes_by(bank):
    work = agent(declare(bank, crash_here))
    with World() as world:
        assert world.dies(work)
        assert world.open().effects()[0]["state"] == "intended"
        world.time_passes()
        world.open().recover()
        work(world.open())
        assert bank.booked() == 1
        assert world.open().effects()[0]["state"] == "succeeded"


def test_a_worker_that_meets_nothing_lives(bank):
    with World() as world:
        assert not world.dies(agent(declare(bank)))
        assert world.open().runs()[0]["terminal"] == "success"


def test_an_error_of_the_code_is_no_death():
    def work(ledger):
        raise KeyError("a bug")

    with World() as world, pytest.raises(KeyError):
        world.dies(work)


def test_where_nobody_is_to_die_crash_here_is_nothing(bank):
    pay = declare(bank, crash_here)
    with memory_ledger() as ledger:
        agent(pay)(ledger)
        assert ledger.effects()[0]["state"] == "succeeded"


def test_a_provider_that_does_it_twice_has_it_twice_in_its_book(bank):
    bank.plan("twice")
    assert bank.send(idempotency_key="k", order="o")["id"] == "re_1"
    assert bank.booked("k") == 2


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_provider_that_hangs_up_breaks_the_connections_of_slow_answers(bank, asynchronous):
    bank.plan("slow")
    bank.hang_up()
    with pytest.raises(ConnectionResetError):
        if asynchronous:
            asyncio.run(bank.asend(idempotency_key="k"))
        else:
            bank.send(idempotency_key="k")
    assert bank.booked() == 1


def test_a_reset_forgets_what_happened_and_what_was_planned(bank):
    bank.plan("rejected")
    bank.plan_lookups("mute")
    with pytest.raises(counterfoil.Rejected):
        bank.send(idempotency_key="a")
    bank.plan("rejected")
    bank.reset("answer_lost")
    assert (bank.book, bank.requests, bank.lookups) == ([], [], 0)
    with pytest.raises(ConnectionResetError):
        bank.send(idempotency_key="b")
    assert bank.find(idempotency_key="b") == counterfoil.Found("succeeded", {"id": "re_1", "key": "b"})


def test_two_ledgers_in_memory_have_the_same_ids_and_times():
    def told():
        with memory_ledger() as ledger, ledger.run("agent", conversation="c") as run:
            return run.id, [event.header.occurred_at for event in ledger.events("c")]

    assert told() == told()
