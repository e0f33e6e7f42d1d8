"""What ledger and book came to, for people: what differs first, then what is open, then how much agrees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from counterfoil.cli.render.line import Line, Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import count, plural
from counterfoil.client.reconciling import Reconciled
from counterfoil.reconcile.compare import Finding
from counterfoil.reconcile.decide import DIFFER, OPEN, Kind

SHOWN_MAX: Final = 50
"""Findings of one kind that are listed for people; programs get all."""

LINES_SHOWN_MAX: Final = 4

_KINDS: Final[Mapping[Kind, tuple[str, Style]]] = {
    "booked_twice": ("booked more than once", "failure"),
    "only_in_ledger": ("here and not there", "failure"),
    "only_in_book": ("there and not here", "failure"),
    "amount_differs": ("amounts differ", "failure"),
    "booked_all_the_same": ("not done here, and booked there", "failure"),
    "contradicted": ("contradicted: a person has to say", "doubt"),
    "settles": ("in doubt here, booked there: --settle --by NAME records it", "doubt"),
    "in_doubt": ("in doubt here, and not there: that settles nothing", "doubt"),
    "under_way": ("may be under way", "wait"),
    "matched": ("here and there", "good"),
    "not_done": ("not done, and not there", "good"),
    "erased": ("there; its record here was erased", "quiet"),
    "elsewhere": ("there; here of another tool or another time", "quiet"),
}
"""Each kind with its words, in the order in which they are told."""


def reconciled_lines(report: Reconciled, width: int, option: str) -> Iterator[Line]:
    """The findings by kind, then the counts."""
    for kind, (words, style) in _KINDS.items():
        found = [finding for finding in report.findings if finding.kind == kind]
        if kind in DIFFER | OPEN and found:
            yield Line(Span(words, style), Span(f"  {count(report.counts[kind])}", "quiet"))
            yield from table(_columns(), [_row(finding) for finding in found[:SHOWN_MAX]], width)
            if report.counts[kind] > SHOWN_MAX:
                yield Line(
                    Span(
                        f"  and {plural(report.counts[kind] - SHOWN_MAX, 'more')}: --json lists them", "quiet"
                    )
                )
            yield Line("")
    for kind, (words, style) in _KINDS.items():
        if report.counts[kind]:
            yield Line(f"{count(report.counts[kind]):>9}  ", Span(words, style))
    if report.settled:
        yield Line(
            Span("✓ ", "good"),
            f"{plural(len(report.settled), 'effect')} recorded as succeeded, as the book says",
        )
    read = f"{count(report.entries)} entries of the book"
    left = f", {count(report.not_booked)} left out by their status" if report.not_booked else ""
    yield Line(Span(f"{read}{left} · tool {marked(report.tool)}", "quiet"))
    if report.undecided:
        yield Line(Span(f"counterfoil review ls{option}", "quiet"))


def _columns() -> tuple[Column, ...]:
    return (
        Column("  effect"),
        Column("state", yields=2),
        Column("lines", shrinks=True),
        Column("amount here", "right", yields=3),
        Column("there", "right", yields=4),
        Column("key", shrinks=True, yields=1),
        Column("provider's id", shrinks=True, yields=5),
    )


def _row(finding: Finding) -> list[Line]:
    shown = ", ".join(map(str, finding.lines[:LINES_SHOWN_MAX]))
    more = ", …" if len(finding.lines) > LINES_SHOWN_MAX else ""
    return [
        Line(f"  {finding.effect_id or '–'}"),
        Line(finding.state or "–"),
        Line(f"{shown}{more}" or "–"),
        Line("–" if finding.recorded is None else f"{finding.recorded:f}"),
        Line("–" if finding.booked is None else f"{finding.booked:f}"),
        Line(marked(finding.key or "")),
        Line(marked(finding.provider_id or "")),
    ]
