"""The saved figures of a benchmark run as a table in docs/benchmarks.md, and their ratios as a picture beside it.

``./run bench --peers --save benchmarks/figures.json`` saves them, ``./run docs`` draws them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from tools.tree import ROOT

START: Final = "<!-- The figures. Written by `./run docs` from benchmarks/figures.json. -->"
END: Final = "<!-- End of the figures. -->"

COSTS: Final = frozenset({"effect.pair", "postgres.effect"})
"""Ratios that say how much more ours costs, not how fast it is; they stand in the table and not in the picture."""

Told = Mapping[str, Any]


def saved(root: Path = ROOT) -> Told | None:
    """The figures that were saved last, if any were."""
    path = root / "benchmarks" / "figures.json"
    if not path.exists():
        return None
    told: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return told


def figure_pages(root: Path = ROOT) -> dict[Path, str]:
    """The page with its table and the picture, as they should read now; nothing where no figures were saved."""
    told, page = saved(root), root / "docs" / "benchmarks.md"
    if told is None:
        return {}
    return {
        page: with_table(page.read_text("utf-8"), told),
        root / "docs" / "benchmarks.svg": picture(speeds(told)),
    }


def ratios(told: Told) -> list[Told]:
    """The figures that are ratios."""
    return [figure for figure in told["figures"] if figure["unit"] == "×"]


def speeds(told: Told) -> list[Told]:
    """The ratios that say how fast ours is in terms of another."""
    return [figure for figure in ratios(told) if figure["name"] not in COSTS]


# ---- the table -------------------------------------------------------------------------------------------------------


def with_table(text: str, told: Told) -> str:
    """The page with its table as it should be now."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"docs/benchmarks.md has lost the lines around its table:\n{START}\n{END}")
    return "\n".join([before + start, "", *table(told), "", end + after])


def table(told: Told) -> Iterator[str]:
    """What was compared, its ratio, the budget and whether it is kept; then on what it was measured."""
    yield "| figure | what is compared | ratio | budget | |"
    yield "|---|---|---|---|---|"
    for figure in ratios(told):
        cells = (f"`{figure['name']}`", figure["what"], f"{shown(figure['value'])} ×", *_judged(figure))
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield machine_line(told)


def _judged(figure: Told) -> tuple[str, str]:
    if "budget" not in figure:
        return "", ""
    ((way, limit),) = figure["budget"].items()
    return f"{'≥' if way == 'at_least' else '≤'} {limit:g}", "kept" if figure["met"] else "**missed**"


def machine_line(told: Told) -> str:
    """The machine in one paragraph, with its load before and after."""
    machine = told["machine"]
    engines = [one["server_version"] for one in told["durable"] if one["peer"] == "the server"]
    peers = sorted({one["peer"] for one in told["durable"]} - {"the server"})
    words = [
        f"Measured on {machine['processors']} processors, with an fsync of {machine['fsync_us']:.0f} µs, Python {machine['python']}",
        f"SQLite {machine['sqlite']}",
        *(f"PostgreSQL {version.split()[0]}" for version in engines),
        *peers,
    ]
    loads = f"The load was {machine['load']} before and {machine['load_after']} after, {told['seconds']:.0f} seconds later"
    return f"{', '.join(words)}. {loads}{_busy(machine)}."


def _busy(machine: Told) -> str:
    busy = machine["load"] > machine["processors"] / 2
    return ": other work ran beside it, which holds most ratios down" if busy else ""


def shown(value: float) -> str:
    """Three digits at most."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


# ---- the picture -----------------------------------------------------------------------------------------------------

LEFT, WIDTH, ROW, TOP, BOTTOM = 260, 400, 22, 44, 34
"""Pixels: where bars begin, how far they reach, the height of a row, what is above and below all rows."""
LEAST, MOST = 0.1, 32.0
TICKS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32)

STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.grid{stroke:#d0d7de}.one{stroke:#1f2328}"
    ".more{fill:#1a7f64}.less{fill:#8a6d3b}.budget{stroke:#b3261e;stroke-width:2.5}.small{font-size:11px}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}.one{stroke:#e6edf3}"
    ".more{fill:#3fb68b}.less{fill:#c9a26b}.budget{stroke:#ff8a80}}"
)


def across(value: float) -> float:
    """Where a ratio stands on the axis, which is logarithmic: twice as fast is as far from 1 as half as fast."""
    inside = min(max(value, LEAST), MOST)
    return LEFT + WIDTH * math.log(inside / LEAST) / math.log(MOST / LEAST)


def picture(figures: Sequence[Told]) -> str:
    """Bars from 1 to each ratio, with a mark where the budget is. Names are those of the table; values stand beside their bars."""
    height = TOP + ROW * len(figures) + BOTTOM
    width = LEFT + WIDTH + 70
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t d">',
        '<title id="t">How fast Counterfoil is in terms of what is beside it</title>',
        f'<desc id="d">{escape("; ".join(_sentence(figure) for figure in figures))}</desc>',
        f"<style>{STYLE}</style>",
        '<text x="8" y="20">How fast, in terms of what is beside it (× on a logarithmic axis; red: the budget)</text>',
        *_grid(height),
    ]
    for number, figure in enumerate(figures):
        lines += _bar(figure, TOP + ROW * number)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _sentence(figure: Told) -> str:
    return f"{figure['name']} ({figure['what']}): {shown(figure['value'])} times"


def _grid(height: int) -> Iterator[str]:
    for tick in TICKS:
        x, kind = f"{across(tick):.1f}", "one" if tick == 1 else "grid"
        yield f'<line class="{kind}" x1="{x}" x2="{x}" y1="{TOP - 6}" y2="{height - BOTTOM + 4}"/>'
        yield f'<text class="small" text-anchor="middle" x="{x}" y="{height - BOTTOM + 20}">{tick:g}</text>'


def _bar(figure: Told, y: int) -> Iterator[str]:
    value, one = figure["value"], across(1)
    there = across(value)
    begin, length = min(one, there), abs(there - one)
    kind = "more" if value >= 1 else "less"
    yield f'<text text-anchor="end" x="{LEFT - 10}" y="{y + 12}">{escape(figure["name"])}</text>'
    yield f'<rect class="{kind}" x="{begin:.1f}" y="{y + 2}" width="{length:.1f}" height="12"/>'
    budget = figure.get("budget", {}).get("at_least")
    if budget is not None:
        mark = f"{across(budget):.1f}"
        yield f'<line class="budget" x1="{mark}" x2="{mark}" y1="{y - 1}" y2="{y + 17}"/>'
    beyond = max(there, one, across(budget) if budget is not None else 0) + 6
    yield f'<text class="small" x="{beyond:.1f}" y="{y + 12}">{shown(value)}</text>'
