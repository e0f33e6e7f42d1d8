"""Turns whose heads are kept, stopped before and after every request: one head for each run that ended, and it fits."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.testing import crash
from counterfoil.testing.provider import FakeProvider
from tests.running import LEASE_MS, vanish


class Turns(crash.Scenario):
    """A model, an effect and an answer, in a ledger that keeps the heads of turns."""

    def prepare(self, world):
        self.provider = FakeProvider()

        @counterfoil.effect(
            "shop.refund",
            version="1",
            touches={"money"},
            key=lambda order, **_: f"refund:{order}",
            doubt=counterfoil.by_key(),
        )
        def refund(order, *, idempotency_key=""):
            return self.provider.send(idempotency_key=idempotency_key, order=order)

        self.refund = refund

    def work(self, ledger):
        ledger.keeps_turns = True
        with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            run.ask(lambda request: "I refund it.", "please", name="acme-1")
            run.finish(self.refund("O-1"))

    def check(self, world, ledger):
        (row,) = ledger.runs("case")
        finished, committed = list(ledger.events("case"))[-2:]
        assert (finished.type, committed.type) == ("run.finished", "turn.committed")
        turn = ledger.turn(row["run_id"])
        assert (turn.head, turn.broken_at_seq) == (turn.events[-1].hash, None)
        kinds = [event.type for event in turn.events]
        assert (kinds[0], kinds[-1], kinds.count("COMMIT")) == ("INTAKE", "COMMIT", 1)
        assert "TOOL_CALL" in kinds
        assert self.provider.booked() == 1


class AsyncTurns(Turns):
    """The same from a task, whose tool is sync all the same."""

    async def work(self, ledger):
        ledger.keeps_turns = True
        async with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            await run.aask(lambda request: "I refund it.", "please", name="acme-1")
            run.finish(self.refund("O-1"))


class HeadsOfOthers(crash.Scenario):
    """A worker keeps the head of a run that the next input ended."""

    def prepare(self, world):
        ledger = world.open()
        vanish(ledger.run("agent", conversation="case", message="please", while_running="supersede"))
        world.clock.advance(LEASE_MS + 1)
        vanish(ledger.run("agent", conversation="case", message="please", while_running="supersede"))

    def work(self, ledger):
        ledger.keeps_turns = True
        worker = ledger.worker(agents=False)
        while worker.look():
            pass

    def check(self, world, ledger):
        done = next(row for row in ledger.runs("case") if row["state"] == "finished")
        (head,) = ledger.events("case", types=["turn.committed"])
        turn = ledger.turn(done["run_id"])
        assert (head.header.run_id, turn.head, turn.broken_at_seq) == (
            done["run_id"],
            turn.events[-1].hash,
            None,
        )


def test_a_worker_that_dies_anywhere_leaves_one_head_for_a_run_that_another_ended():
    assert len(crash.run_matrix(HeadsOfOthers)) >= 2


@pytest.mark.parametrize("scenario", [Turns, AsyncTurns], ids=lambda kind: kind.__name__)
def test_a_run_that_ends_keeps_one_head_that_fits_wherever_its_worker_died(scenario):
    assert len(crash.run_matrix(scenario)) > 20
