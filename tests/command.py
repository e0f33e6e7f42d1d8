"""The command line in process: one call, its exit code, what it printed where; and small ledgers to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import counterfoil
from counterfoil.cli.face import Face
from counterfoil.cli.root import root
from counterfoil.effects.registry import own_tools
from counterfoil.errors import RunSuspended, RunWaiting
from counterfoil.testing.manual import ManualClock
from tests.running import vanish

WIDTH = 100


@dataclass(frozen=True)
class Printed:
    """What one command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on standard output."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The objects on standard output, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """A place to run commands in, with a clock moved by hand and no terminal."""

    def __init__(self, directory: Path, clock: ManualClock | None = None) -> None:
        self.directory = directory
        self.clock = clock or ManualClock()
        self.environment: dict[str, str] = {}

    @property
    def place(self) -> Path:
        """Where the ledger lies."""
        return self.directory / "shop"

    def __call__(self, *words: str, width: int = WIDTH, ledger: bool = True, color: bool = False) -> Printed:
        """Run one command on the ledger of this place."""
        face = Face(
            width=width, clock=self.clock, environment=self.environment, directory=self.directory, color=color
        )
        given = ["--ledger", str(self.place)] if ledger else []
        done = CliRunner().invoke(root, [*given, *words], obj=face)
        return Printed(done.exit_code, done.stdout, done.stderr)

    def open(self, **options: Any) -> counterfoil.Ledger:
        """The ledger itself, on the same clock."""
        return counterfoil.open(self.place, clock=self.clock, **options)


def declare_pickup(doubt: Any = None) -> Callable[..., Any]:
    """A tool whose provider breaks off, and whose doubt a person has to end unless ``doubt`` says otherwise."""

    @counterfoil.effect(
        "carrier.book_pickup",
        version="2026-07-11",
        touches={"external"},
        key=lambda order, **_: f"pickup:{order}",
        doubt=doubt or counterfoil.by_review(),
        timeout_s=10,
    )
    def book_pickup(order: str, window: str) -> dict[str, str]:
        raise ConnectionError("connection reset by peer")

    return book_pickup


def declare_refund() -> Callable[..., Any]:
    """A tool that does what it is asked."""

    @counterfoil.effect(
        "payment.refund",
        version="2026-08-01",
        touches={"money"},
        key=lambda order, line, **_: f"refund:{order}:{line}",
        doubt=counterfoil.by_key(),
        provider_id=lambda result: result["id"],
    )
    def refund(order: str, line: int, amount: Decimal, *, idempotency_key: str = "") -> dict[str, Any]:
        return {"id": "re_7Q2M4K", "amount": amount}

    return refund


def refunded(shell: Shell, name: str = "case-8472", message: str = "My kettle is broken.") -> None:
    """A conversation in which everything went well."""
    with own_tools(), shell.open() as ledger:
        refund = declare_refund()
        with ledger.run("refund-agent", conversation=name, message=message, dedupe=name) as run:
            run.ask(lambda _: "I refund line 1.", [{"role": "user", "content": message}], name="scripted-1")
            refund(order="O-1042", line=1, amount=Decimal("40.00"))


def in_review(shell: Shell, name: str = "case-8473") -> str:
    """A conversation in which a pickup waits for a person; returns the id of the review."""
    with own_tools(), shell.open() as ledger:
        book_pickup = declare_pickup()
        with (
            suppress(RunWaiting),
            ledger.run("refund-agent", conversation=name, message="Fetch it.", dedupe=name),
        ):
            book_pickup(order="O-1042", window="2 Sep, 08:00 to 12:00")
        return str(ledger.reviews()[-1]["review_id"])


def killed(shell: Shell) -> None:
    """A worker that vanished after it had sent a pickup, and whose lease and deadline have passed."""
    with own_tools(), shell.open() as ledger:
        book_pickup = declare_pickup(counterfoil.by_lookup(lambda **_: counterfoil.CannotTell("down")))

        def body(run: counterfoil.Run) -> None:
            with suppress(RunSuspended):
                book_pickup(order="O-1042", window="2 Sep")

        vanish(ledger.run("refund-agent", conversation="case-9", message="x", dedupe="m"), body)
    shell.clock.advance(120_000)


def lost(shell: Shell) -> None:
    """An effect in doubt that no person has been asked about yet: the lookup never got through."""

    def find(**_: object) -> object:
        raise ConnectionError("no way to the carrier")

    with own_tools(), shell.open() as ledger:
        book_pickup = declare_pickup(counterfoil.by_lookup(find))
        with (
            suppress(RunWaiting),
            ledger.run("refund-agent", conversation="case-9", message="x", dedupe="m"),
        ):
            book_pickup(order="O-1042", window="2 Sep")
    shell.clock.advance(120_000)
