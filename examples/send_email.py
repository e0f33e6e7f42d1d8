"""An e-mail that cannot be unsent: a person permits it, it is sent once, and when nobody knows, a person says.

    python examples/send_email.py             # waits: a person has to permit it
    python examples/send_email.py approve     # she does
    python examples/send_email.py --crash     # the mail is out, then this process is gone
    python examples/send_email.py             # waits: the mail server cannot be asked, so nothing is sent again
    python examples/send_email.py settle      # a person has looked into the outbox
    python examples/send_email.py             # goes on, and ends

The outbox is ``outbox.txt`` and the ledger ``ledger/``, both in this directory. ``counterfoil approve ls`` and
``counterfoil review ls`` show what waits; ``approve`` and ``settle`` here do what the commands of these names do.
"""

import os
import sys
from pathlib import Path

import counterfoil
from counterfoil.policy import RuleList, ask

OUTBOX = Path("outbox.txt")
CRASH = "--crash" in sys.argv
PERSON = "Ines Arvold"

policy = RuleList(
    "mail",
    revision="2026-08-01",
    rules=[ask("outward", touches={"messages"}, question="Send this mail?", assignees=[PERSON])],
    otherwise="deny",
)


# A plain mail server knows no idempotency keys, and nobody can ask it what it has sent.
@counterfoil.effect(
    "mail.send",
    version="1",
    touches={"messages"},
    key=lambda ticket, **_: f"mail:{ticket}",
    doubt=counterfoil.by_review(),
    irreversible="A sent e-mail cannot be unsent.",
    timeout_s=1,
)
def send(ticket: str, to: str, text: str) -> dict:
    """Send a mail."""
    with OUTBOX.open("a") as outbox:
        outbox.write(f"{ticket} to {to}: {text}\n")
    if CRASH:
        os._exit(9)  # the mail is out, and nobody here will ever be told
    return {"ticket": ticket}


def agent(ledger: counterfoil.Ledger) -> str:
    """Answer one ticket."""
    with ledger.run(
        "mail-agent", conversation="T-17", message="Where is it?", dedupe="T-17", wait_s=60
    ) as run:
        send("T-17", to="jane@example.com", text="Your parcel is on its way.")
        run.finish("answered")
    return f"{run.terminal}: {run.output}, {len(OUTBOX.read_text().splitlines())} mail in the outbox"


with counterfoil.open("./ledger", policy=policy) as ledger:
    if "approve" in sys.argv:
        (waits,) = ledger.approvals()
        ledger.approve(str(waits["approval_id"]), by=PERSON, comment="polite and true")
        print("approved")
    elif "settle" in sys.argv:
        (review,) = ledger.reviews()
        sent = "T-17" in OUTBOX.read_text()
        outcome = "succeeded" if sent else "failed"
        ledger.settle(str(review["review_id"]), outcome, by=PERSON, reason="I looked into the outbox")
        print(f"settled: {outcome}")
    else:
        try:
            print(agent(ledger))
        except counterfoil.RunWaiting as waiting:
            print(f"waits for {waiting.cause}")
