"""A nightly batch of invoices whose worker is killed every second, and which bills every customer once.

    python examples/nightly_batch.py              # 1,000 invoices
    python examples/nightly_batch.py 60 0.2       # 60, and a kill every fifth of a second

The billing service's book is ``book.txt`` and the ledger ``ledger/``, both in this directory. Each worker is a process of
its own, killed with SIGKILL wherever it is; the next one goes on. What went out and was not heard of again is sent once
more under the same key, which the service knows.
"""

import os
import select
import subprocess
import sys
from pathlib import Path

import counterfoil
from counterfoil import RunBusy, RunWaiting

BOOK = Path("book.txt")
INVOICES = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
EVERY_S = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0


# ---- the outside world: a billing service that knows a key again ----------------------------------------------------


def billed() -> list[str]:
    """Every key under which a customer was billed, in order."""
    return [line.split()[0] for line in BOOK.read_text().splitlines()] if BOOK.exists() else []


@counterfoil.effect(
    "billing.invoice",
    version="1",
    touches={"money", "messages"},
    key=lambda number: f"invoice:{number}",
    doubt=counterfoil.by_key(),
    timeout_s=0.5,
)
def bill(number: int, *, idempotency_key: str = "") -> str:
    """Bill one customer."""
    if idempotency_key not in billed():
        with BOOK.open("a") as book:
            book.write(f"{idempotency_key} customer {number}\n")
    return idempotency_key


# ---- the worker -----------------------------------------------------------------------------------------------------


def work() -> None:
    """Bill whatever is not billed yet. Knows nothing of those before it: what was done stands in the ledger."""
    with counterfoil.open("./ledger") as ledger:
        print("at work", flush=True)
        left = list(range(INVOICES))
        while left:
            ledger.recover()
            left = [number for number in left if not ended(ledger, number)]


def ended(ledger: counterfoil.Ledger, number: int) -> bool:
    """Bill one, if it can be done now; one that was done is handed out from the record."""
    try:
        # The same number is the same run, so that it is gone on with and not begun again.
        with ledger.run(
            "biller", conversation=f"night, part {number // 50}", dedupe=f"invoice {number}"
        ) as run:
            run.finish(bill(number))
    except (RunBusy, RunWaiting):
        return False  # an answer of the worker before may still be on its way; later
    return True


# ---- the night ------------------------------------------------------------------------------------------------------


def night() -> int:
    """Start a worker, kill it after a while in which it got somewhere, until one comes to the end; how many were killed."""
    killed = 0
    while True:
        before = len(billed())
        command = [sys.executable, __file__, str(INVOICES), str(EVERY_S), "--worker"]
        worker = subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        worker.stdout.readline()  # it is at work
        while not (over := has_ended(worker)) and len(billed()) == before:
            pass
        if over:
            worker.communicate()
            return killed if worker.returncode == 0 else sys.exit("a worker failed by itself")
        worker.kill()
        worker.communicate()
        killed += 1


def has_ended(worker: subprocess.Popen) -> bool:
    """Whether a worker ends within the time it is given; its output ends when it does."""
    return bool(select.select([worker.stdout], [], [], EVERY_S)[0])


if "--worker" in sys.argv:
    work()
else:
    killed = night()
    with counterfoil.open("./ledger") as ledger:
        ends = [row["terminal"] for row in ledger.runs()]
    once = len(billed()) == len(set(billed())) == INVOICES == ends.count("success")
    print(f"{killed} workers killed; {INVOICES} invoices, each billed once: {once}")
