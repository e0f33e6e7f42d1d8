"""The restore drill: effects run, a backup is taken meanwhile, the ledger is destroyed, restored and recovered.

``./run restore-drill`` plays it on a directory of its own. The provider is a process that pays whatever it is asked to and
takes no key twice for once; its book is compared at the end: every order paid, none twice, and the ledger says the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import asdict

import counterfoil
from counterfoil.client.backup import backup_ledger
from counterfoil.client.features import FEATURES
from counterfoil.client.restoring import accept_loss, restore_backup
from counterfoil.effects.registry import own_tools
from counterfoil.errors import ConflictError, LeaseLost, LossNotAccepted, RunWaiting, StoreError
from counterfoil.evidence.verify import verify
from counterfoil.testing.bank import REFUSED_OF, BankProcess, Client, read_book
from counterfoil.testing.payers import SharedClock, faults_of, key_of, read_notes, start

ORDERS: Final = 120
WORKERS: Final = 2
DEADLINE_S: Final = 300.0
"""Real seconds after which a part of the drill counts as failed."""
BACKUP_AT: Final = 0.3
LOST_AT: Final = 0.7
"""Shares of the orders that are paid when the backup is taken, and when the ledger is destroyed."""

Say = Callable[[str], object]


def _quiet(line: str) -> None:
    """Say nothing."""


class Outcome(Struct):
    """What the drill came to. ``wrong`` is empty when the book agrees and the ledger verifies."""

    orders: int
    in_backup: int = 0
    paid_before_loss: int = 0
    lost_events: int = 0
    found_by_lookup: int = 0
    payments: int = 0
    wrong: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def drill(directory: Path, orders: int = ORDERS, seed: int = 0, say: Say = _quiet) -> Outcome:
    """Play the drill in an empty directory."""
    chance = random.Random(seed)  # noqa: S311 - which order comes next is chance, not a secret
    bank = BankProcess(directory, chance)
    bank.start(faults=False)
    try:
        return _Drill(directory, orders, bank, say).run()
    finally:
        bank.end()


class _Drill:
    def __init__(self, directory: Path, orders: int, bank: BankProcess, say: Say) -> None:
        self._place = directory / "ledger"
        self._backup = directory / "ledger.backup"
        self._directory = directory
        self._clock = SharedClock(directory / "clock")
        self._bank = bank
        self._say = say
        # The bank refuses some numbers for good; the drill places no such orders.
        numbers = (number for number in count(1) if number % REFUSED_OF)
        self._orders = list(islice(numbers, orders))
        self._out = Outcome(orders)

    def run(self) -> Outcome:
        out = self._out
        counterfoil.open(self._place, clock=self._clock).close()
        workers = self._workers("first")
        try:
            self._until_paid(BACKUP_AT)
            report = backup_ledger(self._place, self._backup, clock=self._clock)
            self._say(
                f"backup taken while {WORKERS} workers pay: {report.events} events, {report.keys} keys, verified"
            )
            self._until_paid(LOST_AT)
        finally:
            _kill(workers)
        # No payment comes after this: what is on its way is lost with the provider's process, and its book stays.
        self._bank.kill()
        out.in_backup, out.paid_before_loss = self._recorded(report.events), len(read_book(self._bank.book))
        shutil.rmtree(self._place)
        self._say(f"workers killed, ledger destroyed: {out.paid_before_loss} orders are paid by now")
        self._bank.start(faults=False)
        self._restore()
        self._finish()
        self._judge()
        return out

    # ---- steps -----------------------------------------------------------------------------------------------------

    def _workers(self, name: str) -> list[int]:
        notes = self._directory / f"notes-{name}"
        client = Client(self._bank.socket)
        return [
            start(partial(_pay_all, self._place, self._clock, client, notes, self._orders, seed), notes)
            for seed in range(WORKERS)
        ]

    def _until_paid(self, share: float) -> None:
        wanted, deadline = int(self._out.orders * share), time.monotonic() + DEADLINE_S
        while len(read_book(self._bank.book)) < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError("the workers of the drill pay nothing")
            time.sleep(0.005)

    def _recorded(self, backed_up: int) -> int:
        with counterfoil.open(self._place, read_only=True, clock=self._clock) as ledger:
            now = sum(stream.head.sequence for stream in ledger.store.streams(limit=100_000))
        self._out.lost_events = now - backed_up
        return backed_up

    def _restore(self) -> None:
        restore_backup(self._backup, self._place, clock=self._clock)
        with counterfoil.open(self._place, clock=self._clock) as ledger:
            try:
                ledger.check_writable()
            except LossNotAccepted:
                self._say("restored: it is read, and takes no appends")
            else:
                self._out.wrong.append("a restored ledger can be written before its loss is accepted")
        accept_loss(self._place, by="drill", reason="the ledger was destroyed", clock=self._clock)
        self._say(f"loss of {self._out.lost_events} events accepted on record")

    def _finish(self) -> None:
        """The queue delivers every order again, and recovery ends the doubt that the backup holds."""
        workers, deadline = self._workers("second"), time.monotonic() + DEADLINE_S
        try:
            while workers:
                if time.monotonic() > deadline:
                    raise TimeoutError("the workers of the drill do not come to an end")
                workers = [pid for pid in workers if os.waitpid(pid, os.WNOHANG) == (0, 0)]
                time.sleep(0.01)
        finally:
            _kill(workers)
        self._out.wrong += faults_of(self._directory / "notes-second")

    # ---- the judgement ---------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        out, book = self._out, read_book(self._bank.book)
        out.payments = len(book)
        paid = Counter(int(receipt["order"]) for receipt in book)
        twice = sorted(order for order, times in paid.items() if times > 1)
        never = sorted(set(self._orders) - paid.keys())
        out.wrong += [f"order {order} was paid {paid[order]} times" for order in twice]
        out.wrong += [f"order {order} was never paid" for order in never]
        with own_tools(), counterfoil.open(self._place, clock=self._clock) as ledger:
            effects = ledger.effects()
            open_ = [str(row["effect_id"]) for row in effects if row["state"] != "succeeded"]
            out.wrong += [f"effect {effect_id} is not known to be done" for effect_id in open_]
            if len(effects) != out.orders:
                out.wrong.append(
                    f"the ledger knows {len(effects)} effects, and {out.orders} orders were placed"
                )
            out.found_by_lookup = sum(
                event.data["source"] == "lookup"
                for info in ledger.conversations(limit=100_000)
                for event in ledger.events(info.stream_id, types=["effect.observed"])
            )
            report = verify(ledger.store, ledger.keyring, FEATURES)
            if report.exit_code == 1 or report.rows_differ:
                out.wrong.append(f"the ledger does not verify: {dict(report.kinds)}, {report.rows_differ}")
        if not out.found_by_lookup:
            out.wrong.append("nothing was found by lookup: the drill lost no payment, so it proves nothing")
        self._say(
            f"{out.payments} payments in the provider's book, {out.found_by_lookup} of them found by lookup"
        )


def _pay_all(
    place: Path, clock: SharedClock, client: Client, notes: Path, orders: list[int], seed: int
) -> None:
    """Pay every order that is not noted as ended, in an order of one's own."""
    chance = random.Random(seed)  # noqa: S311 - as above
    with own_tools(), counterfoil.open(place, create=False, clock=clock) as ledger:
        pay = _tool(client)
        while left := sorted(set(orders) - read_notes(notes).keys()):
            with suppress(ConflictError, StoreError):
                ledger.recover()
            chance.shuffle(left)
            for order in left:
                if _paid(ledger, pay, order):
                    _note(notes, order)
            clock.sleep(1.0)


