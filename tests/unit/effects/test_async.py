"""Performing from tasks and threads: siblings, cancellation, interrupts, suspension (DESIGN 7 and 11)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import counterfoil
from counterfoil.effects import by_key, by_lookup, by_review, effect
from counterfoil.errors import EffectInFlight, NoRun, RunSuspended, RunWaiting
from counterfoil.flow import calls
from counterfoil.flow.context import current_scope, scope_or_none
from counterfoil.testing.truth import check_truth


@pytest.fixture
def pay(provider):
    @effect("pay", version="1", touches={"money"}, doubt=by_review())
    async def pay(order: str, *, idempotency_key: str = ""):
        return await provider.asend(idempotency_key=idempotency_key, order=order)

    return pay


@pytest.fixture
def pay_sync(provider):
    @effect("pay_sync", version="1", touches={"money"}, doubt=by_review())
    def pay_sync(order: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order)

    return pay_sync


def run(ledger, dedupe="m1"):
    return ledger.run("agent", conversation="case", message="please", dedupe=dedupe)


def inside(ledger, work):
    """Run the coroutine function inside an async run."""

    async def main():
        async with run(ledger) as entered:
            return await work(entered)

    return asyncio.run(main())


def outcomes(ledger):
    return [
        event.data["outcome"]
        for event in ledger.events("case", types={"effect.observed", "effect.late_observed"})
    ]


async def others_go_on():
    """Let other tasks take their next steps; an answer that is there before an interruption is seen counts."""
    for _ in range(20):
        await asyncio.sleep(0)


# ---- ordinary calls ---------------------------------------------------------------------------------------------------


def test_an_async_tool_is_awaited(ledger, pay, told, world):
    async def work(_):
        return await pay("o-1")

    assert inside(ledger, work)["id"] == "re_1"
    assert told() == ["effect.intended", "effect.observed"]
    assert inside(world.open(), work)["id"] == "re_1"


def test_siblings_with_other_arguments_are_performed_side_by_side(ledger, pay, provider):
    async def work(_):
        return await asyncio.gather(*(pay(f"o-{number}") for number in range(5)))

    receipts = inside(ledger, work)
    assert [receipt["order"] for receipt in receipts] == [f"o-{number}" for number in range(5)]
    assert provider.booked() == 5
    check_truth(ledger)


def test_siblings_with_the_same_arguments_wait_for_the_one_that_acts_and_get_its_outcome(
    ledger, pay, provider, told, world
):
    async def work(_):
        return await asyncio.gather(*(pay("o-1") for _ in range(8)))

    assert [answer["id"] for answer in inside(ledger, work)] == ["re_1"] * 8
    assert provider.booked() == 1
    assert told() == ["effect.intended", "effect.observed"] + ["effect.repeated"] * 7
    assert [answer["id"] for answer in inside(world.open(), work)] == ["re_1"] * 8
    assert len(told()) == 9
    check_truth(ledger)


def test_siblings_of_a_call_that_parks_the_run_are_parked_with_it(ledger, pay, provider):
    provider.plan("answer_lost")

    async def work(_):
        return await asyncio.gather(*(pay("o-1") for _ in range(3)), return_exceptions=True)

    with pytest.raises(RunWaiting):
        inside(ledger, work)
    assert len(provider.requests) == 1


def test_siblings_of_a_call_that_was_not_done_try_again_one_after_the_other(ledger, pay, provider):
    provider.plan("not_done", "not_done")

    async def work(_):
        return await asyncio.gather(*(pay("o-1") for _ in range(4)), return_exceptions=True)

    answers = inside(ledger, work)
    assert sorted(type(answer).__name__ for answer in answers) == ["NotDone", "NotDone", "dict", "dict"]
    assert provider.booked() == 1
    check_truth(ledger)


def test_threads_with_the_same_arguments_wait_for_the_one_that_acts(tmp_path, pay_sync, provider):
    provider.plan("slow")
    with counterfoil.open(tmp_path / "ledger") as ledger, ThreadPoolExecutor(8) as pool:
        with run(ledger) as entered:
            paying = [pool.submit(entered.bind(pay_sync), "o-1") for _ in range(8)]
            provider.wait_for_slow()
            provider.answer_now()
            assert [call.result(30)["id"] for call in paying] == ["re_1"] * 8
        assert provider.booked() == 1
        assert sum(event.type == "effect.repeated" for event in ledger.events("case")) == 7


def test_a_call_of_itself_from_inside_a_tool_is_in_flight_and_waits_for_nothing(ledger):
    told = []

    @effect("again", version="1", touches={"money"}, doubt=by_review())
    def again(order):
        try:
            again(order)
        except EffectInFlight as error:
            told.append(error)

    with run(ledger):
        again("o-1")
    assert len(told) == 1


def test_a_sync_call_on_the_event_loop_does_not_wait_for_a_task_of_that_loop(ledger, pay_sync, provider):
    provider.plan("slow")

    async def work(_):
        paying = asyncio.ensure_future(pay_sync.acall("o-1"))
        await asyncio.to_thread(provider.wait_for_slow)
        with pytest.raises(EffectInFlight):
            pay_sync("o-1")
        provider.answer_now()
        return await paying

    assert inside(ledger, work)["id"] == "re_1"


def test_a_sync_tool_can_be_awaited_without_holding_up_the_loop(ledger, pay_sync, provider):
    provider.plan("slow")

    async def work(_):
        paying = asyncio.ensure_future(pay_sync.acall("o-1"))
        await asyncio.to_thread(provider.wait_for_slow)
        assert not paying.done()
        provider.answer_now()
        return await paying

    assert inside(ledger, work)["id"] == "re_1"


def test_a_sync_tool_called_in_async_code_runs_in_a_thread_that_sees_the_run(ledger):
    seen = []

    @effect("look", version="1", touches={"data"}, doubt=by_review())
    def look():
        seen.append((current_scope().run_id, threading.current_thread() is threading.main_thread()))
        return "there"

    async def work(entered):
        assert look() == "there"
        return entered.id

    run_id = inside(ledger, work)
    assert seen == [(run_id, False)]


def test_an_async_tool_can_be_awaited_by_acall_too(ledger, pay):
    async def work(_):
        return await pay.acall("o-1")

    assert inside(ledger, work)["id"] == "re_1"


def test_a_lookup_of_an_async_tool_is_awaited(ledger, provider):
    provider.plan("answer_lost")

    @effect("pay", version="1", touches={"money"}, doubt=by_lookup(provider.afind))
    async def pay(order: str, *, idempotency_key: str = ""):
        return await provider.asend(idempotency_key=idempotency_key, order=order)

    async def work(_):
        return await pay("o-1")

    assert inside(ledger, work)["id"] == "re_1"


def test_a_plain_function_may_hand_on_the_coroutine_of_an_async_lookup(ledger, provider):
    provider.plan("answer_lost")

    def find(**what):
        return provider.afind(**what)

    @effect("pay", version="1", touches={"money"}, doubt=by_lookup(find))
    async def pay(order: str, *, idempotency_key: str = ""):
        return await provider.asend(idempotency_key=idempotency_key, order=order)

    async def work(_):
        return await pay("o-1")

    assert inside(ledger, work)["id"] == "re_1"


def test_an_object_that_is_called_and_awaited_is_an_async_tool(ledger):
    class Payment:
        __name__ = __qualname__ = "Payment"

        async def __call__(self, order: str):
            return order

    pay = effect("pay", version="1", touches={"money"}, doubt=by_review())(Payment())

    async def work(_):
        return await pay("o-1")

    assert inside(ledger, work) == "o-1"


# ---- cancelled callers -------------------------------------------------------------------------------------------------


def test_a_caller_cancelled_during_the_call_leaves_at_once_and_the_outcome_is_unknown(ledger, pay, provider):
    provider.plan("slow")
    stood = []

    async def work(_):
        paying = asyncio.create_task(pay("o-1"))
        await asyncio.to_thread(provider.wait_for_slow)
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
        await others_go_on()
        stood.append(outcomes(ledger))
        provider.answer_now()

    inside(ledger, work)
    assert stood == [["unknown"]]
    # The call itself went on, and the run waited for it before it gave up its lease.
    assert outcomes(ledger) == ["unknown", "succeeded"]
    assert ledger.effects()[0]["state"] == "succeeded"
    assert ledger.runs()[0]["terminal"] == "success"
    check_truth(ledger)


def test_a_timeout_of_the_callers_own_is_such_a_cancellation(ledger, pay, provider):
    provider.plan("slow")

    async def work(_):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pay("o-1"), 0.05)
        await others_go_on()
        provider.answer_now()

    inside(ledger, work)
    assert outcomes(ledger) == ["unknown", "succeeded"]


def test_a_cancelled_sync_call_runs_on_in_its_thread_and_is_recorded(ledger, pay_sync, provider):
    provider.plan("slow")

    async def work(_):
        paying = asyncio.create_task(pay_sync.acall("o-1"))
        await asyncio.to_thread(provider.wait_for_slow)
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
        await others_go_on()
        provider.answer_now()

    inside(ledger, work)
    assert outcomes(ledger) == ["unknown", "succeeded"]


def test_a_caller_cancelled_before_the_intention_sends_nothing(ledger, pay, provider):
    async def work(_):
        paying = asyncio.create_task(pay("o-1"))
        await asyncio.sleep(0)
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying

    inside(ledger, work)
    assert provider.requests == []
    assert [row["state"] for row in ledger.effects()] in ([], ["failed"])
    check_truth(ledger)


@pytest.mark.parametrize("steps", range(12))
def test_wherever_a_caller_is_cancelled_the_ledger_knows_what_was_sent(ledger, pay, provider, steps, world):
    async def work(_):
        paying = asyncio.create_task(pay("o-1"))
        for _ in range(steps):
            await asyncio.sleep(0)
        paying.cancel()
        await asyncio.gather(paying, return_exceptions=True)

    inside(ledger, work)
    check_truth(ledger)
    states = [row["state"] for row in ledger.effects()]
    assert states in (["succeeded"], ["failed"], [])
    assert provider.booked() == (1 if states == ["succeeded"] else 0)


def test_a_call_that_was_never_sent_is_made_when_the_run_is_entered_again(
    ledger, pay, provider, world, monkeypatch
):
    """The caller is cancelled while the intention is written; the next entry does not repeat that as a failure."""
    holding = asyncio.Event()
    aappend = type(ledger.ports).aappend

    async def held(self, unit, claim=None):
        receipt = await aappend(self, unit, claim)
        if unit.entries[0].drafts and unit.entries[0].drafts[0].event_type == "effect.intended":
            holding.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return receipt

    monkeypatch.setattr(type(ledger.ports), "aappend", held)

    async def work(_):
        paying = asyncio.create_task(pay("o-1"))
        await holding.wait()
        paying.cancel()
        await asyncio.gather(paying, return_exceptions=True)
        raise RunSuspended("stop here", cause="input")

    with pytest.raises(RunWaiting):
        inside(ledger, work)
    observed = next(ledger.events("case", types={"effect.observed"}))
    assert (observed.data["outcome"], observed.data["error_class"]) == ("failed", "NeverSent")
    assert provider.requests == []
    monkeypatch.undo()

    async def again(_):
        return await pay("o-1")

    assert inside(world.open(), again)["id"] == "re_1"


def test_a_tool_that_is_cancelled_from_inside_is_in_doubt(ledger):
    @effect("pay", version="1", touches={"money"}, doubt=by_review())
    async def pay():
        raise asyncio.CancelledError

    async def work(_):
        with pytest.raises(asyncio.CancelledError):
            await pay()

    with pytest.raises(RunWaiting):
        inside(ledger, work)
    assert outcomes(ledger) == ["unknown"]


# ---- suspension among siblings -------------------------------------------------------------------------------------------


def test_a_suspension_in_a_task_group_starts_nothing_new_and_records_what_was_in_flight(
    ledger, pay, provider
):
    provider.plan("slow")

    @effect("lost", version="1", touches={"money"}, doubt=by_review())
    async def lost():
        await asyncio.to_thread(provider.wait_for_slow)
        raise ConnectionError("gone")

    async def late_starter():
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()
        provider.answer_now()
        # A sibling that does not obey its cancellation finds the run parked.
        await pay("o-2")

    async def work(_):
        async with asyncio.TaskGroup() as group:
            group.create_task(pay("o-1"))
            group.create_task(lost())
            group.create_task(late_starter())

    with pytest.raises(RunWaiting):
        inside(ledger, work)
    states = {row["tool"]: row["state"] for row in ledger.effects()}
    assert states == {"pay": "succeeded", "lost": "in_review"}
    assert provider.booked() == 1
    assert ledger.runs()[0]["state"] == "suspended"
    check_truth(ledger)


def test_a_suspension_in_gather_reaches_the_run(ledger, pay, provider):
    provider.plan("slow", "answer_lost")

    async def lost():
        # Its sibling is in flight by then: one that came later would find the run parked.
        await asyncio.to_thread(provider.wait_for_slow)
        try:
            await pay("o-2")
        finally:
            provider.answer_now()

    async def work(_):
        await asyncio.gather(pay("o-1"), lost(), return_exceptions=True)
        with pytest.raises(RunSuspended):
            await pay("o-3")

    with pytest.raises(RunWaiting):
        inside(ledger, work)
    assert provider.booked() == 2
    check_truth(ledger)


# ---- threads -------------------------------------------------------------------------------------------------------------


def test_a_thread_pool_has_no_run_unless_the_function_is_bound(ledger, pay_sync):
    with run(ledger) as entered, ThreadPoolExecutor(2) as pool:
        with pytest.raises(NoRun, match="bind"):
            pool.submit(pay_sync, "o-1").result()
        assert pool.submit(entered.bind(pay_sync), "o-1").result()["id"] == "re_1"


def test_a_suspension_in_a_thread_waits_for_calls_in_flight_in_others(ledger, pay_sync, provider):
    provider.plan("slow", "answer_lost")

    def block():
        with run(ledger) as entered, ThreadPoolExecutor(2) as pool:
            slow = pool.submit(entered.bind(pay_sync), "o-1")
            provider.wait_for_slow()
            lost = pool.submit(entered.bind(pay_sync), "o-2")
            with pytest.raises(RunSuspended):
                lost.result()
            with pytest.raises(RunSuspended):
                pay_sync("o-3")
            provider.answer_now()
            assert slow.result()["id"] == "re_1"

    with pytest.raises(RunWaiting):
        block()
    assert sorted(row["state"] for row in ledger.effects()) == ["in_review", "succeeded"]
    check_truth(ledger)


def test_an_interrupt_during_a_call_records_that_the_outcome_is_unknown(
    ledger, provider, pay_sync, monkeypatch, late_recorded
):
    provider.plan("slow")

    def interrupted_wait(_call, _timeout_s):
        """Somebody presses Ctrl-C while the caller waits for the answer."""
        provider.wait_for_slow()
        raise KeyboardInterrupt

    monkeypatch.setattr(calls.Started, "wait", interrupted_wait)
    with pytest.raises(KeyboardInterrupt), run(ledger):
        pay_sync("o-1")
    assert outcomes(ledger) == ["unknown"]
    assert ledger.runs()[0]["terminal"] == "interrupted"
    provider.answer_now()
    assert late_recorded()
    assert outcomes(ledger) == ["unknown", "succeeded"]
    check_truth(ledger)


def test_a_tool_may_call_another_tool(ledger, provider, pay_sync):
    @effect("outer", version="1", touches={"money"}, doubt=by_key())
    def outer(*, idempotency_key):
        return pay_sync("o-1")["id"]

    with run(ledger):
        assert outer() == "re_1"
    assert scope_or_none() is None
    assert [row["tool"] for row in ledger.effects()] == ["pay_sync", "outer"] or len(ledger.effects()) == 2
    check_truth(ledger)


def test_doubt_of_an_inner_tool_parks_the_outer_one_too(ledger, provider, pay_sync):
    provider.plan("answer_lost")

    @effect("outer", version="1", touches={"money"}, doubt=by_key())
    def outer(*, idempotency_key):
        return pay_sync("o-1")["id"]

    with pytest.raises(RunWaiting), run(ledger):
        outer()
    states = {row["tool"]: row["state"] for row in ledger.effects()}
    assert states == {"pay_sync": "in_review", "outer": "unknown"}
    assert provider.booked() == 1
