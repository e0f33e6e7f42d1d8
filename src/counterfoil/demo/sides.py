"""The same refunds and messages from both sides, the provider's book and the ledger, and whether the two agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

import counterfoil
from counterfoil.core.values import from_json
from counterfoil.demo.agent import Case
from counterfoil.demo.provider import read_book


class Done(Struct, frozen=True):
    """One thing that happened outside: under which key, and the provider's id of it. ``amount`` is decimal text."""

    key: str
    id: str
    amount: str = ""

    def __str__(self) -> str:
        amount = f"  {self.amount}" if self.amount else ""
        return f"{self.id:<6} under key {self.key}{amount}"


class Sides(Struct, frozen=True):
    """Refunds and messages of one case as the provider's book and the ledger have them."""

    booked: tuple[Done, ...]
    recorded: tuple[Done, ...]
    messages_booked: tuple[Done, ...]
    messages_recorded: tuple[Done, ...]
    charges_booked: tuple[Done, ...] = ()
    charges_recorded: tuple[Done, ...] = ()

    @property
    def agree(self) -> bool:
        """Exactly one refund and one message on each side, and these and what undid them are the same."""
        return (
            len(self.booked) == len(self.messages_booked) == 1
            and self.booked == self.recorded
            and self.messages_booked == self.messages_recorded
            and self.charges_booked == self.charges_recorded
        )

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "agree": self.agree,
            "provider": {
                "refunds": _all(self.booked),
                "messages": _all(self.messages_booked),
                "charges": _all(self.charges_booked),
            },
            "ledger": {
                "refunds": _all(self.recorded),
                "messages": _all(self.messages_recorded),
                "charges": _all(self.charges_recorded),
            },
        }


def both_sides(ledger: counterfoil.Ledger, case: Case, book: Path) -> Sides:
    """Read both. The two share no code: one reads the provider's table, the other the chain of events."""
    return Sides(
        booked=_booked(book, case, "refunds"),
        recorded=_recorded(ledger, case.name, case.pays_with),
        messages_booked=_booked(book, case, "messages"),
        messages_recorded=_recorded(ledger, case.name, "message.send"),
        charges_booked=_booked(book, case, "charges"),
        charges_recorded=_recorded(ledger, case.name, "payment.charge"),
    )


def _booked(book: Path, case: Case, kind: str) -> tuple[Done, ...]:
    return tuple(
        Done(row["key"], row["id"], row.get("amount", ""))
        for row in read_book(book, kind)
        if row["order"] == case.order
    )


def _recorded(ledger: counterfoil.Ledger, conversation: str, tool: str) -> tuple[Done, ...]:
    """Every success of this tool that the events of the conversation tell of, however it became known."""
    intended: dict[str, Mapping[str, Any]] = {}
    done: list[Done] = []
    types = ("effect.intended", "effect.observed", "effect.late_observed", "effect.settled")
    for event in ledger.events(conversation, types=types):
        effect_id = event.data["effect_id"]
        if event.type == "effect.intended":
            if event.data["tool"] == tool:
                intended[effect_id] = event.content
        elif effect_id in intended and event.data["outcome"] == "succeeded":
            intention = intended[effect_id]
            arguments, receipt = from_json(intention["arguments"]), from_json(event.content["result"])
            amount = str(arguments["amount"]) if "amount" in arguments else ""
            done.append(Done(str(intention["idempotency_key"]), receipt["id"], amount))
    return tuple(done)


def _all(side: tuple[Done, ...]) -> list[dict[str, str]]:
    return [
        {"id": done.id, "key": done.key} | ({"amount": done.amount} if done.amount else {}) for done in side
    ]
