"""A refund agent that dies between the money and the answer, and is run again.

    python examples/refund.py --crash    # the provider books the refund, then this process is gone
    python examples/refund.py            # asks the provider, sends nothing twice, tells the customer, ends

The provider's book is ``book.json`` and the ledger ``ledger/``, both in this directory.
"""

import json
import os
import sys
from decimal import Decimal
from pathlib import Path

import counterfoil
from counterfoil import Absent, Found

BOOK = Path("book.json")
CRASH = "--crash" in sys.argv


# ---- the outside world: a payment provider and a mail service with a common book ------------------------------------


def book() -> dict:
    """What the provider has booked, by key."""
    return json.loads(BOOK.read_text()) if BOOK.exists() else {}


def send(key: str, what: dict) -> dict:
    """Books once per key, as a provider with idempotency keys does."""
    booked = book()
    receipt = booked.setdefault(key, {**what, "id": f"re_{len(booked) + 1}"})
    BOOK.write_text(json.dumps(booked))
    if CRASH:
        os._exit(9)  # the money has moved; nobody here will ever be told
    return receipt


def find(*, idempotency_key: str) -> Found | Absent:
    """How to ask the provider when an answer was lost."""
    done = book().get(idempotency_key)
    return Found("succeeded", done) if done else Absent()


# ---- the tools, each declared once ----------------------------------------------------------------------------------


@counterfoil.effect("shop.look_up", version="1", touches=(), doubt=counterfoil.by_repeating())
def look_up(order: str) -> dict:
    """What the shop knows of an order; touches nothing."""
    return {"order": order, "line": 1, "item": "kettle", "paid": Decimal("40.00")}


@counterfoil.effect(
    "payment.refund",
    version="2026-08-01",
    touches={"money"},
    key=lambda order, line, **_: f"refund:{order}:{line}",
    doubt=counterfoil.by_lookup(find, then=counterfoil.by_key()),
    provider_id=lambda receipt: receipt["id"],
    timeout_s=2,
)
def refund(order: str, line: int, amount: Decimal, *, idempotency_key: str = "") -> dict:
    """Pay one line of an order back."""
    return send(idempotency_key, {"order": order, "line": line, "amount": str(amount)})


@counterfoil.effect(
    "message.send",
    version="1",
    touches={"messages"},
    key=lambda order, **_: f"notice:{order}",
    doubt=counterfoil.by_lookup(find, then=counterfoil.by_key()),
    timeout_s=2,
)
def notify(order: str, text: str, *, idempotency_key: str = "") -> dict:
    """Tell the customer."""
    return send(idempotency_key, {"order": order, "text": text})


# ---- the agent ------------------------------------------------------------------------------------------------------


def model(request: counterfoil.Request) -> str:
    """Any callable is a model; this one is scripted."""
    return f"You wrote {request.messages[-1]['content']!r}: I propose to pay back line 1."


text = "My kettle came broken. Order O-1042."
with counterfoil.open("./ledger") as ledger:
    with ledger.run(
        "refund-agent", conversation="case-8472", message=text, dedupe="mail-1", wait_s=60
    ) as run:
        reply = run.ask(model, [{"role": "user", "content": text}])
        order = look_up(order="O-1042")
        receipt = refund(order=order["order"], line=order["line"], amount=order["paid"])
        notify(order=order["order"], text=f"We have paid back {order['paid']} ({receipt['id']}).")
        run.finish(receipt)
    intended = [event.data["tool"] for event in ledger.events("case-8472", types=["effect.intended"])]

print(f"{run.terminal}: {receipt['id']}, the book has {len(book())} entries, intended {', '.join(intended)}")
