"""Held, cancelled and reconciled on every engine, by sync code and by tasks: the stream and the rows say the same."""

from __future__ import annotations

import io
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import EffectHeld, RunStopped
from counterfoil.reconcile.book import Columns
from counterfoil.testing.crash import World
from counterfoil.testing.truth import check_truth
from tests.stage import CASE


def test_a_held_tool_sends_nothing_until_it_is_released(stage):
    refund = stage.refund()
    stage.open().hold("payment.refund", by="Ines", reason="wrong amounts")
    with pytest.raises(EffectHeld):
        stage.serve(refund)
    assert stage.provider.booked() == 0
    assert stage.stream() == ["decision.proposed", "policy.evaluated"]
    assert stage.effects() == []
    stage.open().release("payment.refund", by="Tom", reason="mended")
    stage.serve(refund, dedupe="m2", message="again")
    assert stage.provider.booked() == 1
    assert stage.effects() == ["succeeded"]


def test_a_cancelled_run_sends_nothing_more(stage):
    refund = stage.refund()

    async def agent(ledger):
        async with stage.run(ledger) as run:
            await stage.call(refund, "o-1")
            stage.open().cancel(run.id, by="Ines", reason="the customer called")
            await stage.call(refund, "o-2")

    with pytest.raises(RunStopped):
        stage.play(agent(stage.open()))
    assert stage.provider.booked() == 1
    assert stage.runs() == [("finished", "cancelled")]
    types = [event.type for event in stage.open().events(CASE)]
    assert types.count("run.cancel_requested") == types.count("run.finished") == 1


def test_a_book_ends_the_doubt_that_a_crash_has_left(stage):
    refund = stage.refund("review")
    stage.crash(refund)
    stage.world.time_passes()
    assert stage.effects() == ["intended"]
    book = io.BytesIO(b"key\nrefund:O-1042\n")
    report = stage.open().reconcile("payment.refund", book, Columns(key="key"), settle=True, by="Ines")
    assert len(report.settled) == 1
    assert stage.effects() == ["succeeded"]
    assert stage.stream("source") == [("effect.intended", None), ("effect.late_observed", "import")]
    assert stage.provider.booked() == 1


def test_nothing_is_intended_behind_the_moment_at_which_a_lever_is_answered(anywhere):
    """Workers on handles of their own send as fast as they can; what was intended when `hold` returns is all there is."""
    with own_tools(), closing(World(anywhere)) as world:
        sent = threading.Semaphore(0)

        @counterfoil.effect(
            "pay", version="1", touches={"money"}, repeatable=True, doubt=counterfoil.by_key()
        )
        def pay(number: int, *, idempotency_key: str = "") -> None:
            sent.release()

        ledgers = [world.open() for _ in range(3)]

        def work(lane: int) -> int:
            with suppress(EffectHeld), ledgers[lane].run("agent", conversation=f"lane-{lane}") as run:
                for number in itertools.count():
                    pay(number)
            return len(list(ledgers[lane].events(run.conversation, types={"effect.intended"})))

        with ThreadPoolExecutor(len(ledgers)) as pool:
            lanes = [pool.submit(work, lane) for lane in range(len(ledgers))]
            assert all(sent.acquire(timeout=60) for _ in range(12))
            holder = world.open()
            holder.hold("pay", by="Ines", reason="incident")
            then = [
                len(list(holder.events(f"lane-{lane}", types={"effect.intended"})))
                for lane in range(len(ledgers))
            ]
            assert [lane.result(120) for lane in lanes] == then
        check_truth(holder)
