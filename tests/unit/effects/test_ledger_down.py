"""When the ledger is down effects fail closed and reading goes on; one switch a tool (DESIGN 7)."""

from __future__ import annotations

import asyncio

import pytest

from counterfoil.effects import by_key, by_lookup, by_repeating, by_review, effect
from counterfoil.errors import EffectHeld, RunWaiting, StoreClosed, StoreFull, ToolInvalid
from tests.approving import policy
from tests.unit.effects import test_store_failures

failing = test_store_failures.failing
"""A worker whose store can be told to fail."""


@pytest.fixture
def calls():
    return []


def reading(calls, **more):
    @effect("look_up", version="1", touches=set(), doubt=by_repeating(), **more)
    def look_up(order: str):
        calls.append(order)
        return {"order": order}

    return look_up


def paying(calls, **more):
    settings = {"doubt": by_key(), "key": lambda order, **_: f"pay:{order}"} | more

    @effect("pay", version="1", touches={"money"}, **settings)
    def pay(order: str, *, idempotency_key: str = ""):
        calls.append((order, idempotency_key))
        if order == "lost":
            raise ConnectionError("sent?")
        return order

    return pay


def run(ledger, dedupe="m1"):
    return ledger.run("agent", conversation="case", message="please", dedupe=dedupe)


def down(store, event_type="effect.intended", times=99):
    store.event_type, store.times = event_type, times


def test_reading_goes_on_without_a_record(failing, calls):
    ledger, store = failing
    look_up = reading(calls)
    with run(ledger) as block:
        down(store)
        assert look_up("o-1") == {"order": "o-1"}
        store.times = 0
        block.finish("done")
    assert calls == ["o-1"]
    assert block.terminal == "success"
    assert ledger.effects() == []


def test_what_was_read_is_recorded_all_the_same_once_the_ledger_takes_it(failing, calls, told):
    ledger, store = failing
    look_up = reading(calls)
    with run(ledger) as block:
        down(store, times=4)  # every try of the intention, and none after it
        look_up("o-1")
        block.finish("done")
    types = [event.type for event in ledger.events("case")]
    assert types[-3:] == ["effect.intended", "effect.observed", "run.finished"]
    assert [row["state"] for row in ledger.effects()] == ["succeeded"]


def test_an_intention_that_landed_unseen_is_not_recorded_twice_and_leaves_no_doubt(failing, calls):
    ledger, store = failing
    look_up = reading(calls)
    with run(ledger) as block:
        down(store, times=4)
        store.recorded = True
        look_up("o-1")
        block.finish("done")
    assert [event.type for event in ledger.events("case")].count("effect.intended") == 1
    assert [row["state"] for row in ledger.effects()] == ["succeeded"]
    assert block.terminal == "success"


def test_a_reading_tool_may_refuse_too(failing, calls):
    ledger, store = failing
    look_up = reading(calls, when_ledger_down="refuse")
    with pytest.raises(StoreFull), run(ledger):
        down(store)
        look_up("o-1")
    assert calls == []


def test_what_touches_anything_is_refused_unless_it_says_otherwise(failing, calls):
    ledger, store = failing
    pay = paying(calls)
    with pytest.raises(StoreFull), run(ledger):
        down(store)
        pay("o-1")
    assert calls == []


def test_a_tool_that_says_so_is_called_under_its_key_and_by_whoever_resumes_again_under_the_same(
    failing, calls
):
    ledger, store = failing
    pay = paying(calls, when_ledger_down="call")
    with pytest.raises(StoreFull), run(ledger):
        down(store)
        assert pay("o-1") == "o-1"
        raise StoreFull("still down")
    store.times = 0
    with run(ledger) as block:
        assert pay("o-1") == "o-1"
        block.finish("done")
    assert calls == [("o-1", "pay:o-1")] * 2


def test_an_unknown_outcome_that_cannot_be_recorded_parks_the_run(failing, calls):
    ledger, store = failing
    pay = paying(calls, when_ledger_down="call")
    with pytest.raises(RunWaiting), run(ledger):
        down(store)
        pay("lost")


def test_an_error_of_the_tool_is_the_callers_and_not_the_stores(failing):
    ledger, store = failing

    @effect("look", version="1", touches=set(), doubt=by_repeating())
    def look():
        raise LookupError("no such order")

    with run(ledger) as block:
        down(store)
        with pytest.raises(LookupError):
            look()
        store.times = 0
        block.finish("done")


def test_async_tools_have_the_same_switch(failing, calls):
    ledger, store = failing

    @effect("look", version="1", touches=set(), doubt=by_repeating())
    async def look(order):
        calls.append(order)
        return order

    async def agent():
        async with run(ledger) as block:
            down(store)
            found = await look("o-1")
            store.times = 0
            block.finish(found)
        return block.output

    assert asyncio.run(agent()) == "o-1"


def test_a_held_tool_is_held_also_when_the_refusal_cannot_be_recorded(failing, calls):
    ledger, store = failing
    look_up = reading(calls)
    ledger.hold("look_up", by="Ines", reason="it lies")
    with run(ledger) as block:
        with pytest.raises(EffectHeld):
            look_up("o-1")
        down(store, "policy.evaluated")
        with pytest.raises(StoreFull):
            look_up("o-2")
        store.times = 0
        block.finish("done")
    assert calls == []


def test_a_permission_is_not_used_without_its_record(failing, calls):
    ledger, store = failing
    ledger.policy = policy()

    @effect(
        "pay",
        version="1",
        touches={"money"},
        doubt=by_key(),
        key=lambda order, **_: order,
        when_ledger_down="call",
    )
    def pay(order: str, amount: int, *, idempotency_key: str = ""):
        calls.append(order)

    def body():
        with run(ledger):
            pay("o-1", 80)

    with pytest.raises(RunWaiting) as waiting:
        body()
    ledger.approve(waiting.value.waits_for[0], by="Ines")
    down(store)
    with pytest.raises(StoreFull):
        body()
    assert calls == []
    store.times = 0
    body()
    assert calls == ["o-1"]


def test_a_closed_handle_is_no_ledger_that_is_down(failing, calls):
    ledger, store = failing
    look_up = reading(calls)
    store.error = StoreClosed("closed")
    with pytest.raises(StoreClosed), run(ledger):
        down(store)
        look_up("o-1")
    assert calls == []


@pytest.mark.parametrize(
    "settings",
    [
        {"key": None},
        {"doubt": by_review()},
        {"doubt": by_lookup(lambda **_: None)},
        {"when_ledger_down": "maybe"},
    ],
    ids=["no business key", "a human decides", "absent goes to a human", "no such way"],
)
def test_a_tool_that_would_act_twice_cannot_be_declared(calls, settings):
    with pytest.raises(ToolInvalid):
        paying(calls, **{"when_ledger_down": "call", **settings})
