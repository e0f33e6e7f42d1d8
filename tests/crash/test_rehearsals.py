"""Rehearsals and replays stopped before and after every request: nothing real happens, and nobody goes on with one."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.policy import RuleList, ask
from counterfoil.runtime.agents import own_agents
from counterfoil.runtime.rehearsals import REHEARSALS
from counterfoil.testing import crash
from counterfoil.testing.provider import FakeProvider

STRICT = RuleList("strict", revision="2", otherwise="allow", rules=[ask("all", when=lambda call: True)])


class Rehearsed(crash.Scenario):
    """A run with a model, a step and a refund, rehearsed under a policy by a worker that dies."""

    def prepare(self, world):
        self.provider = FakeProvider()
        self.asked = []

        @counterfoil.effect(
            "shop.refund",
            version="1",
            touches={"money"},
            key=lambda order, **_: f"refund:{order}",
            doubt=counterfoil.by_key(),
        )
        def refund(order, *, idempotency_key=""):
            return self.provider.send(idempotency_key=idempotency_key, order=order)

        @counterfoil.agent("clerk")
        def clerk(run):
            order = run.ask(self.model, run.message, name="small-1").text
            run.step("look", len, order)
            run.finish(refund(order)["id"])

        ledger = world.open()
        with ledger.run("clerk", conversation="case", message="please") as run:
            clerk(run)
        self.run_id, self.before = run.id, [event.event_id for event in ledger.events("case")]

    def model(self, request):
        self.asked.append(request)
        return "O-1"

    def work(self, ledger):
        ledger.rehearse(self.run_id, policy=STRICT)

    def recover(self, ledger):
        """Everything that goes on by itself."""
        worker = ledger.worker()
        while worker.look():
            pass

    def check(self, world, ledger):
        assert (self.provider.booked(), len(self.asked)) == (1, 1)
        assert [event.event_id for event in ledger.events("case")] == self.before
        assert len(ledger.effects(None)) == 1
        assert ledger.approvals(None) == []
        made = ledger.rehearsals(self.run_id)
        rows = [ledger.run_row(run_id) for run_id in made]
        # A worker that died leaves its rehearsal open; the one that was made anew ended.
        assert [row["terminal"] for row in rows][-1] == "success"
        assert len(ledger.ports.store.select(REHEARSALS.name, None, ())) == len(made)
        assert ledger.diff(made[-1], made[-1]).same
        assert [pair.right.kind for pair in ledger.diff(self.run_id, made[-1]).different] == ["decision"]


class Replayed(Rehearsed):
    """The same run, replayed by a worker that dies: nothing is recorded at all."""

    def work(self, ledger):
        assert ledger.replay(self.run_id).same

    def check(self, world, ledger):
        assert (self.provider.booked(), len(self.asked)) == (1, 1)
        assert [event.event_id for event in ledger.events("case")] == self.before
        assert len(ledger.conversations()) == 1


@pytest.mark.parametrize("scenario, least", [(Rehearsed, 20), (Replayed, 1)])
def test_wherever_a_worker_dies_no_effect_is_made_and_nobody_goes_on(scenario, least):
    with own_tools(), own_agents():
        assert len(crash.run_matrix(scenario)) >= least
