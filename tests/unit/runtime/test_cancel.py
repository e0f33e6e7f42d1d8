"""Cancelling a run from outside: seen at the next call, never in the middle of one, and ended where nobody is (DESIGN 7)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import InvalidForm, RunEnded, RunNotFound, RunStopped, RunWaiting, StoreBusy
from tests.approving import Shop
from tests.running import ScriptedModel, facts, types_of, vanish


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


@pytest.fixture
def outside(world):
    """A handle as another process would have it: nothing of it reaches the worker but through the ledger."""
    return world.worker()


def cancel(ledger, run_id, by="Ines", reason="the customer called"):
    return ledger.cancel(run_id, by=by, reason=reason)


def begin(ledger, dedupe="m1", **more):
    return ledger.run("agent", conversation="case", message="please", dedupe=dedupe, **more)


def terminal(ledger, run_id):
    row = ledger.run_row(run_id)
    return row["state"], row["terminal"]


def declare(fn, **more):
    settings = {"version": "1", "touches": {"money"}, "doubt": counterfoil.by_review()} | more
    return counterfoil.effect("pay", **settings)(fn)


# ---- a run that a worker holds ---------------------------------------------------------------------------------------


def test_a_worker_elsewhere_stops_before_its_next_effect_is_sent(ledger, outside):
    paid = []

    def pay(order):
        paid.append(order)

    pay = declare(pay)
    with pytest.raises(RunStopped) as stopped, begin(ledger) as run:
        pay("o-1")
        assert cancel(outside, run.id).done == "requested"
        pay("o-2")
    assert paid == ["o-1"]
    assert stopped.value.terminal == "cancelled"
    assert terminal(outside, run.id) == ("finished", "cancelled")
    assert sorted(row["state"] for row in outside.effects()) == ["failed", "succeeded"]


def test_what_was_intended_at_that_moment_is_recorded_as_never_sent(ledger, outside):
    pay = declare(lambda order: pytest.fail("it was cancelled"))
    with pytest.raises(RunStopped), begin(ledger) as run:
        cancel(outside, run.id)
        pay("o-1")
    (observed,) = facts(ledger, "case", "effect.observed")
    assert (observed["outcome"], observed["error_class"]) == ("failed", "NeverSent")


def test_a_worker_elsewhere_stops_before_its_next_step_and_its_next_question(ledger, outside):
    for number, call in enumerate(
        (lambda run: run.step("two", pytest.fail), lambda run: run.ask(ScriptedModel(), "and?"))
    ):
        with pytest.raises(RunStopped), begin(ledger, f"m{number}") as run:
            run.step("one", lambda: 1)
            cancel(outside, run.id)
            call(run)
        assert terminal(outside, run.id) == ("finished", "cancelled")


def test_a_call_under_way_goes_on_and_is_recorded(ledger, outside):
    def pay(order):
        cancel(outside, run.id)
        return "paid"

    pay = declare(pay)
    with pytest.raises(RunStopped), begin(ledger) as run:
        assert pay("o-1") == "paid"
        pay("o-2")
    assert [row["state"] for row in outside.effects()] == ["succeeded"]


def test_a_run_of_the_same_handle_is_told_at_once(ledger):
    with pytest.raises(RunStopped), begin(ledger) as run:
        cancel(ledger, run.id)
        run.step("one", pytest.fail)
    assert "step.started" not in types_of(ledger, "case")


def test_framework_code_that_eats_exceptions_does_not_undo_it(ledger, outside):
    pay = declare(lambda order: order)
    with pytest.raises(RunStopped), begin(ledger) as run:
        cancel(outside, run.id)
        for _ in range(3):
            with pytest.raises(BaseException, match="cancelled"):
                pay("o-1")
    assert terminal(outside, run.id) == ("finished", "cancelled")


def test_tasks_of_an_async_run_stop_too(ledger, outside):
    paid = []

    async def pay(order):
        paid.append(order)

    pay = declare(pay)

    async def agent():
        async with begin(ledger) as run:
            await pay("o-1")
            cancel(outside, run.id)
            await asyncio.gather(*(pay(f"o-{n}") for n in range(2, 5)), return_exceptions=True)
            await pay("o-9")

    with pytest.raises(RunStopped):
        asyncio.run(agent())
    assert paid == ["o-1"]


def test_a_run_that_comes_to_its_end_first_ends_well(ledger, outside):
    with begin(ledger) as run:
        run.step("one", lambda: 1)
        cancel(outside, run.id)
        run.finish("done")
    assert (run.terminal, run.output) == ("success", "done")


def test_a_run_that_is_cancelled_while_it_is_put_to_rest_ends(ledger, outside):
    def pay(order):
        cancel(outside, run.id)
        raise ConnectionError("sent, or not?")

    pay = declare(pay)
    with pytest.raises(RunStopped), begin(ledger) as run:
        pay("o-1")
    assert terminal(outside, run.id) == ("finished", "cancelled")
    assert [row["state"] for row in outside.effects()] == ["in_review"]


def test_events_of_others_that_cancel_nothing_cost_one_look_each(ledger, outside, monkeypatch):
    pay = declare(lambda order: order)
    looks = []
    read = ledger.ports.read
    with begin(ledger) as run:
        pay("o-0")
        monkeypatch.setattr(ledger.ports, "read", lambda query: looks.append(query) or read(query))
        pay("o-1")
        assert looks == []
        with pytest.raises(counterfoil.RunBusy), outside.run("agent", conversation="case", dedupe="m2"):
            pass
        pay("o-2")
        pay("o-3")
        run.finish("done")
        assert len([query for query in looks if getattr(query, "types", None)]) == 1
    assert run.terminal == "success"


def test_threads_of_one_run_never_send_after_it_was_cancelled(ledger, outside):
    sent, after = [], threading.Event()

    def pay(order):
        sent.append((order, after.is_set()))

    pay = declare(pay, repeatable=True)

    def many(lane):
        for number in range(200):
            pay(f"{lane}-{number}")

    with pytest.raises(RunStopped), begin(ledger) as run, ThreadPoolExecutor(4) as pool:
        lanes = [pool.submit(run.bind(many), lane) for lane in range(4)]
        run.step("wait", lambda: None)
        cancel(outside, run.id)
        after.set()
        for lane in lanes:
            assert lane.exception() is not None
        raise lanes[0].exception()
    assert sum(late for _, late in sent) <= len(lanes)  # those whose intention was recorded before
    intended = list(outside.events("case", types={"effect.intended"}))
    (asked,) = outside.events("case", types={"run.cancel_requested"})
    behind = {event.data["effect_id"] for event in intended if event.sequence > asked.sequence}
    classes = {
        fact["effect_id"]: fact.get("error_class") for fact in facts(outside, "case", "effect.observed")
    }
    assert {classes[effect_id] for effect_id in behind} <= {"NeverSent"}


# ---- a run that nobody holds -----------------------------------------------------------------------------------------


def test_a_run_that_waits_ends_at_once_and_its_question_lapses(ledger, outside):
    shop = Shop(ledger)
    approval = shop.waits()
    (row,) = outside.runs()
    assert cancel(outside, str(row["run_id"])).done == "ended"
    assert terminal(outside, row["run_id"]) == ("finished", "cancelled")
    assert [row["approval_id"] for row in outside.approvals("expired")] == [approval]
    with outside.run("agent", conversation="case", message="o-1", dedupe="o-1") as again:
        assert (again.done, again.terminal) == (True, "cancelled")
    assert shop.provider.booked() == 0


def test_a_run_whose_worker_is_gone_ends_and_its_doubt_stays(ledger, outside, world):
    pay = declare(lambda order: (_ for _ in ()).throw(SystemExit))

    def die(run):
        with pytest.raises(SystemExit):
            pay("o-1")

    run_id = vanish(begin(ledger), die)
    world.clock.advance(120_000)
    assert cancel(outside, run_id).done == "ended"
    assert terminal(outside, run_id) == ("finished", "cancelled")
    assert [row["state"] for row in outside.effects()] == ["unknown"]
    outside.recover()
    assert [row["state"] for row in outside.effects()] == ["in_review"]


def test_a_cancelled_run_whose_call_is_in_review_says_so_when_it_is_entered_again(ledger, outside):
    pay = declare(lambda order: (_ for _ in ()).throw(OSError))
    with pytest.raises(RunWaiting), begin(ledger) as run:
        pay("o-1")
    assert cancel(outside, run.id).done == "ended"
    with pytest.raises(RunWaiting, match="the run has ended") as told, begin(ledger):
        pay("o-1")
    assert told.value.waits_for == tuple(str(row["review_id"]) for row in outside.reviews())


def test_a_cancelled_async_run_whose_call_is_in_review_says_so_when_it_is_entered_again(ledger, outside):
    async def fails(order):
        raise OSError

    pay = declare(fails)

    async def once():
        async with begin(ledger) as run:
            await pay("o-1")
        return run

    with pytest.raises(RunWaiting) as first:
        asyncio.run(once())
    assert cancel(outside, first.value.fields["run_id"]).done == "ended"
    with pytest.raises(RunWaiting, match="the run has ended"):
        asyncio.run(once())


def test_a_worker_that_slept_past_its_lease_can_append_nothing_after(ledger, outside, world):
    with pytest.raises(counterfoil.errors.LeaseLost), begin(ledger) as run:
        ledger._heartbeat.remove(run._scope)
        world.expire_leases()
        assert cancel(outside, run.id).done == "ended"
        run.step("one", lambda: 1)
    assert types_of(outside, "case")[-1] == "run.finished"


def test_the_next_input_in_line_gets_its_turn(ledger, outside, world):
    run_id = vanish(begin(ledger))
    with pytest.raises(counterfoil.RunBusy), begin(outside, "m2"):
        pass
    world.expire_leases()
    cancel(outside, run_id)
    assert types_of(outside, "case")[-1] == "admission.released"
    with begin(outside, "m2") as second:
        second.finish("done")
    assert second.terminal == "success"


def test_a_run_that_was_left_open_with_the_request_unread_ends_when_it_is_entered(ledger, outside):
    with pytest.raises(StoreBusy), begin(ledger) as run:
        cancel(outside, run.id)
        raise StoreBusy("the disk is busy")
    with pytest.raises(RunStopped), begin(outside) as again:
        again.step("one", pytest.fail)
    assert terminal(outside, run.id) == ("finished", "cancelled")


# ---- what is recorded, and what is refused ---------------------------------------------------------------------------


def test_who_cancelled_and_why_is_content_of_one_event(ledger, outside):
    with pytest.raises(RunStopped), begin(ledger) as run:
        cancel(outside, run.id)
        assert cancel(outside, run.id, by="Tom").repeated
        run.step("one", lambda: 1)
    (event,) = ledger.events("case", types={"run.cancel_requested"})
    assert event.data == {}
    assert event.header.actor["type"] == "human"
    assert event.content == {"by": {"name": "Ines"}, "reason": "the customer called"}


def test_cancelling_again_changes_nothing_and_cancelling_too_late_is_refused(ledger, outside):
    with pytest.raises(RunStopped), begin(ledger) as run:
        cancel(outside, run.id)
        run.step("one", lambda: 1)
    head = outside.store.head(run.conversation)
    assert cancel(outside, run.id).repeated
    assert outside.store.head(run.conversation) == head
    with begin(ledger, "m2") as second:
        second.finish("done")
    with pytest.raises(RunEnded) as late:
        cancel(outside, second.id)
    assert late.value.terminal == "success"


def test_a_run_of_another_tenant_or_of_nobody_is_not_found(world, outside, ledger):
    with begin(ledger) as run:
        with pytest.raises(RunNotFound):
            cancel(world.worker("north"), run.id)
        with pytest.raises(RunNotFound):
            cancel(outside, "run_01J9ZC3Y3V7W2R5T8QK4M6N0PK")
        with pytest.raises(InvalidForm):
            cancel(outside, run.id, reason=" ")


def test_a_resume_and_a_cancel_at_the_same_moment_agree_on_one_order(ledger, outside, monkeypatch):
    pay = declare(lambda order: (_ for _ in ()).throw(ConnectionError("sent?")))
    with pytest.raises(RunWaiting) as waiting, begin(ledger) as run:
        pay("o-1")
    ledger.settle(waiting.value.waits_for[0], "succeeded", by="Ines", reason="seen")
    append = outside.ports.append
    entered = []

    def outrun(unit, claim=None):
        if not entered:
            entered.append(begin(ledger).__enter__())
        return append(unit, claim)

    monkeypatch.setattr(outside.ports, "append", outrun)
    assert cancel(outside, run.id).done == "requested"
    with pytest.raises(RunStopped):
        _leave(entered[0])
    assert terminal(outside, run.id) == ("finished", "cancelled")


def _leave(run):
    """Go on with a run that was entered by hand, until its next call."""
    try:
        run.step("one", lambda: 1)
    except BaseException as error:  # handed to the block's end, as `with` does
        run.__exit__(type(error), error, None)
        raise
