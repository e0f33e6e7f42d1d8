"""Compensate, stopped before and after every request: nothing is undone twice, and the repair ends as its effects did."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from counterfoil.effects.registry import own_tools
from counterfoil.errors import RunWaiting
from counterfoil.testing import crash
from counterfoil.testing.truth import check_truth
from tests.crash.points import by, changing
from tests.crash.workers import WORKERS, recover_together
from tests.repairing import CASE, Bank, check_repairs
from tests.servers.fixtures import schema_for


class Undone(crash.Scenario):
    """A refund that was too much: a charge and a letter undo it, and fail as planned."""

    rule = "lookup"
    faults: tuple[str | None, ...] = ()
    asynchronous = False
    workers = 1

    def prepare(self, world):
        self.world = world
        self.bank = Bank(world.open(), asynchronous=self.asynchronous, rule=self.rule)
        self.provider = self.bank.provider
        self.effect_id = self.refund()
        self.provider.requests.clear()
        # Only a rule that rests on the key may be forgiven a second sending.
        self.provider.deduplicates = self.rule in ("key", "lookup_then_key")
        self.provider.plan(*self.faults)

    def refund(self):
        return self.bank.serve()

    def work(self, ledger):
        self.bank.ledger = ledger
        self.said(self.bank.repair(self.effect_id))

    def said(self, report):
        if report.open:
            raise RunWaiting(report.why)

    def recover(self, ledger):
        """What is in doubt is recovered, and a scripted reviewer settles the rest from the provider's own book."""
        recover_together(self.world, self.workers)
        for review in ledger.reviews():
            effect = ledger.store.get("effects", (review["effect_id"],))
            what = "charged" if effect["tool"] == "bank.charge" else "told"
            outcome = (
                "succeeded" if any(what in dict(entry.what) for entry in self.provider.book) else "failed"
            )
            ledger.settle(str(review["review_id"]), outcome, by="Omar", reason="the provider's book")

    def check(self, world, ledger):
        self.bank.ledger = ledger
        check_repairs(ledger)
        self.check_world()
        (state,) = self.bank.states()
        (row,) = ledger.repairs(None)
        report = ledger.repair_report(str(row["repair_id"]))
        steps = [step.state for step in report.steps]
        if state == "repaired":
            assert steps == ["done", "done"]
            assert (self.bank.sent("charged"), self.bank.sent("told")) == (1, 1)
            assert {run["terminal"] for run in ledger.runs(CASE)} <= {"success", "runtime_failure"}
        else:
            # A person found that a call had not arrived: it is final, so the case stays open for a person.
            assert (state, self.rule in ("lookup", "review")) == ("open", True)
            assert "refused" in steps

    def check_world(self):
        assert self.bank.sent("refunded") == 1
        assert self.bank.sent("charged") <= 1
        assert self.bank.sent("told") <= 1
        types = self.bank.types("repair.opened", "repair.closed")
        assert types.count("repair.opened") == 1
        assert types.count("repair.closed") <= 1
        # The letter goes out only when the charge is known to be made.
        if self.bank.sent("told"):
            assert self.bank.sent("charged") == 1


class AsyncUndone(Undone):
    asynchronous = True

    def refund(self):
        return asyncio.run(self.bank.aserve())

    async def work(self, ledger):
        self.bank.ledger = ledger
        wanted = {"by": "Dana", "reason": "the parcel had arrived"}
        self.said(await ledger.arepair(self.effect_id, **wanted))


def scenario(kind, rule, faults=(), workers=1):
    return type(kind.__name__, (kind,), {"rule": rule, "faults": faults, "workers": workers})


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "kind,rule", [(Undone, "lookup"), (Undone, "key"), (Undone, "review"), (AsyncUndone, "lookup_then_key")]
)
def test_wherever_a_repair_stops_each_compensation_happens_once_and_the_ledger_knows(kind, rule, workers):
    matrix = crash.run_matrix(scenario(kind, rule, workers=workers), choose=by(workers))
    tried = {(point.what, point.when) for point in matrix.points}
    places = ("append repair.opened", "append effect.intended", "call bank.charge", "append repair.closed")
    whens = ("before", "after") if workers == 1 else ("after",)
    assert {(what, when) for what in places for when in whens} <= tried


@pytest.mark.parametrize(
    "kind,rule,faults",
    [
        (Undone, "lookup", ("answer_lost", "answer_lost")),
        (AsyncUndone, "lookup_then_key", ("unreached", "answer_lost")),
        (Undone, "review", ("answer_lost",)),
        (AsyncUndone, "key", (None, "not_done")),
        (Undone, "lookup", (None, "not_done")),
    ],
)
def test_it_is_the_same_with_lost_answers_and_after_a_failure_half_way(kind, rule, faults):
    crash.run_matrix(scenario(kind, rule, faults), choose=changing)


def test_it_is_the_same_on_disk(tmp_path):
    def around_the_calls(points):
        places = ("append repair", "append effect.intended", "call bank")
        return [point for point in points if point.what.startswith(places) and point.when == "after"]

    assert len(crash.run_matrix(scenario(Undone, "lookup"), directory=tmp_path, choose=around_the_calls)) == 6


PLACES = ("append repair.opened", "append effect.intended", "call bank.charge", "call bank.letter")


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("rule", ["key", "lookup"])
def test_three_workers_that_take_it_up_at_the_same_time_undo_it_once(where, rule):
    undone = scenario(Undone, rule)()
    with own_tools(), closing(crash.World()) as world:
        undone.prepare(world)
        crash.live(world, crash.LifeUntil(where), undone.work)
        world.time_passes()
        workers = [Bank.__new__(Bank) for _ in range(3)]
        for worker in workers:
            vars(worker).update(vars(undone.bank), ledger=world.open())
        start = threading.Barrier(len(workers))

        def take_up(worker):
            start.wait(60)
            return worker.repair(undone.effect_id).state

        with ThreadPoolExecutor(len(workers)) as pool:
            states = set(pool.map(take_up, workers))
        assert states <= {"open", "repaired"}
        undone.bank.ledger = world.open()
        undone.recover(undone.bank.ledger)
        undone.bank.repair(undone.effect_id)
        check_truth(undone.bank.ledger)
        undone.check(world, world.open())


@pytest.mark.postgres
@pytest.mark.parametrize("kind,rule", [(AsyncUndone, "lookup")])
def test_it_is_the_same_on_a_server(kind, rule, cluster, tmp_path, monkeypatch):
    # Key-encryption keys lie in the home directory of whoever opens a ledger, unless told otherwise.
    monkeypatch.setenv("HOME", str(tmp_path))

    def some(points):
        return [point for point in points if point.what.startswith(("append", "call"))][::4]

    assert (
        len(
            crash.run_matrix(
                scenario(kind, rule), directory=cluster.url(schema=schema_for(tmp_path)), choose=some
            )
        )
        > 4
    )
