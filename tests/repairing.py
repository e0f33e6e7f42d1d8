"""A bank for tests of repairs: a refund, the two calls that undo it, and an agent that refunds too much."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import counterfoil
from counterfoil.errors import CounterfoilError
from counterfoil.flow.drive import drive
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, Flow
from counterfoil.repair.state import evolve
from counterfoil.testing.provider import FakeProvider

T = TypeVar("T")

CASE = "case-8472"


class Bank:
    """A refund is undone by a charge and a letter, in this order; ``provider`` carries out whatever is sent."""

    def __init__(
        self, ledger: counterfoil.Ledger, *, asynchronous: bool = False, rule: str = "lookup"
    ) -> None:
        self.ledger = ledger
        self.provider = FakeProvider()
        self.rule = rule
        self.declare_async() if asynchronous else self.declare()

    def doubt(self, *, asynchronous: bool = False) -> Any:
        """The doubt rule of the compensations."""
        find = self.provider.afind if asynchronous else self.provider.find
        return {
            "key": counterfoil.by_key(),
            "lookup": counterfoil.by_lookup(find),
            "lookup_then_key": counterfoil.by_lookup(find, then=counterfoil.by_key()),
            "review": counterfoil.by_review(),
        }[self.rule]

    def declare(self) -> None:
        """Plain tools."""
        send, doubt = self.provider.send, self.doubt()

        @counterfoil.effect("bank.charge", version="1", touches={"money"}, doubt=doubt)
        def charge(order: str, amount: int, *, idempotency_key: str = "") -> Any:
            return send(idempotency_key=idempotency_key, charged=order, amount=amount)

        @counterfoil.effect("bank.letter", version="1", touches={"messages"}, doubt=doubt)
        def letter(order: str, *, idempotency_key: str = "") -> Any:
            return send(idempotency_key=idempotency_key, told=order)

        @counterfoil.effect(
            "bank.refund",
            version="1",
            touches={"money"},
            key=lambda order, **_: f"refund:{order}",
            doubt=counterfoil.by_key(),
            compensate=lambda order, amount, **_: [charge.later(order, amount), letter.later(order)],
        )
        def refund(order: str, amount: int, *, idempotency_key: str = "") -> Any:
            return send(idempotency_key=idempotency_key, refunded=order, amount=amount)

        self.refund, self.charge, self.letter = refund, charge, letter

    def declare_async(self) -> None:
        """The same as coroutine functions."""
        send, doubt = self.provider.asend, self.doubt(asynchronous=True)

        @counterfoil.effect("bank.charge", version="1", touches={"money"}, doubt=doubt)
        async def charge(order: str, amount: int, *, idempotency_key: str = "") -> Any:
            return await send(idempotency_key=idempotency_key, charged=order, amount=amount)

        @counterfoil.effect("bank.letter", version="1", touches={"messages"}, doubt=doubt)
        async def letter(order: str, *, idempotency_key: str = "") -> Any:
            return await send(idempotency_key=idempotency_key, told=order)

        @counterfoil.effect(
            "bank.refund",
            version="1",
            touches={"money"},
            key=lambda order, **_: f"refund:{order}",
            doubt=counterfoil.by_key(),
            compensate=lambda order, amount, **_: [charge.later(order, amount), letter.later(order)],
        )
        async def refund(order: str, amount: int, *, idempotency_key: str = "") -> Any:
            return await send(idempotency_key=idempotency_key, refunded=order, amount=amount)

        self.refund, self.charge, self.letter = refund, charge, letter

    # ---- what happens ----

    def serve(self, order: str = "o-1", amount: int = 40) -> str:
        """The agent refunds an order; the effect's id."""
        with self.ledger.run("agent", conversation=CASE, message=order, dedupe=order):
            self.refund(order, amount)
        return self.effect_id()

    async def aserve(self, order: str = "o-1", amount: int = 40) -> str:
        """As :meth:`serve`, with async tools."""
        async with self.ledger.run("agent", conversation=CASE, message=order, dedupe=order):
            await self.refund(order, amount)
        return self.effect_id()

    def effect_id(self) -> str:
        """The refund made last."""
        return str([row for row in self.ledger.effects() if row["tool"] == "bank.refund"][-1]["effect_id"])

    def repair(self, effect_id: str | None = None, **wanted: Any) -> Any:
        """Dana finds that it was too much."""
        wanted = {"by": "Dana", "reason": "the parcel had arrived", **wanted}
        return self.ledger.repair(effect_id or self.effect_id(), **wanted)

    # ---- what is left ----

    def sent(self, what: str) -> int:
        """How often something of this kind was carried out: ``refunded``, ``charged`` or ``told``."""
        return sum(what in dict(entry.what) for entry in self.provider.book)

    def types(self, *prefixes: str) -> list[str]:
        """Types of the conversation's events that begin like this."""
        return [event.type for event in self.ledger.events(CASE) if event.type.startswith(prefixes)]

    def states(self) -> list[str]:
        """The states of all repairs, the oldest first."""
        rows = self.ledger.repairs(None)
        return [str(row["state"]) for row in sorted(rows, key=lambda row: str(row["repair_id"]))]


def check_repairs(ledger: counterfoil.Ledger) -> None:
    """Every repair folded from headers alone says what its row says (DESIGN 2.7)."""
    for row in ledger.repairs(None):
        folded = None
        for event in ledger.events(str(row["stream_id"])):
            if event.data.get("repair_id") == row["repair_id"]:
                folded = evolve(folded, event.type, event.data)
        assert folded is not None
        told = (folded.supersedes, folded.effect_id, folded.state, len(folded.compensations))
        assert told == tuple(row[name] for name in ("supersedes", "effect_id", "state", "compensations"))


def meanwhile(flow: Flow[T], ports: Ports, before: Callable[[], Any]) -> T:
    """Drive a flow, and let something else happen just before its first append."""
    request = next(flow)
    while not isinstance(request, Append):
        request = flow.send(drive(asking(request), ports))
    before()

    def rest() -> Flow[Any]:
        answer = request
        while True:
            try:
                got = yield answer
            except CounterfoilError as error:
                step = functools.partial(flow.throw, error)
            else:
                step = functools.partial(flow.send, got)
            try:
                answer = step()
            except StopIteration as ended:
                return ended.value

    done: T = drive(rest(), ports)
    return done


def asking(request: Any) -> Flow[Any]:
    """One request as a flow."""
    return (yield request)
