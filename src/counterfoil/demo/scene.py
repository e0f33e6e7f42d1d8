"""What happens to one case: killed at the dangerous moment, taken over, settled where nobody can be asked."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct, field

import counterfoil
from counterfoil.demo.agent import Case
from counterfoil.demo.cast import Cast, Player
from counterfoil.demo.provider import read_book
from counterfoil.errors import InternalError

SIGKILLED: Final = -9


class Scene(Struct):
    """One case on its way through the demo, and what was seen of it."""

    cast: Cast
    case: Case
    provider: str
    mute: bool
    address: str = ""
    provider_pid: int = 0
    run_id: str = ""
    receipt: dict[str, Any] = field(default_factory=dict)
    workers: list[int] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    review_id: str | None = None
    settled_by: str | None = None
    approval_id: str | None = None
    terminal: str | None = None

    def open_provider(self) -> Player:
        """Start the provider of this case; it will hold its first refund's answer."""
        player, self.address = self.cast.provider(self.provider, hold="refunds", mute=self.mute)
        self.provider_pid = player.pid
        return player

    def start(self) -> Player:
        """Start the first worker, which enters the run."""
        worker = self._worker()
        self.run_id = worker.says("entered")
        return worker

    def kill_at_the_dangerous_moment(self, provider: Player, worker: Player) -> None:
        """Kill the worker once the provider says that the money is booked; its answer is being held."""
        self.receipt = provider.says("booked")
        status = worker.kill()
        demand(status == SIGKILLED, f"worker {worker.pid} ended with {status}, not by SIGKILL")
        self.see_state()

    def ask_first(self, address: str, provider_pid: int) -> None:
        """Start a worker beside a provider that runs already; the call needs a permission, so the run waits for it."""
        self.address, self.provider_pid = address, provider_pid
        worker = self.start()
        left = worker.says("left")
        demand(worker.end() == 0, f"worker {worker.pid} did not end well")
        waits = left["waits_for"]
        demand(len(waits) == 1 and waits[0].startswith("apr_"), f"{self.case.name} waits for {waits}")
        self.approval_id = waits[0]

    def effect_id(self) -> str:
        """The refund's effect."""
        with counterfoil.open(self.cast.ledger, read_only=True) as ledger:
            rows = [row for row in ledger.effects(run_id=self.run_id) if row["tool"] == self.case.pays_with]
        return str(rows[0]["effect_id"])

    def take_over(self) -> Player:
        """Start another worker on the same message, which must find its way into the same run."""
        worker = self._worker()
        entered = worker.says("entered")
        demand(entered == self.run_id, f"worker {worker.pid} entered {entered}, not {self.run_id}")
        return worker

    def see_end(self, worker: Player, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until the worker has left the run: ended, or waiting for a person."""
        left = worker.says("left", meanwhile)
        self.terminal = left["terminal"]
        self.review_id = left["waits_for"][0] if left["waits_for"] else self.review_id
        status = worker.end()
        demand(status == 0, f"worker {worker.pid} ended with {status}")
        self.see_state()

    def settle(self) -> str:
        """Settle the review as the person at this machine, from the provider's own book; the reason given."""
        assert self.review_id is not None
        key = self.receipt["key"]
        book = read_book(self.cast.book(self.provider), "refunds")
        booked = [receipt for receipt in book if receipt["key"] == key]
        demand(len(booked) == 1, f"the book of {self.provider} has {len(booked)} refunds under {key}")
        self.settled_by = person()
        reason = f"the book of {self.provider} has {booked[0]['id']} under {key}"
        with counterfoil.open(self.cast.ledger) as ledger:
            ledger.settle(
                self.review_id,
                "succeeded",
                by=self.settled_by,
                reason=reason,
                result=booked[0],
                evidence=booked,
            )
        return reason

    def see_state(self) -> None:
        """Note how the refund stands now, as a row of the ledger says."""
        with counterfoil.open(self.cast.ledger, read_only=True) as ledger:
            rows = [row for row in ledger.effects(run_id=self.run_id) if row["tool"] == self.case.pays_with]
        demand(
            len(rows) == 1, f"the ledger has {len(rows)} effects of {self.case.pays_with} in {self.run_id}"
        )
        self.states.append(str(rows[0]["state"]))

    def left_s(self) -> float:
        """Seconds until the refund's call can no longer be on its way."""
        with counterfoil.open(self.cast.ledger, read_only=True) as ledger:
            now_ms = ledger.store.now_ms()
            rows = [row for row in ledger.effects(run_id=self.run_id) if row["tool"] == self.case.pays_with]
        return max((int(row["deadline_ms"] or 0) - now_ms) / 1000 for row in rows)

    def _worker(self) -> Player:
        worker = self.cast.worker(self.case.name, self.address)
        self.workers.append(worker.pid)
        return worker


def person() -> str:
    """The person at this machine by login name, who plays the named human of the review."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "the operator"


def demand(true: bool, otherwise: str) -> None:
    """Raise InternalError unless what was expected has happened."""
    if not true:
        raise InternalError(f"the demo went otherwise than it should: {otherwise}")
