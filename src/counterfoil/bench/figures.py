"""A figure, the budget it is held to, and the machine it was taken on."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

PAGE: Final = 4096
FSYNCS: Final = 200


class Budget(Struct, frozen=True):
    """A limit of DESIGN 14: the figure is to be at least, or at most, so much."""

    at_least: float | None = None
    at_most: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a figure keeps it."""
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )

    def __str__(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"


class Figure(Struct, frozen=True):
    """One measured value. ``what`` says it to people; without a budget it is for information."""

    name: str
    what: str
    value: float
    unit: str
    budget: Budget | None = None
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether it keeps its budget, if it has one."""
        return self.budget is None or self.budget.holds(self.value)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        told: dict[str, Any] = {"name": self.name, "what": self.what, "value": self.value, "unit": self.unit}
        if self.budget is not None:
            limit = {"at_least": self.budget.at_least, "at_most": self.budget.at_most}
            told["budget"] = {name: value for name, value in limit.items() if value is not None}
            told["met"] = self.met
        return told | ({"note": self.note} if self.note else {})


def machine(directory: Path) -> dict[str, Any]:
    """What the figures depend on: interpreter, SQLite, processors, load, and how long this disk takes to fsync."""
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "load": load(),
        "fsync_us": round(_fsync_us(directory), 1),
    }


def load() -> float:
    """How many processes want the processor, the last minute's average."""
    return round(os.getloadavg()[0], 2)


def _fsync_us(directory: Path) -> float:
    """Median time of writing and syncing one page in place, as a recycled log does."""
    path = directory / "fsync.probe"
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(handle, bytes(PAGE * FSYNCS), 0)
        os.fsync(handle)
        taken = [_one_fsync(handle, number) for number in range(FSYNCS)]
    finally:
        os.close(handle)
        path.unlink()
    return statistics.median(taken) * 1e6


def _one_fsync(handle: int, number: int) -> float:
    began = time.perf_counter()
    os.pwrite(handle, b"\x01" * PAGE, PAGE * number)
    os.fsync(handle)
    return time.perf_counter() - began


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which this part (0 to 1) of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def peak_kib() -> float:
    """The most memory this process has held. Linux counts the parent's into ``ru_maxrss``, so it is asked otherwise."""
    import resource

    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
