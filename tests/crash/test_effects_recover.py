"""Recovery, itself stopped before and after every request and recovered by the next worker."""

from __future__ import annotations

import pytest

from counterfoil.effects import by_key, by_lookup, by_review, effect
from counterfoil.testing import crash
from counterfoil.testing.provider import FakeProvider

RULES = ("key", "lookup", "lookup_then_key", "review")


class Recovery(crash.Scenario):
    """A worker died around its call; recovery is what is stopped here."""

    rule = "key"
    sent = True
    asynchronous = False
    faults = ()
    lookup_faults = ()

    def prepare(self, world):
        self.provider = FakeProvider(deduplicates=self.rule in ("key", "lookup_then_key"))
        self.declare()
        crash.live(world, crash.LifeUntil("call pay", "after" if self.sent else "before"), self.agent)
        self.provider.plan(*self.faults)
        self.provider.plan_lookups(*self.lookup_faults)
        world.time_passes()

    def declare(self):
        provider = self.provider
        find = provider.afind if self.asynchronous else provider.find
        doubt = {
            "key": by_key(),
            "lookup": by_lookup(find),
            "lookup_then_key": by_lookup(find, then=by_key()),
            "review": by_review(),
        }[self.rule]
        declare = effect("pay", version="1", touches={"money"}, key=lambda order: f"pay:{order}", doubt=doubt)

        def pay(order: str, *, idempotency_key: str = ""):
            return provider.send(idempotency_key=idempotency_key, order=order)

        async def apay(order: str, *, idempotency_key: str = ""):
            return await provider.asend(idempotency_key=idempotency_key, order=order)

        self.pay = declare(apay) if self.asynchronous else declare(pay)

    def agent(self, ledger):
        if self.asynchronous:
            return self.async_agent(ledger)
        with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            self.receipt = self.pay("o-1")
        return None

    async def async_agent(self, ledger):
        async with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            self.receipt = await self.pay("o-1")

    def work(self, ledger):
        ledger.recover()

    def check(self, world, ledger):
        (row,) = ledger.effects()
        assert self.provider.booked() <= 1
        assert len(self.provider.requests) <= row["attempt"]
        if self.rule in ("lookup", "review"):
            assert row["attempt"] == 1
            assert len(self.provider.requests) == self.sent
        decided = self.rule in ("key", "lookup_then_key") or (self.rule == "lookup" and self.sent)
        assert row["state"] == ("succeeded" if decided else "in_review")
        if decided:
            assert self.provider.booked() == 1
            crash.live(world, crash.Life(), self.agent)
            assert self.receipt["key"] == "pay:o-1"
            assert ledger.runs()[0]["terminal"] == "success"
        else:
            assert len(ledger.reviews()) == 1
            crash.live(world, crash.Life(), self.agent)
            assert ledger.runs()[0]["state"] == "suspended"
            assert len(self.provider.requests) == self.sent


def scenario(**settings):
    return type("Recovery", (Recovery,), settings)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("sent", [True, False], ids=["sent", "not_sent"])
@pytest.mark.parametrize("rule", RULES)
def test_wherever_recovery_stops_the_next_one_ends_it_without_a_second_payment(rule, sent, asynchronous):
    matrix = crash.run_matrix(scenario(rule=rule, sent=sent, asynchronous=asynchronous))
    assert len(matrix) >= 6


@pytest.mark.parametrize("rule", ["key", "lookup_then_key"])
def test_a_provider_that_fails_during_recovery_changes_nothing_about_that(rule):
    faulty = scenario(
        rule=rule, sent=False, faults=("answer_lost", "unreached"), lookup_faults=("unreached", "mute")
    )
    crash.run_matrix(faulty)


def test_recovery_can_be_stopped_on_disk_too(tmp_path):
    def after_what_it_does(points):
        return [
            point
            for point in points
            if point.when == "after" and point.what.startswith(("append eff", "call"))
        ]

    crash.run_matrix(scenario(rule="lookup"), directory=tmp_path, choose=after_what_it_does)
