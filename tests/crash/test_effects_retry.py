"""Retries, stopped before and after every request: never twice, never forgotten, whoever makes them (DESIGN 7)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from counterfoil.effects import Retry, by_key, by_review, effect
from counterfoil.errors import NotDone
from counterfoil.testing import crash
from counterfoil.testing.provider import FakeProvider
from tests.crash.points import by, changing
from tests.crash.workers import WORKERS, recover_together

PROMPT = Retry(attempts=4, first_delay_s=1, jitter=0.5)
PATIENT = Retry(attempts=4, first_delay_s=600, delay_max_s=600, jitter=0)


class Retried(crash.Scenario):
    """A payment that is refused for the moment once or twice, and then carried out."""

    retry = PROMPT
    faults = ("not_done", "not_done")
    rule = "key"
    asynchronous = False
    workers = 1

    def prepare(self, world):
        self.world = world
        self.provider = FakeProvider(deduplicates=self.rule == "key")
        self.provider.plan(*self.faults)
        doubt = by_key() if self.rule == "key" else by_review()
        declare = effect("pay", version="1", touches={"money"}, doubt=doubt, retry=self.retry)
        self.pay = declare(self.asend if self.asynchronous else self.send)
        if self.due:
            crash.live(world, crash.Life(), self.run)
            world.time_passes()

    due = False
    """Whether the first attempt is made before, so that recovery, making the second, is what is stopped."""

    def send(self, order: str, *, idempotency_key: str = ""):
        return self.provider.send(idempotency_key=idempotency_key, order=order)

    async def asend(self, order: str, *, idempotency_key: str = ""):
        return await self.provider.asend(idempotency_key=idempotency_key, order=order)

    def run(self, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1"), suppress(NotDone):
            self.receipt = self.pay("o-1")

    async def run_async(self, ledger):
        async with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            with suppress(NotDone):
                self.receipt = await self.pay("o-1")

    def work(self, ledger):
        if self.due:
            return ledger.recover()
        return self.run_async(ledger) if self.asynchronous else self.run(ledger)

    def recover(self, ledger):
        for _ in range(4):
            recover_together(self.world, self.workers)
            self.world.time_passes()

    def check(self, world, ledger):
        (row,) = ledger.effects()
        assert self.provider.booked() <= 1
        assert len(set(self.provider.requests)) <= 1
        assert len(self.provider.requests) <= row["attempt"]
        if row["state"] == "in_review":
            assert self.rule == "review"
            return
        crash.live(world, crash.Life(), self.run_async if self.asynchronous else self.run)
        (row,) = ledger.effects()
        (run,) = ledger.runs()
        if len(self.faults) < 3:
            assert (row["state"], run["terminal"]) == ("succeeded", "success")
            assert self.provider.booked() == 1
            assert self.receipt["order"] == "o-1"
        else:
            assert (row["state"], run["terminal"]) == ("failed", "success")
            # An attempt whose worker died before the provider saw it is made again under the doubt rule.
            assert row["attempt"] >= 4
        assert ledger.store.select("retries", None, (), None, 10) == []


def scenario(**settings):
    return type("Retried", (Retried,), settings)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("rule", ["key", "review"])
@pytest.mark.parametrize("retry", [PROMPT, PATIENT], ids=["in_place", "later"])
def test_wherever_a_retry_stops_it_is_made_once_and_not_forgotten(retry, rule, workers):
    matrix = crash.run_matrix(scenario(retry=retry, rule=rule, workers=workers), choose=by(workers))
    assert len(matrix) > (20 if workers == 1 else 6)


@pytest.mark.parametrize("workers", WORKERS)
def test_wherever_recovery_stops_in_a_due_retry_the_next_one_goes_on(workers):
    settings = {"retry": PATIENT, "due": True, "workers": workers, "faults": ("not_done",)}
    crash.run_matrix(scenario(**settings), choose=by(workers))


def test_attempts_that_lead_nowhere_come_to_an_end_wherever_one_stops():
    crash.run_matrix(scenario(faults=("not_done",) * 12), choose=changing)


def test_async_retries_too():
    crash.run_matrix(scenario(asynchronous=True))


def test_retries_outlive_their_workers_on_disk_too(tmp_path):
    def around_the_pause(points):
        return [point for point in points if "retry.decided" in point.what or point.what == "wait"]

    crash.run_matrix(scenario(faults=("not_done",)), directory=tmp_path, choose=around_the_pause)
