"""A run that suspends among siblings: nothing new starts, calls in flight are recorded, nothing is swallowed.

Asked for by DESIGN 7 and 11 and by the list of failure modes: doubt must not become text for a model.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import RunSuspended, RunWaiting
from tests.running import World, facts, types_of

WAIT_S = 10


@pytest.fixture
def ledger():
    with own_tools():
        yield World().worker()


def lost_payment():
    """A payment that loses its answer and cannot be asked about, so it waits for a person."""

    @counterfoil.effect("payment.pay", version="1", touches={"money"}, doubt=counterfoil.by_review())
    def pay(order: str) -> dict:
        raise ConnectionError("the answer was lost")

    return pay


def lost_async_payment():
    @counterfoil.effect("payment.pay", version="1", touches={"money"}, doubt=counterfoil.by_review())
    async def pay(order: str) -> dict:
        await asyncio.sleep(0)
        raise ConnectionError("the answer was lost")

    return pay


def waits(ledger, conversation="c"):
    """The one suspension of the conversation, and the review it names."""
    (suspended,) = facts(ledger, conversation, "run.suspended")
    (review,) = ledger.reviews()
    assert suspended == {"cause": "review", "waits_for": [review["review_id"]]}
    return review


def test_doubt_leaves_the_block_as_run_waiting_an_ordinary_exception(ledger):
    pay = lost_payment()
    with pytest.raises(RunWaiting) as waiting, ledger.run("a", conversation="c"):
        pay("O-1")
    assert waiting.value.waits_for == (waits(ledger)["review_id"],)
    assert "run.finished" not in types_of(ledger, "c")
    assert ledger.store.head(ledger.stream_of("c")).lease is None


def test_a_framework_that_turns_exceptions_into_text_does_not_get_this_one(ledger):
    pay = lost_payment()

    def call_tool(order):
        try:
            return pay(order)
        except Exception as error:  # noqa: BLE001 - as frameworks do
            return f"tool failed: {error}"

    with pytest.raises(RunWaiting), ledger.run("a", conversation="c"):
        call_tool("O-1")
        pytest.fail("the framework went on with text in place of doubt")


def test_code_that_swallows_even_base_exceptions_does_not_undo_a_suspension(ledger):
    pay = lost_payment()
    with pytest.raises(RunWaiting), ledger.run("a", conversation="c") as run:
        for _ in range(3):
            with pytest.raises(RunSuspended):
                pay("O-1")
        with pytest.raises(RunSuspended):
            run.step("s", lambda: pytest.fail("a parked run went on"))
        with pytest.raises(RunSuspended):
            run.ask(lambda request: pytest.fail("a parked run asked a model"), "q")
        run.finish("done")
    waits(ledger)
    assert len(facts(ledger, "c", "effect.intended")) == 1


def test_an_exception_that_covers_the_suspension_is_kept_as_its_cause(ledger):
    pay = lost_payment()
    with pytest.raises(RunWaiting) as waiting, ledger.run("a", conversation="c"):
        try:
            pay("O-1")
        finally:
            raise ValueError("clean-up failed too")
    assert isinstance(waiting.value.__cause__, ValueError)


def test_a_bug_in_a_tool_is_named_and_stays_in_reach(ledger):
    @counterfoil.effect("payment.pay", version="1", touches={"money"}, doubt=counterfoil.by_review())
    def pay(order):
        return {}["total of Jane Doe"]

    with pytest.raises(RunWaiting) as waiting, ledger.run("a", conversation="c"):
        pay("O-1")
    (effect,) = ledger.effects()
    for part in (effect["effect_id"], "payment.pay", "KeyError", "by_review"):
        assert part in waiting.value.message
    assert "Jane" not in str(waiting.value)
    parked = waiting.value.__cause__
    assert isinstance(parked, RunSuspended)
    assert isinstance(parked.__cause__, KeyError)
    assert parked.__cause__.__traceback__ is not None


def test_an_exception_group_around_the_suspension_leads_to_the_bug_too(ledger):
    @counterfoil.effect("payment.pay", version="1", touches={"money"}, doubt=counterfoil.by_review())
    async def pay(order):
        raise ZeroDivisionError

    async def main():
        async with ledger.run("a", conversation="c"), asyncio.TaskGroup() as group:
            group.create_task(pay("O-1"))

    with pytest.raises(RunWaiting) as waiting:
        asyncio.run(main())
    assert isinstance(waiting.value.__cause__.__cause__, ZeroDivisionError)


@pytest.mark.processes
def test_the_way_out_is_a_command_that_can_be_given_as_it_stands(tmp_path):
    ledger = counterfoil.open(tmp_path / "the ledger")
    pay = lost_payment()

    def work():
        with ledger.run("a", conversation="c", dedupe="1"):
            pay("O-1")

    for _ in range(2):
        with pytest.raises(RunWaiting) as waiting:
            work()
        command = shlex.split(waiting.value.hint.split("`")[1])
        shown = subprocess.run(
            [str(Path(sys.executable).with_name(command[0])), *command[1:]],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (shown.returncode, shown.stderr) == (3, "")
        assert "payment" in shown.stdout
    ledger.close()


def test_a_settled_review_lets_the_same_code_go_on_with_its_result(ledger):
    pay = lost_payment()

    def work():
        with ledger.run("a", conversation="c", dedupe="1") as run:
            run.finish(pay("O-1"))
        return run.output

    with pytest.raises(RunWaiting):
        work()
    ledger.settle(
        waits(ledger)["review_id"], "succeeded", by="Jane", reason="on the statement", result={"id": "p_1"}
    )
    assert work() == {"id": "p_1"}
    assert len(facts(ledger, "c", "effect.intended")) == 1


def test_entering_again_before_the_review_is_settled_records_nothing(ledger):
    pay = lost_payment()
    for _ in range(3):
        with pytest.raises(RunWaiting), ledger.run("a", conversation="c", dedupe="1"):
            pay("O-1")
    assert len(facts(ledger, "c", "run.suspended")) == 1
    assert "run.claimed" not in types_of(ledger, "c")


def test_a_waiting_run_leaves_the_slot_to_the_next_input(ledger):
    pay = lost_payment()
    with pytest.raises(RunWaiting), ledger.run("a", conversation="c"):
        pay("O-1")
    with ledger.run("a", conversation="c") as other:
        other.finish("meanwhile")
    assert other.terminal == "success"


# ---- tasks -------------------------------------------------------------------------------------------------------


async def slow_step(run, started, go):
    async def work():
        started.set()
        await go.wait()
        return "recorded"

    return await run.astep("slow", work)


@pytest.mark.parametrize("return_exceptions", [False, True])
def test_gather_suspends_and_records_the_sibling_in_flight(ledger, return_exceptions):
    pay = lost_async_payment()

    async def main():
        started, go = asyncio.Event(), asyncio.Event()
        with pytest.raises(RunWaiting):
            async with ledger.run("a", conversation="c") as run:
                slow = asyncio.create_task(slow_step(run, started, go))
                await started.wait()
                asyncio.get_running_loop().call_later(0.02, go.set)
                await asyncio.gather(pay("O-1"), slow, return_exceptions=return_exceptions)

    asyncio.run(main())
    waits(ledger)
    assert facts(ledger, "c", "step.finished")[0]["outcome"] == "ok"
    assert types_of(ledger, "c")[-1] == "run.suspended"


def test_a_task_group_suspends_and_the_siblings_it_cancels_are_recorded(ledger):
    pay = lost_async_payment()

    async def main():
        started = asyncio.Event()
        with pytest.raises(RunWaiting):
            async with ledger.run("a", conversation="c") as run, asyncio.TaskGroup() as group:
                group.create_task(slow_step(run, started, asyncio.Event()))
                await started.wait()
                group.create_task(pay("O-1"))

    asyncio.run(main())
    waits(ledger)
    assert facts(ledger, "c", "step.finished")[0]["outcome"] == "cancelled"


def test_siblings_of_a_suspended_run_start_nothing_new(ledger):
    pay = lost_async_payment()
    sent = []

    @counterfoil.effect("mail.send", version="1", touches={"messages"}, doubt=counterfoil.by_key())
    async def send(to: str, *, idempotency_key: str = "") -> None:
        sent.append(to)

    async def main():
        with pytest.raises(RunWaiting):
            async with ledger.run("a", conversation="c") as run:
                await asyncio.gather(pay("O-1"), return_exceptions=True)
                answers = await asyncio.gather(
                    send("x"),
                    run.astep("s", lambda: 1),
                    run.aask(lambda request: "x", "q"),
                    return_exceptions=True,
                )
                assert [type(answer) for answer in answers] == [RunSuspended] * 3

    asyncio.run(main())
    assert sent == []
    assert len(facts(ledger, "c", "effect.intended")) == 1


def test_an_effect_in_flight_beside_the_suspension_is_observed(ledger):
    pay = lost_async_payment()
    in_call, go = asyncio.Event(), asyncio.Event()

    @counterfoil.effect("mail.send", version="1", touches={"messages"}, doubt=counterfoil.by_review())
    async def send(to: str) -> str:
        in_call.set()
        await go.wait()
        return "sent"

    async def main():
        with pytest.raises(RunWaiting):
            async with ledger.run("a", conversation="c"):
                mail = asyncio.create_task(send("x"))
                await in_call.wait()
                with pytest.raises(RunSuspended):
                    await pay("O-1")
                asyncio.get_running_loop().call_later(0.02, go.set)
                del mail

    asyncio.run(main())
    outcomes = {event["outcome"] for event in facts(ledger, "c", "effect.observed")}
    assert outcomes == {"succeeded", "unknown"}
    assert types_of(ledger, "c")[-1] == "run.suspended"


def test_a_cancellation_from_outside_is_passed_on_and_the_run_still_waits(ledger):
    pay = lost_async_payment()

    async def main():
        parked = asyncio.Event()

        async def agent():
            async with ledger.run("a", conversation="c"):
                with pytest.raises(RunSuspended):
                    await pay("O-1")
                parked.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(agent())
        await parked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    waits(ledger)


# ---- threads -----------------------------------------------------------------------------------------------------


def test_threads_suspend_together_and_the_one_in_flight_is_recorded(ledger):
    pay = lost_payment()
    started, go = threading.Event(), threading.Event()

    def slow():
        started.set()
        assert go.wait(WAIT_S)
        return "recorded"

    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(RunWaiting), ledger.run("a", conversation="c") as run:
            sibling = pool.submit(run.bind(run.step), "slow", slow)
            assert started.wait(WAIT_S)
            releaser = threading.Timer(0.02, go.set)
            releaser.start()
            pay("O-1")
        assert sibling.result() == "recorded"
        releaser.join()
    assert types_of(ledger, "c")[-2:] == ["step.finished", "run.suspended"]
    waits(ledger)


def test_a_thread_that_comes_late_is_refused(ledger):
    pay = lost_payment()
    with ThreadPoolExecutor(1) as pool, pytest.raises(RunWaiting), ledger.run("a", conversation="c") as run:
        late = run.bind(lambda: run.step("late", lambda: pytest.fail("a parked run went on")))
        with pytest.raises(RunSuspended):
            pay("O-1")
        with pytest.raises(RunSuspended):
            pool.submit(late).result()


# ---- success and doubt -------------------------------------------------------------------------------------------


def test_a_run_cannot_end_well_while_an_effect_waits_for_a_person(ledger):
    pay = lost_payment()
    with pytest.raises(RunWaiting), ledger.run("a", conversation="c", dedupe="1"):
        pay("O-1")
    review = waits(ledger)

    with pytest.raises(RunWaiting), ledger.run("a", conversation="c", dedupe="1") as run:
        run.finish("without asking for the payment again")
    assert ledger.run_row(review["run_id"])["state"] == "suspended"
    ledger.settle(review["review_id"], "abandoned", by="Jane", reason="written off")
    with ledger.run("a", conversation="c", dedupe="1") as run:
        run.finish("done")
    assert run.terminal == "success"


def test_another_end_than_success_leaves_the_doubt_for_recovery(ledger):
    @counterfoil.effect("payment.pay", version="1", touches={"money"}, doubt=counterfoil.by_review())
    def pay(order: str) -> dict:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ledger.run("a", conversation="c"):
        pay("O-1")
    (row,) = ledger.effects()
    assert row["state"] in {"unknown", "in_review"}
    assert ledger.run_row(row["run_id"])["terminal"] == "interrupted"
