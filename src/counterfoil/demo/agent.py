"""The demo's agent: its tools, declared once, its scripted model, and the case it works on.

This is all that an application writes. ``counterfoil.toml`` names this module as ``app``, so that the command line
can recover with these tools.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from msgspec import Struct

import counterfoil
from counterfoil import Absent, CannotTell, Found, Rejected, Request, Response, Run
from counterfoil.policy import RuleList, ask

PROVIDER_VARIABLE: Final = "COUNTERFOIL_DEMO_PROVIDER"
"""Environment variable with the address of the provider, ``http://127.0.0.1:PORT``."""

CALL_TIMEOUT_S: Final = 5
"""Until so long after an intention its call may still be on its way, and nobody asks or sends again."""

AGENT: Final = "refund-agent"

ORDERS: Final = {
    "O-1042": {"line": 1, "item": "kettle", "paid": Decimal("40.00"), "trouble": "came broken"},
    "O-2077": {"line": 3, "item": "teapot", "paid": Decimal("25.50"), "trouble": "never came"},
    "O-3110": {"line": 1, "item": "blender", "paid": Decimal("80.00"), "trouble": "never came"},
}
"""The shop's own records."""


# ---- the outside world -----------------------------------------------------------------------------------------------


def _call(method: str, path: str, key: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    address = os.environ[PROVIDER_VARIABLE] + path
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "idempotency-key": key}
    request = HttpRequest(address, data, headers, method=method)  # noqa: S310 - the address is our own process
    with urlopen(request, timeout=CALL_TIMEOUT_S) as answer:  # noqa: S310 - as above
        receipt: dict[str, Any] = json.load(answer)
    return receipt


