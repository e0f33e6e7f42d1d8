"""Side by side: contenders take turns, round after round, and only medians of the same run are compared."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field

ReadClock = Callable[[], float]
WALL: Final[ReadClock] = time.perf_counter
PROCESSOR: Final[ReadClock] = time.process_time


class Contender(Struct, frozen=True):
    """``work`` does one turn of so many items and is timed; ``ready`` makes what it needs before, and is not.

    ``work`` of another process returns the seconds that it has measured itself.
    """

    work: Callable[[int], float | None]
    ready: Callable[[int], None] = lambda _: None


def settled(contender: Contender) -> Contender:
    """The same, begun when what others have left to be written is on the disk: it would slow down whose turn is next."""

    def ready(items: int) -> None:
        contender.ready(items)
        os.sync()

    return Contender(contender.work, ready)


class Scale(Struct, frozen=True):
    """How much is measured: this share of the usual. Small shares give rough figures."""

    share: float = 1.0

    def rounds(self, usual: int) -> int:
        """Rounds to take, at least three."""
        return max(3, round(usual * self.share))

    def items(self, usual: int) -> int:
        """Items of one round, at least one."""
        return max(1, round(usual * self.share))


class Taken(Struct):
    """Seconds an item of each round, by contender."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """Median seconds an item."""
        return statistics.median(self.seconds[name])

    def rate(self, name: str) -> float:
        """Items a second by the median."""
        return 1 / self.median(name)

    def speed(self, name: str, against: str) -> float:
        """How fast one is in terms of another: 0.5 is half as fast."""
        return self.median(against) / self.median(name)


def side_by_side(
    contenders: Mapping[str, Contender], *, rounds: int, items: int, clock: ReadClock = WALL
) -> Taken:
    """Let each work once to warm up, then in turns; which begins changes with every round.

    What only computes is timed by the ``PROCESSOR``: a long turn is interrupted by other work on the machine more
    often than a short one, which would be held against it.

    The garbage collector runs between turns and not inside one, so that no contender pays for another's garbage.
    """
    taken = Taken({name: [] for name in contenders})
    order = list(contenders)
    for name in order:
        timed(contenders[name], items, clock)
    for _ in range(rounds):
        for name in order:
            taken.seconds[name].append(timed(contenders[name], items, clock))
        order = order[1:] + order[:1]
    return taken


def timed(contender: Contender, items: int, clock: ReadClock = WALL) -> float:
    """Seconds an item of one turn."""
    contender.ready(items)
    gc.collect()
    gc.disable()
    try:
        began = clock()
        told = contender.work(items)
        taken = clock() - began
        return (taken if told is None else told) / items
    finally:
        gc.enable()
