"""Budgets of a run, for people: what was spent of what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterfoil.cli.render.line import Line, Span, Style, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.runtime.budgets.look import BudgetStanding

_UNITS = {"tokens": "tokens", "calls": "calls", "wall": "s"}


def budget_lines(standings: Sequence[BudgetStanding], width: int) -> list[Line]:
    """One line for each budget; one that stopped the run stands out."""
    lines: list[Line] = []
    for standing in standings:
        unit = _UNITS.get(standing.budget) or marked(standing.currency or "")
        spent = "?" if standing.spent is None else standing.spent
        said = f"budget {standing.budget}: {spent} of {standing.limit} {unit}"
        if standing.spent is None:
            said += ", other currencies were spent and have no sum with it"
        if standing.exceeded:
            said += " · used up, the run was stopped"
        style: Style = "failure" if standing.exceeded else "quiet"
        lines += [Line(Span(piece, style)) for piece in wrap(said, width)]
    return lines


def budget_json(standing: BudgetStanding) -> dict[str, Any]:
    """One budget as it stands."""
    return {name: getattr(standing, name) for name in ("budget", "limit", "spent", "currency", "exceeded")}
