"""Durable appends: one caller, 64 threads, 64 tasks and ``append_many`` against loops written by hand."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from counterfoil.adapters.sqlite import open_sqlite
from counterfoil.bench.figures import Budget, Figure, percentile
from counterfoil.bench.raw import RawChain, RawItem, raw_items
from counterfoil.bench.rounds import Contender, Scale, side_by_side
from counterfoil.bench.sample import Described, Sample
from counterfoil.client.features import TABLES
from counterfoil.client.ids import UlidIds
from counterfoil.store.aio import AsyncAppender
from counterfoil.store.contract import Store
from counterfoil.store.unit import Outcome, Receipt

CALLERS: Final = 64
MANY: Final = (16, 64, 256)
"""Events of one ``append_many``, and of the hand-written transaction beside it."""


class Ours:
    """A ledger's SQLite store with one stream of full events."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.store: Store = open_sqlite(directory, tables=TABLES, create=True, ledger_id=UlidIds().new("ldg"))
        self.sample = Sample(self.store.ledger_id)
        check(self.store.append([self.sample.creation()]).result())

        self.described: list[Described] = []

    def describe(self, count: int) -> None:
        """Have the events of one turn at hand as their callers have them."""
        self.described = self.sample.described(count)

    def lone(self, _count: int) -> None:
        """One caller: seal, prepare, append and wait, again and again."""
        unit, append = self.sample.unit, self.store.append
        for described in self.described:
            check(append([unit(described)]).result())

    def many(self, size: int, count: int) -> None:
        """One caller who hands over ``size`` units at a time."""
        unit, append = self.sample.unit, self.store.append
        for start in range(0, count, size):
            check(append([unit(described) for described in self.described[start : start + size]]).result())

    def close(self) -> None:
        """Release the store."""
        self.store.close()


def check(outcomes: Sequence[Outcome]) -> None:
    """Nothing was refused: what is measured has happened."""
    for outcome in outcomes:
        if not isinstance(outcome, Receipt):
            raise outcome.error


def by_hand(raw: RawChain, sample: Sample, size: int) -> Contender:
    """The raw loop in transactions of ``size`` events."""
    return by_group(raw.append, sample, size)


def by_group(append: Callable[[Sequence[RawItem]], None], sample: Sample, size: int) -> Contender:
    """``size`` events at a time; as for ours, the events are at hand when a turn begins."""
    ready: list[RawItem] = []

    def fill(count: int) -> None:
        ready[:] = raw_items(sample, count)

    def work(count: int) -> None:
        for start in range(0, count, size):
            append(ready[start : start + size])

    return Contender(work, fill)


def one_caller(scale: Scale, directory: Path) -> list[Figure]:
    """One synchronous caller against one transaction an event."""
    ours, raw = Ours(directory / "ours"), RawChain(directory / "raw")
    contenders = {"ours": Contender(ours.lone, ours.describe), "raw": by_hand(raw, Sample(), 1)}
    taken = side_by_side(contenders, rounds=scale.rounds(15), items=scale.items(200))
    ours.close()
    raw.close()
    return [
        Figure(
            "append.lone",
            "of the raw loop's speed",
            taken.speed("ours", "raw"),
            "×",
            Budget(at_least=0.7),
        ),
        Figure("append.lone.rate", "appends", taken.rate("ours"), "events/s"),
        Figure("append.raw.rate", "the raw loop", taken.rate("raw"), "events/s"),
    ]


def many(scale: Scale, directory: Path) -> list[Figure]:
    """Units handed over together against one transaction of as many events."""
    figures = []
    for size in MANY:
        ours, raw = Ours(directory / f"ours-{size}"), RawChain(directory / f"raw-{size}")
        contenders = {
            "ours": Contender(partial(ours.many, size), ours.describe),
            "raw": by_hand(raw, Sample(), size),
        }
        taken = side_by_side(contenders, rounds=scale.rounds(9), items=size * scale.items(12))
        ours.close()
        raw.close()
        what = f"{size} together, of the raw group's speed"
        figures.append(
            Figure(f"append.many.{size}", what, taken.speed("ours", "raw"), "×", Budget(at_least=0.5))
        )
        figures.append(Figure(f"append.many.{size}.rate", f"{size} together", taken.rate("ours"), "events/s"))
    return figures


class Waits:
    """How long each append took, from the call to its answer, in seconds."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    @property
    def p99_ms(self) -> float:
        """Milliseconds within which 99 of 100 were answered."""
        return percentile(self.taken, 0.99) * 1000


def tasks(scale: Scale, directory: Path) -> list[Figure]:
    """64 tasks of one event loop, each awaiting its append before the next."""
    ours, raw, waits = Ours(directory / "ours"), RawChain(directory / "raw"), Waits()
    appender = AsyncAppender(ours.store)

    async def caller(described: Sequence[Described]) -> None:
        for one in described:
            began = time.perf_counter()
            check(await appender.append([ours.sample.unit(one)]))
            waits.taken.append(time.perf_counter() - began)

    async def all_callers() -> None:
        await asyncio.gather(*(caller(ours.described[number::CALLERS]) for number in range(CALLERS)))

    def all_tasks(_count: int) -> None:
        asyncio.run(all_callers())

    contenders = {
        "ours": Contender(all_tasks, ours.describe),
        "raw": by_hand(raw, Sample(), CALLERS),
    }
    taken = side_by_side(contenders, rounds=scale.rounds(9), items=CALLERS * scale.items(24))
    ours.close()
    raw.close()
    return [
        Figure(
            "append.tasks",
            "of the raw group's speed",
            taken.speed("ours", "raw"),
            "×",
            Budget(at_least=0.4),
        ),
        Figure(
            "append.tasks.p99",
            "99th percentile of one append",
            waits.p99_ms,
            "ms",
            Budget(at_most=50),
        ),
        Figure("append.tasks.rate", "appends", taken.rate("ours"), "events/s"),
        Figure("append.group.rate", "the raw loop in groups of 64", taken.rate("raw"), "events/s"),
    ]


def threads(scale: Scale, directory: Path) -> list[Figure]:
    """64 threads, each waiting for its append before the next."""
    ours, raw, waits = Ours(directory / "ours"), RawChain(directory / "raw"), Waits()

    def caller(described: Sequence[Described]) -> None:
        for one in described:
            began = time.perf_counter()
            check(ours.store.append([ours.sample.unit(one)]).result())
            waits.taken.append(time.perf_counter() - began)

    def all_callers(_count: int) -> None:
        shares = [ours.described[number::CALLERS] for number in range(CALLERS)]
        callers = [threading.Thread(target=caller, args=(share,)) for share in shares]
        for thread in callers:
            thread.start()
        for thread in callers:
            thread.join()

    contenders = {"ours": Contender(all_callers, ours.describe), "raw": by_hand(raw, Sample(), CALLERS)}
    taken = side_by_side(contenders, rounds=scale.rounds(9), items=CALLERS * scale.items(24))
    ours.close()
    raw.close()
    return [
        Figure("append.threads", "of the raw group's speed", taken.speed("ours", "raw"), "×"),
        Figure("append.threads.p99", "99th percentile of one append", waits.p99_ms, "ms"),
        Figure("append.threads.rate", "appends", taken.rate("ours"), "events/s"),
    ]
