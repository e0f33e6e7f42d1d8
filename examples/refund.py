"""A refund agent that dies between the money and the answer, and is run again.

    python examples/refund.py --crash    # the provider books the refund, then this process is gone
    python examples/refund.py            # asks the provider, sends nothing twice, tells the customer, ends

A refund above 50 needs a person, and what turns out to be wrong is undone on record:

    python examples/refund.py large      # waits: order O-2000 was 80.00, and somebody has to permit it
    python examples/refund.py approve    # she does
    python examples/refund.py large      # goes on, and pays once
    python examples/refund.py repair     # the parcel was found: the customer is charged again, both stand in the ledger

The provider's book is ``book.json`` and the ledger ``ledger/``, both in this directory.
"""

import json
import os
import sys
from decimal import Decimal
from pathlib import Path

import counterfoil
from counterfoil import Absent, Found
from counterfoil.policy import RuleList, ask

BOOK = Path("book.json")
CRASH = "--crash" in sys.argv
LARGE = "large" in sys.argv
PAID = {"O-1042": Decimal("40.00"), "O-2000": Decimal("80.00")}
PERSON = "Ines Arvold"


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
    return {"order": order, "line": 1, "item": "kettle", "paid": PAID[order]}


@counterfoil.effect(
    "payment.charge",
    version="1",
    touches={"money"},
    key=lambda order, line, **_: f"charge:{order}:{line}",
    doubt=counterfoil.by_lookup(find, then=counterfoil.by_key()),
    timeout_s=2,
)
def charge(order: str, line: int, amount: Decimal, *, idempotency_key: str = "") -> dict:
    """Take a refund back."""
    return send(idempotency_key, {"order": order, "line": line, "amount": f"-{amount}"})


@counterfoil.effect(
    "payment.refund",
    version="2026-08-01",
    touches={"money"},
    key=lambda order, line, **_: f"refund:{order}:{line}",
    doubt=counterfoil.by_lookup(find, then=counterfoil.by_key()),
    provider_id=lambda receipt: receipt["id"],
    compensate=charge,
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


policy = RuleList(
    "refunds",
    revision="2026-08-01",
    rules=[
        ask(
            "large",
            tool="payment.refund",
            when=lambda call: call.arguments["amount"] > 50,
            question="Refund more than 50?",
            assignees=[PERSON],
        )
    ],
    otherwise="allow",
)


def agent(ledger: counterfoil.Ledger, case: str, text: str, about: str) -> str:
    """Answer one message about one order: pay it back, and tell the customer."""
    with ledger.run("refund-agent", conversation=case, message=text, dedupe=case, wait_s=60) as run:
        run.ask(model, [{"role": "user", "content": text}])
        order = look_up(order=about)
        receipt = refund(order=order["order"], line=order["line"], amount=order["paid"])
        notify(order=order["order"], text=f"We have paid back {order['paid']} ({receipt['id']}).")
        run.finish(receipt)
    intended = [event.data["tool"] for event in ledger.events(case, types=["effect.intended"])]
    return (
        f"{run.terminal}: {receipt['id']}, the book has {len(book())} entries, intended {', '.join(intended)}"
    )


def approve(ledger: counterfoil.Ledger) -> str:
    """What `counterfoil approve grant` does."""
    (waits,) = ledger.approvals()
    ledger.approve(str(waits["approval_id"]), by=PERSON, comment="I called the customer")
    return f"approved by {PERSON}"


def repair(ledger: counterfoil.Ledger) -> str:
    """What `counterfoil repair start` does, for the large refund."""
    (effect,) = (row for row in ledger.effects(stream="case-9000") if row["tool"] == "payment.refund")
    report = ledger.repair(effect["effect_id"], by=PERSON, reason="the parcel was found")
    amounts = [
        entry["amount"] for entry in book().values() if entry["order"] == "O-2000" and "amount" in entry
    ]
    return f"{report.state}: the book has {' and '.join(amounts)}"


with counterfoil.open("./ledger", policy=policy) as ledger:
    try:
        if "approve" in sys.argv:
            print(approve(ledger))
        elif "repair" in sys.argv:
            print(repair(ledger))
        elif LARGE:
            print(agent(ledger, "case-9000", "My parcel never came. Order O-2000.", "O-2000"))
        else:
            print(agent(ledger, "case-8472", "My kettle came broken. Order O-1042.", "O-1042"))
    except counterfoil.RunWaiting as waiting:
        print(f"waits for {waiting.cause}")
