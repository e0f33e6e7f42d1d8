"""What a check of a ledger's health came to, for people: one line a finding, and what to do below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import GAP, Column, table
from counterfoil.cli.render.times import count, duration
from counterfoil.client.finding import Finding, State

_MARKS: Final[Mapping[State, Span]] = {
    "ok": Span("✓ ", "good"),
    "unknown": Span("? ", "wait"),
    "warn": Span("! ", "wait"),
    "bad": Span("✗ ", "failure"),
}


_MEANS_LEAST: Final = 16


def finding_lines(found: Sequence[Finding], width: int, option: str) -> list[Line]:
    """The table of findings, and then a line for each thing to do."""
    columns = (
        Column("check"),
        Column("value", shrinks=True, least=10),
        Column("", shrinks=True, least=_MEANS_LEAST),
    )
    starts = [(Line(_MARKS[each.state], each.name), _value(each)) for each in found]
    taken = sum(max((cell.width for cell in cells), default=0) + GAP for cells in zip(*starts, strict=True))
    room = max(width - taken, _MEANS_LEAST)
    rows = [row for start, each in zip(starts, found, strict=True) for row in _rows(start, each, room)]
    lines = table(columns, rows, width)
    for each in found:
        if each.do:
            command = option if each.do.startswith("counterfoil ") else ""
            lines.append(Line("  ", Span(f"{each.name}: ", "strong"), f"{marked(each.do)}{command}"))
    return lines


def _rows(start: tuple[Line, Line], finding: Finding, room: int) -> Iterator[tuple[Line, Line, Line]]:
    """A finding on one line where it is well, so that all fit a screen; what is not well is never cut short."""
    means = marked(finding.means)
    first, *others = [means] if finding.state == "ok" else wrap(means, room) or [""]
    yield *start, Line(first)
    for other in others:
        yield Line(), Line(), Line(other)


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
