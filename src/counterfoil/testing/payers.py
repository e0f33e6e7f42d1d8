"""The workers of the effect soak: forked processes that pay orders through the ledger until they are killed.

What one did stands on a file of its own kind, ``notes``, one line for each order that came to an end or waits for a
person. A clock that the soak moves is shared by all processes, so that a lease can expire while its holder stands still.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import counterfoil
from counterfoil.client.ledger import Ledger
from counterfoil.effects.registry import own_tools
from counterfoil.errors import (
    ConflictError,
    EffectFailed,
    LeaseLost,
    NotDone,
    Rejected,
    RunWaiting,
    StoreError,
)
from counterfoil.testing.bank import LATE_S, Client

RULES: Final = ("key", "lookup_then_key", "review")
"""The doubt rule of an order is that of its number."""

TIMEOUT_S: Final = LATE_S / 2
CONVERSATION_ORDERS: Final = 10
NOT_DONE_TRIES: Final = 50
SLEPT_S_MAX: Final = 0.02
BYTES: Final = 8


class SharedClock:
    """The machine's time plus what was skipped, by all processes that share ``path``.

    Who sleeps long skips most of it, for all: what takes minutes of backing off is over in no time, and a lease may
    run out under a worker that lives.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(BYTES))
        with path.open("r+b") as file:
            self._skipped = mmap.mmap(file.fileno(), BYTES)

    def skip(self, milliseconds: int) -> None:
        """Move everybody's wall clock forward."""
        # Of two at once one may be forgotten; time goes on all the same.
        skipped = int.from_bytes(self._skipped[:BYTES], "little") + milliseconds
        self._skipped[:BYTES] = skipped.to_bytes(BYTES, "little")

    def now_ms(self) -> int:
        """See ``Clock``."""
        return time.time_ns() // 1_000_000 + int.from_bytes(self._skipped[:BYTES], "little")

    def monotonic(self) -> float:
        """See ``Clock``; nobody skips on this one."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep a little and skip the rest."""
        time.sleep(self._shortened(seconds))

    async def asleep(self, seconds: float) -> None:
        """As :meth:`sleep`, for tasks."""
        await asyncio.sleep(self._shortened(seconds))

    def _shortened(self, seconds: float) -> float:
        slept = min(max(0.0, seconds), SLEPT_S_MAX)
        self.skip(round((max(0.0, seconds) - slept) * 1000))
        return slept


def rule_of(order: int) -> str:
    """The doubt rule under which an order is paid."""
    return RULES[order % len(RULES)]


def declare(client: Client) -> dict[str, Callable[..., Any]]:
    """One tool for each rule; the bank deduplicates where the rule relies on it, and nowhere else."""

    def find(idempotency_key: str) -> counterfoil.Found | counterfoil.Absent | counterfoil.CannotTell:
        return client.find(idempotency_key)

    doubts = {
        "key": counterfoil.by_key(),
        "lookup_then_key": counterfoil.by_lookup(find, then=counterfoil.by_key()),
        "review": counterfoil.by_review(),
    }
    return {rule: _declared(client, rule, doubt) for rule, doubt in doubts.items()}


def _declared(client: Client, rule: str, doubt: Any) -> Callable[..., Any]:
    def pay(order: int, *, idempotency_key: str = "") -> dict[str, Any]:
        return client.pay(idempotency_key, order, deduplicates=rule != "review")

    settings: dict[str, Any] = {"touches": {"money"}, "doubt": doubt, "timeout_s": TIMEOUT_S}
    pay.__qualname__ = f"pay_by_{rule}"
    return counterfoil.effect(f"bank.pay_by_{rule}", version="1", key=key_of, **settings)(pay)


def key_of(order: int) -> str:
    """The business key of an order."""
    return f"pay:{order}"


class Payer:
    """One worker's view of the ledger and of the bank."""

    def __init__(self, ledger: Ledger, client: Client) -> None:
        self.ledger: Ledger = ledger
        self._tools = declare(client)

    def serve(self, order: int) -> str | None:
        """Pay one order: ``ended``, ``review`` when a person has to say, or None when it comes to its end later."""
        try:
            with self.ledger.run(
                "payer",
                conversation=f"customer {order // CONVERSATION_ORDERS}",
                message=order,
                dedupe=f"order {order}",
            ) as run:
                run.finish(self._pay(order))
        except RunWaiting as waiting:
            return "review" if all(what.startswith("rev_") for what in waiting.waits_for) else None
        except (ConflictError, StoreError, LeaseLost):
            # Somebody else is at it, or was quicker; it is looked at again.
            return None
        return "ended"

    def _pay(self, order: int) -> str:
        for _ in range(NOT_DONE_TRIES):
            try:
                return str(self._tools[rule_of(order)](order)["id"])
            except NotDone:
                continue
            except (Rejected, EffectFailed) as error:
                return f"not paid: {type(error).__name__}"
        return "not paid: NotDone"


def work(
    place: Path, clock: SharedClock, client: Client, notes: Path, orders: Sequence[int], seed: int
) -> None:
    """Pay what is left, in an order of one's own, until nothing is left that could go on."""
    chance = random.Random(seed)  # noqa: S311 - which order comes next is chance, not a secret
    with own_tools(), counterfoil.open(place, create=False, clock=clock) as ledger:
        payer = Payer(ledger, client)
        while left := sorted(set(orders) - read_notes(notes).keys()):
            recover(ledger)
            chance.shuffle(left)
            for order in left:
                state = payer.serve(order)
                if state is not None:
                    _note(notes, f"{order} {state}")
            clock.sleep(1.0)


def recover(ledger: Ledger) -> None:
    """One recovery; what it could not end, and what stopped it, is for the next one."""
    with suppress(ConflictError, StoreError):
        ledger.recover()


def start(task: Callable[[], None], notes: Path) -> int:
    """A forked child that does its task and is gone; a fault of its own stands in the notes. Returns its pid."""
    pid = os.fork()
    if pid == 0:
        # Nothing of the parent may run in the child, whatever happens.
        code = 1
        try:
            task()
            code = 0
        except BaseException as error:  # noqa: BLE001 - said in the notes, where the parent looks
            _note(notes, f"fault {type(error).__name__}: {error}".replace("\n", " "))
        finally:
            os._exit(code)
    return pid


def read_notes(notes: Path) -> dict[int, str]:
    """How far each order is that came to an end or waits for a person."""
    lines = (line.partition(" ") for line in _lines(notes))
    return {int(order): state for order, _, state in lines if order != "fault"}


def faults_of(notes: Path) -> list[str]:
    """What workers failed with by themselves."""
    return [line.removeprefix("fault ") for line in _lines(notes) if line.startswith("fault ")]


def _lines(notes: Path) -> Iterable[str]:
    return notes.read_text("utf-8").splitlines() if notes.exists() else ()


def _note(notes: Path, line: str) -> None:
    handle = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{line}\n".encode("utf-8", "replace"))
    os.close(handle)
