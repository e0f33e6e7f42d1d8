"""Logical effects against a real provider process, with workers and provider killed: each happens once, or is known not to.

While it is wild, workers are killed with SIGKILL, or stopped past their leases and let go on, and the provider
delays, refuses, drops answers and is killed too. Then it is calm: what is in doubt is recovered, and a scripted reviewer
settles what only a person can, from the provider's own book.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field

import counterfoil
from counterfoil.client.ledger import Ledger
from counterfoil.effects.decide import ATTEMPTS_MAX, LOOKUPS_MAX
from counterfoil.effects.doubt import OUTCOMES
from counterfoil.effects.registry import own_tools
from counterfoil.effects.rows import EFFECTS
from counterfoil.effects.settle import SettledOutcome
from counterfoil.effects.state import Effect
from counterfoil.flow.context import LEASE_TTL_MS
from counterfoil.flow.event import Event
from counterfoil.testing.bank import BankProcess, Client, read_book
from counterfoil.testing.payers import (
    Payer,
    SharedClock,
    faults_of,
    read_notes,
    recover,
    rule_of,
    start,
    work,
)
from counterfoil.testing.truth import check_truth

WORKERS: Final = 3
BLOW_S: Final = (0.02, 0.2)
"""Between two blows pass so many seconds, at least and at most."""

STOPPED_S: Final = 0.2
CONVERSATIONS_MAX: Final = 100_000

CALM_S: Final = 600.0
"""What is still not at its end after so many calm seconds is lost."""


class Effects(Struct):
    """What happened, and what is wrong."""

    count: int = 0
    killed: int = 0
    stopped: int = 0
    banks_killed: int = 0
    interrupted: int = 0
    undecided: int = 0
    in_vain: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    twice: int = 0
    lost: int = 0
    ended: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        return (
            f"effects: {self.count} effects ({ends}); {self.killed} workers killed, {self.stopped} stopped past their "
            f"lease, the provider killed {self.banks_killed} times; {self.undecided} undecided before review, "
            f"{self.interrupted} by review were interrupted, {self.in_vain} asked for in vain; {self.twice} sent twice, "
            f"{self.lost} lost"
        )


def run_effects(
    directory: Path, seconds: float, seed: int, count: int, tell: Callable[[Effects], None]
) -> Effects:
    """Pay so many orders, wildly for so many seconds at most, then calmly to their end; what became of them."""
    return _Soak(directory, seed, count, tell).run(seconds)


class _Soak:
    def __init__(self, directory: Path, seed: int, count: int, tell: Callable[[Effects], None]) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - which moment kills is chance, not a secret
        self._orders = range(count)
        self._tell = tell
        self._place, self._notes = directory / "ledger", directory / "notes"
        self._clock = SharedClock(directory / "clock")
        self._bank = BankProcess(directory, self._chance)
        self._client = Client(self._bank.socket)
        self._workers: list[int] = []
        self.found: Effects = Effects(count=count)

    def run(self, seconds: float) -> Effects:
        """Both parts, the review and the comparison with the provider's book."""
        counterfoil.open(self._place, clock=self._clock).close()
        try:
            self._wild(time.monotonic() + seconds)
            self._calm_down()
            # Nothing is forked from here on, so this process may open the ledger itself.
            with own_tools(), counterfoil.open(self._place, clock=self._clock) as ledger:
                payer = Payer(ledger, self._client)
                states = self._play_to_the_end(payer, read_notes(self._notes))
                # No payment comes after this: what the book says now is how it ended.
                self._bank.kill()
                self._review(ledger)
                self._play_to_the_end(payer, {n: "ended" for n, state in states.items() if state == "ended"})
                self._compare(ledger)
        finally:
            self._end_workers()
            self._bank.end()
        self.found.problems += [f"a worker failed by itself: {fault}" for fault in faults_of(self._notes)]
        return self.found

    # ---- wild ----

    def _wild(self, until: float) -> None:
        self._bank.start()
        while time.monotonic() < until and len(self._noted()) < len(self._orders):
            self._workers = [pid for pid in self._workers if os.waitpid(pid, os.WNOHANG) == (0, 0)]
            while len(self._workers) < WORKERS:
                self._workers.append(self._start_worker())
            time.sleep(self._chance.uniform(*BLOW_S))
            self._chance.choices(*BLOWS)[0](self)
            self._tell(self.found)

    def _noted(self) -> dict[int, str]:
        noted = read_notes(self._notes)
        self.found.ended = len(noted)
        return noted

    def _start_worker(self) -> int:
        seed = self._chance.getrandbits(32)
        task = partial(work, self._place, self._clock, self._client, self._notes, self._orders, seed)
        return start(task, self._notes)

    def _kill_worker(self) -> None:
        pid = self._workers.pop(self._chance.randrange(len(self._workers)))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.found.killed += 1

    def _stop_worker(self) -> None:
        """A worker stands still, its lease runs out, others take over, and then it goes on as if nothing had been."""
        pid = self._chance.choice(self._workers)
        os.kill(pid, signal.SIGSTOP)
        self._clock.skip(LEASE_TTL_MS + 1)
        time.sleep(STOPPED_S)
        os.kill(pid, signal.SIGCONT)
        self.found.stopped += 1

    def _kill_bank(self) -> None:
        self._bank.kill()
        self.found.banks_killed += 1
        self._bank.start()

    def _end_workers(self) -> None:
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self._workers = []

    # ---- calm ----

    def _calm_down(self) -> None:
        self._end_workers()
        self._bank.kill()
        self._bank.start(faults=False)

    def _play_to_the_end(self, payer: Payer, states: dict[int, str]) -> dict[int, str]:
        """Every order ends, or waits for a person; that person may have been overtaken by a late answer since."""
        left = [order for order in self._orders if states.get(order) != "ended"]
        deadline = time.monotonic() + CALM_S
        while left and time.monotonic() < deadline:
            self._clock.skip(LEASE_TTL_MS + 1)
            recover(payer.ledger)
            states |= {order: state for order in left if (state := payer.serve(order)) is not None}
            left = [order for order in left if order not in states]
            self.found.ended = len(states)
            self._tell(self.found)
        return states

    def _review(self, ledger: Ledger) -> None:
        """The scripted reviewer: what the provider's book holds has succeeded, and the rest was certainly not done."""
        booked = {receipt["order"]: receipt for receipt in read_book(self._bank.book)}
        orders, interrupted = _orders(ledger), _interrupted(ledger)
        rows = {str(row["effect_id"]): row for row in ledger.reviews()}
        dumb = _without_an_answer(ledger)
        in_vain = {each for each in rows if each in dumb or _in_vain(ledger, each)} - interrupted
        self.found.undecided, self.found.interrupted = len(rows.keys() - in_vain), len(interrupted)
        self.found.in_vain = len(in_vain)
        for effect_id in interrupted - rows.keys():
            self.found.problems.append(f"{effect_id} was interrupted, and no person is asked")
        for effect_id in rows.keys() - interrupted - in_vain:
            self.found.problems.append(f"a person is asked about {effect_id}: {rows[effect_id]['cause']!s}")
        for effect_id, row in rows.items():
            receipt = booked.get(orders[effect_id])
            outcome: SettledOutcome = "failed" if receipt is None else "succeeded"
            review_id = str(row["review_id"])
            ledger.settle(review_id, outcome, by="reviewer", reason="the bank's own book", result=receipt)

    # ---- what became of it ----

    def _compare(self, ledger: Ledger) -> None:
        """Both sides agree on every order: booked once and known to have been, or not booked and known not to be."""
        booked = Counter(receipt["order"] for receipt in read_book(self._bank.book))
        known: dict[int, list[Effect]] = {order: [] for order in self._orders}
        folded = self._folded(ledger)
        for effect_id, order in _orders(ledger).items():
            if effect_id in folded:
                known[order].append(folded[effect_id])
        for order, effects in known.items():
            told = [effect.outcome or effect.state for effect in effects]
            self.found.outcomes[told[0] if told else "none"] += 1
            if booked[order] > 1:
                self.found.twice += 1
                self.found.problems.append(f"order {order} was paid {booked[order]} times")
            if told not in ([["succeeded"]] if booked[order] else [["rejected"], ["failed"]]):
                self.found.lost += 1
                self.found.problems.append(
                    f"order {order} was paid {booked[order]} times, the ledger says {told}"
                )
        for row in (*ledger.runs(state="running"), *ledger.runs(state="suspended")):
            self.found.problems.append(f"{row['run_id']!s} has not ended")

    def _folded(self, ledger: Ledger) -> dict[str, Effect]:
        try:
            return check_truth(ledger)
        except AssertionError as false:
            self.found.problems.append(str(false))
            return {}


