"""What a check of a ledger's health came to, for people: one line a finding, and what to do below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import count, duration
from counterfoil.client.finding import Finding, State

_MARKS: Final[Mapping[State, Span]] = {
    "ok": Span("✓ ", "good"),
    "unknown": Span("? ", "wait"),
    "warn": Span("! ", "wait"),
    "bad": Span("✗ ", "failure"),
}


def finding_lines(found: Sequence[Finding], width: int, option: str) -> list[Line]:
    """The table of findings, and then a line for each thing to do."""
    columns = (Column("check"), Column("value", shrinks=True, least=10), Column("", shrinks=True, least=16))
    rows = [[Line(_MARKS[each.state], each.name), _value(each), Line(marked(each.means))] for each in found]
    lines = table(columns, rows, width)
    for each in found:
        if each.do:
            command = option if each.do.startswith("counterfoil ") else ""
            lines.append(Line("  ", Span(f"{each.name}: ", "strong"), f"{marked(each.do)}{command}"))
    return lines


def _value(finding: Finding) -> Line:
    least = "at least " if finding.at_least else ""
    match finding.value, finding.unit:
        case None, _:
            return Line("–")
        case int(number), "ms":
            return Line(least + (duration(number) if number else "0 ms"))
        case int(number), "bytes":
            return Line(least + _size(number))
        case int(number), _:
            return Line(least + count(number))
        case text, _:
            return Line(marked(str(text)))


def _size(number: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number // size} {unit}"
    return f"{number} bytes"