def _tool(client: Client) -> Callable[..., Any]:
    def find(idempotency_key: str) -> Any:
        return client.find(idempotency_key)

    def pay(order: int, *, idempotency_key: str = "") -> dict[str, Any]:
        return client.pay(idempotency_key, order, deduplicates=False)

    doubt = counterfoil.by_lookup(find, then=counterfoil.by_key())
    return counterfoil.effect(
        "bank.pay", version="1", key=key_of, touches={"money"}, doubt=doubt, timeout_s=10
    )(pay)


def _paid(ledger: counterfoil.Ledger, pay: Callable[..., Any], order: int) -> bool:
    try:
        with ledger.run(
            "payer", conversation=f"order {order}", message=order, dedupe=f"order {order}"
        ) as run:
            run.finish(pay(order)["id"])
    except (RunWaiting, ConflictError, StoreError, LeaseLost):
        # Another worker is at it, or was quicker; it is looked at again.
        return False
    return True


def _note(notes: Path, order: int) -> None:
    handle = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{order} ended\n".encode())
    os.close(handle)


def _kill(workers: list[int]) -> None:
    for pid in workers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def main(words: list[str] | None = None) -> int:
    """Play the drill and say what came of it; 0 when the book agrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args(words)
    say: Say = _quiet if told.json else partial(print, flush=True)
    with tempfile.TemporaryDirectory(prefix="restore-drill-") as directory:
        out = drill(Path(directory), told.orders, told.seed, say)
    if told.json:
        print(json.dumps(out.to_json()))
    for wrong in [] if told.json else out.wrong:
        print(f"WRONG   {wrong}")
    say("the provider's book agrees with the restored ledger" if not out.wrong else "the drill FAILED")
    return 1 if out.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
