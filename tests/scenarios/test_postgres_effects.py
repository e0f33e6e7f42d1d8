"""Failure mode: the network or the server fails in the middle of an effect: nothing is sent twice, nothing is forgotten."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from counterfoil.effects import by_key, by_lookup, effect
from counterfoil.effects.registry import own_tools
from counterfoil.errors import CounterfoilError, RunWaiting, StoreError
from counterfoil.flow.requests import RowOf
from counterfoil.testing.crash import World
from counterfoil.testing.provider import FakeProvider
from counterfoil.testing.truth import check_truth
from tests.servers.fixtures import schema_for
from tests.servers.patience import hasty
from tests.servers.proxy import Proxy

pytestmark = pytest.mark.postgres

SOON = {"wait_s": "60", "answer_s": "2"}
"""For a network that keeps answers back: the next try comes soon, and there may be many."""


@pytest.fixture
def provider():
    return FakeProvider(deduplicates=False)


@pytest.fixture
def proxy(cluster):
    made = Proxy(cluster.port)
    yield made
    made.close()


@pytest.fixture
def world_at(cluster, tmp_path, monkeypatch):
    """Worlds on the server, straight or through a port of our own, forgotten at the end."""
    monkeypatch.setenv("HOME", str(tmp_path))
    made = []

    def at(port=None, name="", **parameters):
        world = World(cluster.url(port=port, **parameters, schema=schema_for(f"{tmp_path}{name}")))
        made.append(world)
        return world

    with own_tools():
        yield at
    for world in made:
        world.close()


def declare(provider, doubt, around=contextlib.nullcontext):
    @effect("pay", version="1", touches={"money"}, key=lambda order: f"pay:{order}", doubt=doubt)
    def pay(order: str, *, idempotency_key: str = ""):
        with around():
            return provider.send(idempotency_key=idempotency_key, order=order)

    return pay


def work(ledger, pay):
    with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
        run.finish(pay("o-1")["id"])


def check_ended_well(world, provider):
    ledger = world.open()
    check_truth(ledger)
    assert provider.booked() == len(provider.requests) == 1
    assert [row["state"] for row in ledger.effects()] == ["succeeded"]
    assert [run["terminal"] for run in ledger.runs()] == ["success"]
    return ledger


def go_on(world, pay):
    """The next worker, when everything that was held has expired."""
    world.time_passes()
    ledger = world.open()
    ledger.recover()
    work(ledger, pay)


def test_a_server_that_freezes_while_the_money_moves_is_asked_again_and_the_provider_is_not(
    cluster, provider, world_at
):
    world, frozen = world_at(), contextlib.ExitStack()
    ledger = world.open()

    @contextlib.contextmanager
    def freezing():
        frozen.enter_context(hasty(ledger.store))
        frozen.enter_context(cluster.frozen())
        yield

    pay = declare(provider, by_lookup(provider.find), freezing)
    with frozen, pytest.raises(RunWaiting) as caught:
        work(ledger, pay)
    assert caught.value.retryable
    assert caught.value.hint
    assert provider.booked() == 1
    go_on(world, declare(provider, by_lookup(provider.find)))
    check_ended_well(world, provider)


def test_a_server_that_is_frozen_before_the_intention_is_recorded_sees_nothing_sent(
    cluster, provider, world_at
):
    world = world_at()
    pay = declare(provider, by_lookup(provider.find))
    ledger = world.open()
    with pytest.raises(StoreError), hasty(ledger.store), cluster.frozen():
        work(ledger, pay)
    assert provider.requests == []
    go_on(world, pay)
    check_ended_well(world, provider)


def commits_of(world, provider, proxy):
    """How many commits a run makes, counted on the wire."""
    seen = []

    def count(chunk):
        seen.extend([None] * is_commit(chunk))

    ledger, pay = world.open(), declare(provider, by_lookup(provider.find))
    proxy.sent = count
    work(ledger, pay)
    proxy.calm()
    return len(seen)


def is_commit(chunk):
    return any(word in chunk for word in (b"COMMIT\x00", b"append_lone", b"append_quick"))


@pytest.mark.parametrize(
    "moment,step", [("drop", 2), ("pass and drop", 1), ("swallow", 4), ("half-close", 4)]
)
def test_whichever_commit_the_network_spoils_the_payment_happens_once(moment, step, proxy, world_at):
    with own_tools():
        count = commits_of(world_at(proxy.port, "count"), FakeProvider(deduplicates=False), proxy)
    assert count >= 3
    for number in range(0, count, step):
        with own_tools():
            provider = FakeProvider(deduplicates=False)
            # Made beforehand and in patience: a schema takes a loaded server longer than one answer may take here.
            world_at(proxy.port, f"{number}").open().close()
            world = world_at(proxy.port, f"{number}", **SOON)
            pay, ledger = declare(provider, by_lookup(provider.find)), world.open()
            left = iter([False] * number + [True])
            happened = proxy.once(moment, lambda chunk, left=left: is_commit(chunk) and next(left, False))
            with contextlib.suppress(CounterfoilError):
                work(ledger, pay)
            assert happened.is_set()
            proxy.calm()
            go_on(world, pay)
            check_ended_well(world, provider)


def test_a_network_that_cuts_a_connection_now_and_then_delays_and_changes_nothing(proxy, world_at):
    provider = FakeProvider()
    pay, world = declare(provider, by_key()), world_at(proxy.port)
    ledger = world.open()
    sent = iter(range(10_000))
    proxy.sent = lambda chunk: "pass and drop" if next(sent) % 9 == 8 else None
    for _ in range(20):
        with contextlib.suppress(CounterfoilError):
            work(ledger, pay)
            break
        world.time_passes()
    proxy.calm()
    go_on(world, pay)
    assert provider.booked() == 1
    check_truth(world.open())


@pytest.mark.pooler
def test_a_run_goes_through_a_pooler_in_transaction_mode(pooler, provider, world_at):
    world = world_at(pooler.port)
    pay = declare(provider, by_lookup(provider.find))
    work(world.open(), pay)
    check_ended_well(world, provider)


def test_an_event_loop_goes_on_while_a_server_that_froze_is_asked(cluster, world_at):
    ledger, frozen = world_at().open(), contextlib.ExitStack()

    async def thaw():
        # Another task has its turn while the server is asked, or the answer never comes.
        frozen.close()

    async def ask():
        frozen.enter_context(cluster.frozen())
        asking = asyncio.create_task(ledger.ports.aread(RowOf("runs", ("run_none",))))
        await asyncio.sleep(0)
        await asyncio.gather(asking, thaw())
        return asking.result()

    with frozen:
        assert asyncio.run(ask()) is None
