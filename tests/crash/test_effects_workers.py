"""Settling, callbacks and workers stopped at every request; and everything recovered by three workers at once (DESIGN 7)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import pytest

import counterfoil
from counterfoil.effects import Retry, by_key, by_review, effect
from counterfoil.errors import RunWaiting
from counterfoil.runtime.agents import own_agents
from counterfoil.testing import crash
from counterfoil.testing.provider import FakeProvider
from tests.crash.points import by, changing
from tests.crash.test_approvals import Approved, Denied
from tests.crash.test_effects_perform import Payment
from tests.crash.test_effects_recover import RULES, Recovery
from tests.crash.workers import WORKERS, recover_together


@pytest.fixture(autouse=True)
def _own_agents():
    with own_agents():
        yield


def by_three(kind, **settings):
    """The same scenario, recovered by three workers at once."""

    class ByThree(kind):
        def prepare(self, world):
            self.world = world
            super().prepare(world)

        def recover(self, ledger):
            recover_together(self.world, 3)
            if isinstance(self, Approved):
                self.decide(ledger)

    return type(f"{kind.__name__}ByThree", (ByThree,), settings)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("faults", [(), ("answer_lost",), ("not_done",)], ids=str)
def test_a_perform_that_stopped_is_recovered_by_three(rule, faults):
    crash.run_matrix(by_three(Payment, rule=rule, faults=faults), choose=changing)


@pytest.mark.parametrize("rule", RULES)
def test_a_recovery_that_stopped_is_recovered_by_three(rule):
    crash.run_matrix(by_three(Recovery, rule=rule), choose=changing)


@pytest.mark.parametrize("kind", [Approved, Denied])
def test_an_approval_that_stopped_is_recovered_by_three(kind):
    crash.run_matrix(by_three(kind), choose=changing)


# ---- settling and callbacks ------------------------------------------------------------------------------------------


class Reviewed(crash.Scenario):
    """An effect in review, and a person or the provider who says how it ended: that is what is stopped."""

    workers = 1
    outcome = "succeeded"

    def prepare(self, world):
        self.world = world
        self.provider = FakeProvider(deduplicates=False)
        self.provider.plan("answer_lost")

        @effect("pay", version="1", touches={"money"}, key=lambda order: f"pay:{order}", doubt=by_review())
        def pay(order: str, *, idempotency_key: str = ""):
            return self.provider.send(idempotency_key=idempotency_key, order=order)

        self.pay = pay
        crash.live(world, crash.Life(), self.agent)

    def agent(self, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            self.receipt = self.pay("o-1")

    def work(self, ledger):
        (row,) = ledger.reviews(state=None)
        ledger.settle(
            row["review_id"], self.outcome, by="Ines", reason="in their book", result={"id": "re_1"}
        )

    def recover(self, ledger):
        recover_together(self.world, self.workers)

    def check(self, world, ledger):
        assert len(list(ledger.events("case", types=self.deciding))) == 1
        assert ledger.reviews() == []
        crash.live(world, crash.Life(), self.agent)
        assert self.receipt == {"id": "re_1"}
        assert ledger.runs()[0]["terminal"] == "success"
        assert len(self.provider.requests) == 1

    deciding = frozenset({"effect.settled"})


class Heard(Reviewed):
    """The provider says so by itself, and says it again to the next worker."""

    deciding = frozenset({"effect.late_observed"})

    def work(self, ledger):
        ledger.observe("pay:o-1", "succeeded", result={"id": "re_1"}, delivery="evt_1")


class Contradicted(Reviewed):
    """The provider says otherwise than a person has settled: wherever that stops, a person is asked once more."""

    def prepare(self, world):
        super().prepare(world)
        (row,) = world.open().reviews()
        world.open().settle(row["review_id"], "failed", by="Ines", reason="not in their book")

    def work(self, ledger):
        ledger.observe("pay:o-1", "succeeded", delivery="evt_1")

    def check(self, world, ledger):
        types = [event.type for event in ledger.events("case")]
        assert (types.count("effect.late_observed"), types.count("effect.contradicted")) == (1, 1)
        assert len(ledger.reviews()) == 1
        assert ledger.effects()[0]["state"] == "contradicted"


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", [Reviewed, Heard, Contradicted])
def test_what_is_said_about_an_effect_is_recorded_once_wherever_it_stops(kind, workers):
    matrix = crash.run_matrix(type(kind.__name__, (kind,), {"workers": workers}), choose=by(workers))
    assert len(matrix) >= (6 if workers == 1 else 2)


# ---- workers -----------------------------------------------------------------------------------------------------------


class Working(crash.Scenario):
    """A worker with something of everything to do: doubt, a due retry, and agents whose runs can go on."""

    workers = 1

    def prepare(self, world):
        self.world = world
        self.provider = FakeProvider()

        @effect(
            "pay",
            version="1",
            touches={"money"},
            key=lambda order: f"pay:{order}",
            doubt=by_key(),
            retry=Retry(attempts=9, first_delay_s=600, delay_max_s=600, jitter=0),
        )
        def pay(order: str, *, idempotency_key: str = ""):
            return self.provider.send(idempotency_key=idempotency_key, order=order)

        self.pay = pay
        counterfoil.agent("payer")(self.agent)
        crash.live(world, crash.LifeUntil("call pay", "after"), lambda ledger: self.begin(ledger, "o-1"))
        self.provider.plan("not_done")
        crash.live(world, crash.Life(), lambda ledger: self.begin(ledger, "o-2"))
        world.time_passes()

    def agent(self, run):
        run.finish(self.pay(run.message)["order"])

    def begin(self, ledger, order):
        with ledger.run("payer", conversation=order, message=order, dedupe=order) as run:
            self.agent(run)

    def work(self, ledger):
        ledger.worker().look()

    def recover(self, ledger):
        if self.workers == 1:
            return
        ready = Barrier(self.workers)

        def work(handle):
            ready.wait(30)
            handle.worker().look()

        with ThreadPoolExecutor(self.workers) as pool:
            for done in [pool.submit(work, self.world.open()) for _ in range(self.workers)]:
                done.result(60)
        self.world.time_passes()

    def check(self, world, ledger):
        for _ in range(3):
            ledger.worker().look()
            world.time_passes()
        assert {run["terminal"] for run in ledger.runs()} == {"success"}
        assert (self.provider.booked("pay:o-1"), self.provider.booked("pay:o-2")) == (1, 1)
        for order in ("o-1", "o-2"):
            with (
                suppress(RunWaiting),
                ledger.run("payer", message=order, conversation=order, dedupe=order) as run,
            ):
                assert run.done
            assert run.output == order


@pytest.mark.parametrize("workers", WORKERS)
def test_wherever_a_worker_stops_the_next_ones_go_on_and_nothing_happens_twice(workers):
    matrix = crash.run_matrix(type("Working", (Working,), {"workers": workers}), choose=by(workers))
    assert len(matrix) > (60 if workers == 1 else 10)
