"""Runs that people have to permit: a tool under a policy that asks, and an agent that calls it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import counterfoil
from counterfoil.approvals.state import evolve
from counterfoil.policy import RuleList, ask, constrain, deny
from counterfoil.testing.provider import FakeProvider


def policy(revision: str = "1", **asking: Any) -> RuleList:
    """Denies above 1000, asks above 50, caps at 20 what is above 20, and allows the rest."""
    return RuleList(
        "limits",
        revision=revision,
        otherwise="allow",
        rules=[
            deny("too-much", when=lambda call: call.arguments["amount"] > 1000, reason="above every limit"),
            ask("large", when=lambda call: call.arguments["amount"] > 50, **asking),
            constrain(
                "capped",
                when=lambda call: call.arguments["amount"] > 20,
                to=lambda call: {**call.arguments, "amount": 20},
            ),
        ],
    )


class Shop:
    """A provider, a refund tool under a business key, and an agent that refunds what it is told to."""

    def __init__(self, ledger: counterfoil.Ledger, rules: Any = None) -> None:
        self.ledger = ledger
        self.provider = FakeProvider()
        self.use(ledger, rules or policy())
        self.hook = lambda amount: amount

        @counterfoil.effect(
            "shop.refund",
            version="1",
            touches={"money"},
            key=lambda order, **_: f"refund:{order}",
            doubt=counterfoil.by_key(),
        )
        def refund(order: str, amount: int, *, idempotency_key: str = "") -> dict[str, Any]:
            return self.provider.send(idempotency_key=idempotency_key, order=order, amount=amount)

        self.refund = refund

    def use(self, ledger: counterfoil.Ledger, rules: Any) -> None:
        """Go on with this handle, and under this policy."""
        self.ledger = ledger
        ledger.policy = rules

    def serve(self, amount: int = 80, order: str = "o-1", **given: Any) -> Any:
        """One message of one order: refund it, and say what came of it."""
        settings = {"conversation": "case", "message": order, "dedupe": order} | given
        with self.ledger.run("agent", **settings) as run:
            run.finish(self.refund(order, self.hook(amount)))
        return run.output

    def waits(self, amount: int = 80, order: str = "o-1", **given: Any) -> str:
        """The same, until it waits; the approval it waits for."""
        with suppress(counterfoil.RunWaiting):
            self.serve(amount, order, **given)
        return str(self.ledger.approvals()[-1]["approval_id"])

    def types(self, prefix: tuple[str, ...] = ("decision", "policy", "approval", "effect")) -> list[str]:
        """Types of the conversation's events about decisions and effects."""
        return [event.type for event in self.ledger.events("case") if event.type.startswith(prefix)]

    def states(self) -> list[str]:
        """The states of all approvals, oldest first."""
        return [str(row["state"]) for row in self.ledger.approvals(None)]


def check_approvals(ledger: counterfoil.Ledger) -> None:
    """Every approval folded from headers alone says what its row says (DESIGN 2.7)."""
    for row in ledger.approvals(None):
        folded = None
        for event in ledger.events(str(row["stream_id"])):
            if event.data.get("approval_id") == row["approval_id"] and event.type.startswith("approval."):
                folded = evolve(folded, event.type, event.data)
        assert folded is not None
        told = (folded.effect_id, folded.binding, folded.scope, folded.state, folded.missing)
        assert told == tuple(row[name] for name in ("effect_id", "binding", "scope", "state", "missing"))
