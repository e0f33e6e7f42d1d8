"""A ledger that fails around an effect: nothing is sent without its intention, nothing that happened is hidden."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress

import pytest
from msgspec.structs import replace

from counterfoil.client.ledger import Ledger
from counterfoil.effects import by_key, by_lookup, effect
from counterfoil.errors import RunSuspended, RunWaiting, StoreError, StoreFull, StoreIO
from counterfoil.store.unit import Refusal
from counterfoil.testing.crash import World
from counterfoil.testing.truth import check_truth


class Failing:
    """A store whose appends of one event type fail, so many times; ``recorded`` ones land and lose their answer."""

    def __init__(self, store):
        self._store = store
        self.event_type = ""
        self.times = 0
        self.error = StoreFull("no space left")
        self.recorded = False

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, units):
        if not self._fails(units):
            return self._store.append(units)
        self.times -= 1
        if self.recorded:
            self._store.append(units).result()
        failed = Future()
        failed.set_result([Refusal(self.error)])
        return failed

    def _fails(self, units):
        types = {event.event_type for unit in units for part in unit.streams for event in part.events}
        return self.times > 0 and self.event_type in types


@pytest.fixture
def failing(world: World):
    """A worker's handle on a store that can be told to fail."""
    ledger = world.open()
    store = Failing(ledger.store)
    parts = replace(world._shared, store=store)
    return Ledger(parts, tenant="default", content=None, clock=world.clock, ids=world.ids), store


def declare(provider, doubt):
    @effect("pay", version="1", touches={"money"}, doubt=doubt)
    def pay(order: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order)

    return pay


def run(ledger):
    return ledger.run("agent", conversation="case", message="m", dedupe="m1")


def test_nothing_is_sent_when_the_intention_cannot_be_recorded(failing, provider):
    ledger, store = failing
    store.event_type, store.times = "effect.intended", 99
    pay = declare(provider, by_key())
    with pytest.raises(StoreFull), run(ledger):
        pay("o-1")
    assert provider.requests == []


def test_an_append_that_fails_for_a_moment_is_tried_again(failing, provider):
    ledger, store = failing
    pay = declare(provider, by_key())
    for event_type in ("effect.intended", "effect.observed"):
        store.event_type, store.times = event_type, 2
        with run(ledger):
            assert pay("o-1")["id"] == "re_1"
    assert len(provider.requests) == 1
    check_truth(ledger)


@pytest.mark.parametrize("event_type", ["effect.intended", "effect.observed"])
def test_an_append_whose_answer_was_lost_lands_once(failing, provider, event_type):
    ledger, store = failing
    store.event_type, store.times, store.recorded = event_type, 1, True
    pay = declare(provider, by_key())
    with run(ledger):
        pay("o-1")
    assert len(provider.requests) == 1
    types = [event.type for event in ledger.events("case", types={"effect.intended", "effect.observed"})]
    assert types == ["effect.intended", "effect.observed"]


def test_what_happened_but_cannot_be_recorded_parks_the_run(failing, provider, world):
    ledger, store = failing
    store.event_type, store.times = "effect.observed", 99
    pay = declare(provider, by_lookup(provider.find))

    def stubborn():
        with run(ledger):
            for order in ("o-1", "o-2"):
                with suppress(RunSuspended):
                    pay(order)

    with pytest.raises((RunWaiting, RunSuspended, StoreError)):
        stubborn()
    assert len(provider.requests) == 1
    store.times = 0
    world.time_passes()
    assert [entry.done for entry in ledger.recover().effects] == ["decided"]
    with run(ledger):
        assert pay("o-1")["id"] == "re_1"
    assert len(provider.requests) == 1


class Full(Failing):
    """A disk on which nothing fits from the observation on."""

    def _fails(self, units):
        if super()._fails(units):
            self.event_type = None
        return self.event_type is None and self.times > 0


@pytest.fixture
def full(world):
    """A worker's handle on a disk that is full once the money is out."""
    store = Full(world.open().store)
    store.event_type, store.times = "effect.observed", 99
    parts = replace(world._shared, store=store)
    return Ledger(parts, tenant="default", content=None, clock=world.clock, ids=world.ids)


def check_names_the_doubt(waiting, ledger):
    (effect,) = ledger.effects()
    assert waiting.waits_for == (effect["effect_id"],)
    for part in (effect["effect_id"], "tool pay", "in doubt", "no space left"):
        assert part in waiting.message
    assert "counterfoil recover" in waiting.hint
    assert "event id" not in str(waiting)
    assert isinstance(waiting.__cause__, StoreFull)


def test_a_disk_that_is_full_after_the_money_went_out_leaves_no_doubt_about_the_doubt(full, provider):
    pay = declare(provider, by_key())
    with pytest.raises(RunWaiting) as waiting, run(full):
        pay("o-1")
    check_names_the_doubt(waiting.value, full)


def test_a_full_disk_says_the_same_when_the_suspension_was_swallowed(full, provider):
    pay = declare(provider, by_key())
    with pytest.raises(RunWaiting) as waiting, run(full), suppress(BaseException):
        pay("o-1")
    check_names_the_doubt(waiting.value, full)


def test_a_full_disk_says_the_same_in_async_code(full, provider):
    pay = declare(provider, by_key())

    async def work():
        async with run(full):
            await pay.acall("o-1")

    with pytest.raises(RunWaiting) as waiting:
        asyncio.run(work())
    check_names_the_doubt(waiting.value, full)


def test_a_failure_that_will_not_pass_is_not_tried_again(failing, provider):
    ledger, store = failing
    store.event_type, store.times = "effect.intended", 99
    store.error = StoreIO("broken")
    store.error.retryable = False
    pay = declare(provider, by_key())
    with pytest.raises(StoreIO), run(ledger):
        pay("o-1")
    assert store.times == 98
