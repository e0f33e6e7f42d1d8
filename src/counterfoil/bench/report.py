"""The result of a benchmark run: an object for programs, a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.bench.figures import Figure


def to_json(
    figures: Sequence[Figure], machine: Mapping[str, Any], *, quick: bool, seconds: float
) -> dict[str, Any]:
    """Everything that was measured; ``missed`` names the figures that break their budget."""
    return {
        "machine": dict(machine),
        "quick": quick,
        "seconds": round(seconds, 1),
        "missed": [figure.name for figure in figures if not figure.met],
        "figures": [figure.to_json() for figure in figures],
    }


def show(figures: Sequence[Figure], machine: Mapping[str, Any], *, quick: bool, seconds: float) -> None:
    """Print the table. Each line says in words whether its budget is kept, so that no colour is needed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("figure", no_wrap=True)
    table.add_column("what", no_wrap=True)
    for name in ("measured", "budget"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for figure in figures:
        verdict = (
            Text("") if figure.budget is None else Text("kept") if figure.met else Text("MISSED", "bold red")
        )
        limit = "" if figure.budget is None else str(figure.budget)
        table.add_row(figure.name, figure.what, shown(figure), limit, verdict)
    console.print(table)
    console.print()
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()))
    console.print(_last_line(figures, seconds))
    if quick:
        console.print(
            "Quick figures come from a few short rounds: they are rough, and a missed budget may be chance."
        )


def _last_line(figures: Sequence[Figure], seconds: float) -> str:
    held = [figure for figure in figures if figure.budget is not None]
    missed = [figure.name for figure in held if not figure.met]
    verdict = f"missed: {', '.join(missed)}" if missed else "all kept"
    return f"{len(held)} budgets, {verdict}; {seconds:.0f} s"


def shown(figure: Figure) -> str:
    """The value with as many digits as mean something, and its unit."""
    value = figure.value
    text = (
        f"{value:,.0f}"
        if value >= 100 or value == int(value)
        else f"{value:.2f}"
        if value < 10
        else f"{value:.1f}"
    )
    return f"{text} {figure.unit}".strip()
