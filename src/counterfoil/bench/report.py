"""The result of a benchmark run: an object for programs, a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct, field

from counterfoil.bench.figures import Figure
from counterfoil.bench.registry import Benchmark

QUICK = "Quick figures come from a few short rounds: they are rough, and a missed budget may be chance."


class Result(Struct, frozen=True):
    """The figures by benchmark, the machine they were taken on, how long that took, and what could not be measured.

    ``durable`` tells of each peer and of the server which settings make its commits wait for the disk.
    """

    by_benchmark: Mapping[str, Sequence[Figure]]
    machine: Mapping[str, Any]
    quick: bool
    seconds: float
    missing: Sequence[str] = ()
    durable: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    @property
    def figures(self) -> list[Figure]:
        """All of them, in order."""
        return list(chain.from_iterable(self.by_benchmark.values()))

    @property
    def missed(self) -> list[str]:
        """Names of the figures that break their budget."""
        return [figure.name for figure in self.figures if not figure.met]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "machine": dict(self.machine),
            "quick": self.quick,
            "seconds": round(self.seconds, 1),
            "missed": self.missed,
            "not_measured": list(self.missing),
            "durable": [dict(one) for one in self.durable],
            "figures": [figure.to_json() for figure in self.figures],
        }


def show(result: Result, benchmarks: Iterable[Benchmark]) -> None:
    """Print a table. Each line says in words whether its budget is kept, so that no colour is needed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(ratio=1, overflow="fold")
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for benchmark in (one for one in benchmarks if one.name in result.by_benchmark):
        table.add_row(Text(f"{benchmark.name}: {benchmark.title}", "bold"))
        for figure in result.by_benchmark[benchmark.name]:
            style = "" if figure.met else "bold red"
            limit = "" if figure.budget is None else str(figure.budget)
            table.add_row(f"  {figure.what}", shown(figure), limit, Text(verdict(figure), style))
    console.print(table)
    console.print("\n" + ", ".join(f"{name} {value}" for name, value in result.machine.items()))
    for one in result.durable:
        console.print(_durable_line(one))
    for line in result.missing:
        console.print(line)
    console.print(_last_line(result))
    if result.quick:
        console.print(QUICK)


def verdict(figure: Figure) -> str:
    """``kept``, ``MISSED``, or nothing where there is no budget."""
    if figure.budget is None:
        return ""
    return "kept" if figure.met else "MISSED"


def shown(figure: Figure) -> str:
    """The value with as many digits as mean something, and its unit."""
    value = figure.value
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {figure.unit}".strip()


def _durable_line(one: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{name} = {value}" for name, value in one.items() if name not in {"peer", "engine"})
    return f"{one['peer']} on {one['engine']}: {settings}"


def _last_line(result: Result) -> str:
    held = sum(figure.budget is not None for figure in result.figures)
    verdict = f"missed: {', '.join(result.missed)}" if result.missed else "all kept"
    return f"{held} budgets, {verdict}; {result.seconds:.0f} s"
