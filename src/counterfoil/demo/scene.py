"""What happens to one case: killed at the dangerous moment, taken over, settled where nobody can be asked."""

from __future__ import annotations

import getpass
from dataclasses import dataclass, field
from typing import Any

import counterfoil
from counterfoil.demo.agent import Case
from counterfoil.demo.cast import Cast, Player
from counterfoil.demo.provider import read_book
from counterfoil.errors import InternalError

SIGKILLED = -9


@dataclass(slots=True)
class Scene:
    """One case on its way through the demo, and what was seen of it."""

    case: Case
    provider: str
    mute: bool
    address: str = ""
    run_id: str = ""
    receipt: dict[str, Any] = field(default_factory=dict)
    workers: list[int] = field(default_factory=list)
    review_id: str | None = None
    settled_by: str | None = None
    terminal: str | None = None

    def open_provider(self, cast: Cast) -> Player:
        """Start the provider of this case; it will hold its first refund's answer."""
        player, self.address = cast.provider(self.provider, hold="refunds", mute=self.mute)
        return player

    def start(self, cast: Cast) -> Player:
        """Start the first worker."""
        worker = self._worker(cast)
        self.run_id = worker.hears("entered")
        return worker

    def kill_at_the_dangerous_moment(self, provider: Player, worker: Player) -> None:
        """Kill the worker once the provider says that the money is booked; its answer is being held."""
        self.receipt = provider.hears("booked")
        status = worker.kill()
        _demand(status == SIGKILLED, f"worker {worker.pid} ended with {status}, not by SIGKILL")

    def take_over(self, cast: Cast) -> Player:
        """Start a worker that waits for the dead one's lease and goes on with the same run."""
        return self._worker(cast)

    def see_end(self, worker: Player) -> None:
        """Wait until the worker has left the run: ended, or waiting for a person."""
        self._see_same_run(worker)
        said = worker.says()
        if "waiting" in said:
            (self.review_id,) = said["waiting"]
        else:
            self.terminal = said["ended"]
        status = worker.end()
        _demand(status == 0, f"worker {worker.pid} ended with {status}")

    def settle(self, cast: Cast) -> str:
        """Settle the review as the person at this machine, from the provider's own book; the reason given."""
        assert self.review_id is not None
        key = self.receipt["key"]
        booked = [
            receipt for receipt in read_book(cast.book(self.provider), "refunds") if receipt["key"] == key
        ]
        _demand(len(booked) == 1, f"the book of {self.provider} has {len(booked)} refunds under {key}")
        self.settled_by = person()
        reason = f"the book of {self.provider} has {booked[0]['id']} under {key}"
        with counterfoil.open(cast.ledger) as ledger:
            ledger.settle(
                self.review_id,
                "succeeded",
                by=self.settled_by,
                reason=reason,
                result=booked[0],
                evidence=booked,
            )
        return reason

    def _worker(self, cast: Cast) -> Player:
        worker = cast.worker(self.case.name, self.address)
        self.workers.append(worker.pid)
        return worker

    def _see_same_run(self, worker: Player) -> None:
        said = worker.says()
        entered = said.get("entered")
        if entered is None:
            raise InternalError(f"worker {worker.pid} did not enter a run: {said}")
        _demand(entered == self.run_id, f"worker {worker.pid} entered {entered}, not {self.run_id}")


def person() -> str:
    """The person at this machine by login name, who plays the named human of the review."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "the operator"


def _demand(true: bool, otherwise: str) -> None:
    if not true:
        raise InternalError(f"the demo went otherwise than it should: {otherwise}")
