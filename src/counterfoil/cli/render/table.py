"""Tables: columns that take the room they need, and give way in a set order where there is too little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from counterfoil.cli.render.line import Line, Span, cut

GAP: Final = 2


class Column(Struct, frozen=True):
    """A column: ``yields`` says how early it is left out in a narrow terminal (0: never); ``shrinks`` may be cut."""

    title: str
    align: Literal["left", "right"] = "left"
    yields: int = 0
    shrinks: bool = False
    least: int = 8


def table(columns: Sequence[Column], rows: Sequence[Sequence[Line]], width: int) -> list[Line]:
    """The rows under their titles. A column that stands in the way is left out whole rather than cut into pieces."""
    kept = list(range(len(columns)))
    while _needed(columns, rows, kept) > width and any(columns[place].yields for place in kept):
        kept.remove(max(kept, key=lambda place: columns[place].yields))
    sizes = _sizes(columns, rows, kept, width)
    titles = [Line(Span(columns[place].title, "quiet")) for place in kept]
    lines = [_line(columns, kept, sizes, titles)]
    lines += [_line(columns, kept, sizes, [row[place] for place in kept]) for row in rows]
    return lines


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[Line]], place: int) -> int:
    return max([len(columns[place].title), *(row[place].width for row in rows)])


def _needed(columns: Sequence[Column], rows: Sequence[Sequence[Line]], kept: Sequence[int]) -> int:
    """The least width these columns can live with."""
    sizes = [_natural(columns, rows, place) for place in kept]
    least = [
        min(size, columns[place].least) if columns[place].shrinks else size
        for place, size in zip(kept, sizes, strict=True)
    ]
    return sum(least) + GAP * (len(kept) - 1)


def _sizes(
    columns: Sequence[Column], rows: Sequence[Sequence[Line]], kept: Sequence[int], width: int
) -> list[int]:
    sizes = [_natural(columns, rows, place) for place in kept]
    over = sum(sizes) + GAP * (len(kept) - 1) - width
    while over > 0:
        can = [
            n for n, place in enumerate(kept) if columns[place].shrinks and sizes[n] > columns[place].least
        ]
        if not can:
            break
        widest = max(can, key=lambda n: sizes[n])
        step = min(over, sizes[widest] - columns[kept[widest]].least)
        sizes[widest] -= step
        over -= step
    return sizes


def _line(
    columns: Sequence[Column], kept: Sequence[int], sizes: Sequence[int], cells: Sequence[Line]
) -> Line:
    line = Line()
    for number, (place, size, cell) in enumerate(zip(kept, sizes, cells, strict=True)):
        shown = _fitted(cell, size)
        gap = " " * (GAP if number else 0)
        blank = " " * (size - shown.width)
        line = line + gap + (Line(blank, shown) if columns[place].align == "right" else shown + blank)
    return line.rstrip()


def _fitted(cell: Line, size: int) -> Line:
    if cell.width <= size:
        return cell
    style = cell.spans[0].style if cell.spans else "plain"
    return Line(Span(cut(cell.text, size), style))
