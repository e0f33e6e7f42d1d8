"""Three calls wait at once: three requests, and each answer reaches its own call (case S14)."""

from __future__ import annotations

import asyncio

import pytest

import counterfoil
from counterfoil import ApprovalDenied, RunWaiting
from counterfoil.effects.registry import own_tools
from counterfoil.testing.crash import World
from counterfoil.testing.provider import FakeProvider
from counterfoil.testing.truth import check_truth
from tests.approving import Shop, policy


class Desk:
    """An agent that asks for three refunds in one turn."""

    def __init__(self, ledger):
        ledger.policy = policy()
        self.ledger, self.provider = ledger, FakeProvider()
        declare = counterfoil.effect("pay", version="1", touches={"money"}, doubt=counterfoil.by_key())

        async def pay(order: str, amount: int, *, idempotency_key: str = "") -> str:
            await self.provider.asend(idempotency_key=idempotency_key, order=order)
            return order

        self.pay = declare(pay)

    async def serve(self, *orders):
        async with self.ledger.run("agent", conversation="case", message="m", dedupe="m"):
            return await asyncio.gather(*(self.pay(order, 80) for order in orders), return_exceptions=True)

    def approvals(self):
        """The order each approval is for, with its id and state."""
        return {
            self.ledger_content(row)["arguments"]["order"]: (row["approval_id"], row["state"])
            for row in self.ledger.approvals(None)
        }

    def ledger_content(self, row):
        (event,) = self.ledger.events("case", after=row["requested_sequence"] - 1, limit=1)
        return event.content


@pytest.fixture
def desk():
    with own_tools():
        world = World()
        desk = Desk(world.open())
        yield desk
        check_truth(desk.ledger)
        world.close()


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a")])
def test_one_is_approved_one_denied_and_the_third_stays_visibly_pending(desk, order):
    with pytest.raises(RunWaiting) as waiting:
        asyncio.run(desk.serve("a", "b", "c"))
    asked = desk.approvals()
    assert len({approval for approval, _ in asked.values()}) == 3
    assert set(waiting.value.waits_for) == {approval for approval, _ in asked.values()}
    desk.ledger.approve(asked["a"][0], by="Ines")
    desk.ledger.deny(asked["b"][0], by="Ines")
    with pytest.raises(RunWaiting) as waiting:
        asyncio.run(desk.serve(*order))
    assert waiting.value.waits_for == (asked["c"][0],)
    assert {name: state for name, (_, state) in desk.approvals().items()} == {
        "a": "consumed",
        "b": "denied",
        "c": "pending",
    }
    assert [dict(entry.what)["order"] for entry in desk.provider.book] == ["a"]


def test_the_third_answer_lets_the_run_go_on_and_nothing_is_sent_twice(desk):
    for decide in (("a", "approve"), ("b", "deny"), ("c", "approve")):
        with pytest.raises(RunWaiting):
            asyncio.run(desk.serve("a", "b", "c"))
        approval, _ = desk.approvals()[decide[0]]
        getattr(desk.ledger, decide[1])(approval, by="Ines")
    a, b, c = asyncio.run(desk.serve("a", "b", "c"))
    assert (a, c) == ("a", "c")
    assert isinstance(b, ApprovalDenied)
    assert sorted(dict(entry.what)["order"] for entry in desk.provider.book) == ["a", "c"]


def test_code_that_does_one_thing_after_the_other_can_ask_about_all_of_them_first():
    with own_tools():
        world = World()
        shop = Shop(world.open())

        def agent():
            with shop.ledger.run("agent", conversation="case", message="m", dedupe="m") as run:
                asked = [run.propose(shop.refund, order, amount) for order, amount in CALLS]
                answers = []
                for order, amount in CALLS:
                    try:
                        answers.append(shop.refund(order, amount)["order"])
                    except ApprovalDenied as denied:
                        answers.append(denied.outcome)
            return asked, answers

        with pytest.raises(RunWaiting) as waiting:
            agent()
        a, c = (str(row["approval_id"]) for row in shop.ledger.approvals())
        assert waiting.value.waits_for == (a, c)
        shop.ledger.deny(a, by="Ines")
        with pytest.raises(RunWaiting) as waiting:
            agent()
        assert waiting.value.waits_for == (c,)
        shop.ledger.approve(c, by="Ines")
        assert agent()[1] == ["denied", "b", "c"]
        assert agent() == ([a, None, None], ["denied", "b", "c"])
        assert shop.types().count("approval.requested") == 2
        check_truth(shop.ledger)
        world.close()


CALLS = [("a", 80), ("b", 10), ("c", 80)]