def _send(kind: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
    try:
        return _call("POST", f"/{kind}", key, body)
    except HTTPError as refused:
        if refused.code == 400:
            raise Rejected(f"the provider refuses: {refused.reason}") from refused
        raise


def _find(kind: str, key: str) -> Found | Absent | CannotTell:
    try:
        return Found("succeeded", _call("GET", f"/{kind}?key={quote(key)}", key))
    except HTTPError as answer:
        return Absent() if answer.code == 404 else CannotTell(f"status {answer.code}")


def find_refund(*, idempotency_key: str) -> Found | Absent | CannotTell:
    """Ask the provider what became of a refund."""
    return _find("refunds", idempotency_key)


def find_charge(*, idempotency_key: str) -> Found | Absent | CannotTell:
    """Ask the provider what became of a charge."""
    return _find("charges", idempotency_key)


def find_message(*, idempotency_key: str) -> Found | Absent | CannotTell:
    """Ask the provider what became of a message."""
    return _find("messages", idempotency_key)


# ---- the tools -------------------------------------------------------------------------------------------------------


@counterfoil.effect(
    "shop.look_up", version="1", touches=(), doubt=counterfoil.by_repeating(), timeout_s=CALL_TIMEOUT_S
)
def look_up(order: str) -> dict[str, Any]:
    """What the shop knows of an order."""
    return ORDERS[order]


@counterfoil.effect(
    "payment.charge",
    version="1",
    touches={"money"},
    key=lambda order, line, **_: f"charge:{order}:{line}",
    doubt=counterfoil.by_lookup(find_charge, then=counterfoil.by_key()),
    provider_id=lambda receipt: receipt["id"],
    timeout_s=CALL_TIMEOUT_S,
)
def charge(order: str, line: int, amount: Decimal, *, idempotency_key: str = "") -> dict[str, Any]:
    """Take back what was paid for one line of an order."""
    return _send("charges", idempotency_key, {"order": order, "line": line, "amount": str(amount)})


@counterfoil.effect(
    "payment.refund",
    version="2026-08-01",
    touches={"money"},
    key=lambda order, line, **_: f"refund:{order}:{line}",
    doubt=counterfoil.by_lookup(find_refund, then=counterfoil.by_key()),
    provider_id=lambda receipt: receipt["id"],
    compensate=charge,
    timeout_s=CALL_TIMEOUT_S,
)
def refund(order: str, line: int, amount: Decimal, *, idempotency_key: str = "") -> dict[str, Any]:
    """Pay back one line of an order; the provider deduplicates and can be asked."""
    return _send("refunds", idempotency_key, {"order": order, "line": line, "amount": str(amount)})


@counterfoil.effect(
    "bank.pay_back",
    version="7",
    touches={"money"},
    key=lambda order, line, **_: f"refund:{order}:{line}",
    doubt=counterfoil.by_review(),
    provider_id=lambda receipt: receipt["id"],
    timeout_s=CALL_TIMEOUT_S,
)
def pay_back(order: str, line: int, amount: Decimal, *, idempotency_key: str = "") -> dict[str, Any]:
    """The same through an old bank that pays whatever it is sent and cannot be asked."""
    return _send("refunds", idempotency_key, {"order": order, "line": line, "amount": str(amount)})


@counterfoil.effect(
    "message.send",
    version="1",
    touches={"messages"},
    key=lambda order, **_: f"notice:{order}",
    doubt=counterfoil.by_lookup(find_message),
    provider_id=lambda receipt: receipt["id"],
    timeout_s=CALL_TIMEOUT_S,
)
def notify(order: str, text: str, *, idempotency_key: str = "") -> dict[str, Any]:
    """Tell the customer."""
    return _send("messages", idempotency_key, {"order": order, "text": text})


# ---- the agent -------------------------------------------------------------------------------------------------------


class Case(Struct, frozen=True):
    """One complaint: the conversation, the message that came in, its dedupe key, and which tool pays."""

    name: str
    message: str
    dedupe: str
    order: str
    pays_with: str


ASKED: Final = Case("case-8472", "My kettle came broken. Order O-1042.", "mail-1", "O-1042", "payment.refund")
MUTE: Final = Case("case-8513", "My teapot never came. Order O-2077.", "mail-2", "O-2077", "bank.pay_back")
LARGE: Final = Case("case-8530", "My blender never came. Order O-3110.", "mail-3", "O-3110", "payment.refund")
CASES: Final = {case.name: case for case in (ASKED, MUTE, LARGE)}

UNASKED_UP_TO: Final = Decimal("50.00")
"""A larger refund needs a person's permission first."""

policy: Final = RuleList(
    "refunds",
    revision="2026-08-01",
    rules=[
        ask(
            "large",
            tool="payment.refund",
            when=lambda call: call.arguments["amount"] > UNASKED_UP_TO,
            question=f"Pay back more than {UNASKED_UP_TO}?",
        )
    ],
    otherwise="allow",
)

PAYERS: Final = {tool.name: tool for tool in (refund, pay_back)}


def scripted_model(request: Request) -> Response:
    """A scripted model: it asks for the order first, and proposes a refund when it has seen it."""
    seen = request.messages[-1]
    if seen["role"] == "user":
        order = seen["content"].rpartition("Order ")[2].rstrip(".")
        call = {"name": look_up.name, "arguments": {"order": order}}
        return Response(f"Let me look at order {order}.", tool_calls=[call], finish="tools", input_tokens=212)
    order = seen["content"]
    proposal = {"line": order["line"], "amount": str(order["paid"])}
    words = f"The {order['item']} {order['trouble']}: I propose to pay back {order['paid']}."
    return Response(words, data={"proposal": proposal}, input_tokens=297, output_tokens=31)


def work(run: Run, case: Case) -> dict[str, Any]:
    """Answer one complaint. Running this again in the same run resumes it."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": run.message}]
    asked = run.ask(scripted_model, messages)
    found = look_up(**asked.tool_calls[0]["arguments"])
    messages += [{"role": "assistant", "content": asked.text}, {"role": "tool", "content": found}]
    proposed = (run.ask(scripted_model, messages).data or {})["proposal"]
    # The model proposes; what is paid is checked against the order, not against the model's words.
    amount = min(Decimal(proposed["amount"]), found["paid"])
    receipt = PAYERS[case.pays_with](case.order, proposed["line"], amount)
    notify(case.order, f"We have paid back {amount} for your {found['item']} ({receipt['id']}).")
    return {"refund": receipt["id"], "amount": amount}