BLOWS: Final = (
    (_Soak._kill_worker, _Soak._stop_worker, _Soak._kill_bank),
    (60, 20, 20),
)
"""What strikes, and how often in a hundred."""


def _interrupted(ledger: Ledger) -> set[str]:
    """Effects by review that were intended and of which nothing certain was ever heard."""
    heard: dict[str, bool] = {}
    for event in _events(ledger, {"effect.intended", "effect.observed", "effect.late_observed"}):
        heard[event.data["effect_id"]] = event.data.get("outcome") in OUTCOMES
    orders = _orders(ledger)
    return {
        effect_id
        for effect_id, known in heard.items()
        if not known and rule_of(orders[effect_id]) == "review"
    }


def _without_an_answer(ledger: Ledger) -> set[str]:
    """Effects that the provider, when it was last asked about them, said it cannot tell anything of."""
    said = {
        event.data["effect_id"]: event.content.get("answer")
        for event in _events(ledger, {"effect.looked_up"})
    }
    return {effect_id for effect_id, answer in said.items() if answer == "cannot_tell"}


def _in_vain(ledger: Ledger, effect_id: str) -> bool:
    """Whether a person is asked because the provider was asked as often as it may be; it was down, again and again."""
    row = ledger.store.get(EFFECTS.name, (effect_id,)) or {}
    return int(row["lookups"] or 0) >= LOOKUPS_MAX or int(row["attempt"] or 0) >= ATTEMPTS_MAX


def _orders(ledger: Ledger) -> dict[str, int]:
    """The order that each effect is for."""
    return {
        event.data["effect_id"]: event.content["arguments"]["order"]
        for event in _events(ledger, {"effect.intended"})
    }


def _events(ledger: Ledger, types: set[str]) -> Iterator[Event]:
    for conversation in ledger.conversations(limit=CONVERSATIONS_MAX):
        yield from ledger.events(conversation.stream_id, types=types)
