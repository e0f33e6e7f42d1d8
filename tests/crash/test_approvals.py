"""Approve and resume, stopped before and after every request: asked once, used once, sent once (DESIGN 7)."""

from __future__ import annotations

import asyncio

import pytest

from counterfoil.effects import by_key, effect
from counterfoil.errors import ApprovalDenied, RunWaiting
from counterfoil.testing import crash
from counterfoil.testing.provider import FakeProvider
from tests.approving import check_approvals, policy


class Approved(crash.Scenario):
    """One call that people have to permit: by the next worker's side, or by the worker that is stopped itself."""

    amount = 80
    answer = "approve"

    def prepare(self, world):
        self.provider = FakeProvider(deduplicates=False)
        self.declare()

    def declare(self):
        @effect("pay", version="1", touches={"money"}, key=lambda order, **_: f"pay:{order}", doubt=by_key())
        def pay(order: str, amount: int, *, idempotency_key: str = ""):
            return self.provider.send(idempotency_key=idempotency_key, order=order, amount=amount)

        self.pay = pay
        self.provider.deduplicates = True

    def work(self, ledger):
        """Ask, answer in the same life, and go on: every request of the three is a place to die."""
        for _ in range(2):
            try:
                return self.serve(ledger)
            except RunWaiting:
                self.decide(ledger)
        return None

    def serve(self, ledger):
        ledger.policy = policy()
        with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            try:
                run.finish(self.pay("o-1", self.amount))
            except ApprovalDenied:
                run.finish("denied")
        return run.output

    def decide(self, ledger):
        for row in ledger.approvals():
            getattr(ledger, self.answer)(str(row["approval_id"]), by="Ines")

    def recover(self, ledger):
        ledger.recover()
        self.decide(ledger)

    def check(self, world, ledger):
        check_approvals(ledger)
        self.check_approvals(ledger)
        (run,) = ledger.runs()
        assert run["terminal"] == "success"
        assert self.provider.booked() == (self.answer == "approve")

    def check_approvals(self, ledger):
        types = [event.type for event in ledger.events("case")]
        assert types.count("approval.requested") == 1
        assert types.count("approval.consumed") == (self.answer == "approve")
        assert [row["state"] for row in ledger.approvals(None)] == [
            "consumed" if self.answer == "approve" else "denied"
        ]


class Denied(Approved):
    answer = "deny"


class Constrained(Approved):
    """A policy that allows with other arguments: what is sent is what it allowed, whoever sends it."""

    amount = 40

    def check_approvals(self, ledger):
        assert ledger.approvals(None) == []
        assert [dict(entry.what)["amount"] for entry in self.provider.book] == [20]
        (row,) = ledger.effects()
        assert row["state"] == "succeeded"


class AsyncApproved(Approved):
    def declare(self):
        @effect("pay", version="1", touches={"money"}, key=lambda order, **_: f"pay:{order}", doubt=by_key())
        async def pay(order: str, amount: int, *, idempotency_key: str = ""):
            return await self.provider.asend(idempotency_key=idempotency_key, order=order, amount=amount)

        self.pay = pay
        self.provider.deduplicates = True

    def serve(self, ledger):
        ledger.policy = policy()

        async def agent():
            async with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
                run.finish(await self.pay("o-1", self.amount))

        asyncio.run(agent())


@pytest.mark.parametrize("kind", [Approved, Denied, Constrained, AsyncApproved])
def test_wherever_it_stops_people_are_asked_once_and_the_effect_happens_as_they_say(kind):
    matrix = crash.run_matrix(kind)
    tried = {point.what for point in matrix.points}
    wanted = {
        Approved: "append approval.consumed, effect.intended",
        AsyncApproved: "append approval.consumed, effect.intended",
        Denied: "append approval.denied",
        Constrained: "append decision.proposed, policy.evaluated, effect.intended",
    }[kind]
    assert wanted in tried


def test_it_is_the_same_on_disk(tmp_path):
    def around_the_grant(points):
        places = ("append decision", "append approval", "call pay")
        return [point for point in points if point.what.startswith(places) and point.when == "after"]

    assert len(crash.run_matrix(Approved, directory=tmp_path, choose=around_the_grant)) == 4
