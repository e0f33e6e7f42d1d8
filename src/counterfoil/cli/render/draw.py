"""Rows of a timeline as lines: a gutter with sequence and time, then the row, in the width that there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from counterfoil.cli.render.card import PERFORATION, card, command_lines
from counterfoil.cli.render.line import Line, Span, clip, cut, width, wrap, wrap_spans
from counterfoil.cli.render.marks import text_lines
from counterfoil.cli.render.model import AnyRow, Fold, Gap, Note, Pair, Timeline
from counterfoil.cli.render.times import clock, day, duration

GUTTER: Final = 21
"""Cells before a row: sequence, time, glyph."""

TITLE: Final = 14
ROWS_MAX: Final = 2
"""Lines of a row that is no doubt and no failure."""

CARD_BESIDE: Final = 76
"""From this width on a pair stands beside its sequence and time, below them in a narrower terminal."""

CARD_MIN: Final = 46
TOOK_FROM: Final = 110
"""From this width on, how long a step took stands in a column of its own at the right."""


def timeline_lines(timeline: Timeline, columns: int, now_ms: int, *, full: bool = False) -> Iterator[Line]:
    """The rows as lines. ``full`` writes out what was said; without it a row says it in two lines."""
    date = ""
    for row in timeline.rows:
        if not isinstance(row, Gap) and day(row.time_ms) != date:
            date = day(row.time_ms)
            yield Line(Span(f"{'':>7}{date} UTC", "quiet"))
        yield from _row(row, columns, now_ms, full)


def _row(row: AnyRow, columns: int, now_ms: int, full: bool) -> Iterable[Line]:
    match row:
        case Note():
            return _note(row, columns, full)
        case Pair():
            return _pair(row, columns, now_ms)
        case Fold():
            return _fold(row)
        case Gap():
            return [Line(" " * (GUTTER - 2), Span(f"┆ {duration(row.length_ms)} {row.words}", "wait"))]
        case _:
            assert_never(row)


def _gutter(sequence: int, time_ms: int, glyph: Span) -> Line:
    return Line(Span(f"{sequence:>6}", "quiet"), f" {clock(time_ms)} ", glyph).pad(GUTTER)


# ---- one-line rows ---------------------------------------------------------------------------------------------------


def _note(note: Note, columns: int, full: bool) -> Iterator[Line]:
    head = _gutter(note.sequence, note.time_ms, Span(note.glyph, note.style))
    title = Line(Span(cut(note.title, 40), note.style))
    took = duration(note.took_ms) if note.took_ms is not None else ""
    beside = took if columns >= TOOK_FROM else ""
    room = columns - GUTTER - (11 if beside else 0)
    first = title.pad(TITLE + 1) if title.width <= TITLE else title + "  "
    lines = _fitting(note, "" if beside else took, first, room, full)
    for number, line in enumerate(lines):
        if number == 0:
            yield (
                (head + line).pad(columns - width(beside)) + Span(beside, "quiet") if beside else head + line
            )
        else:
            yield Line(" " * GUTTER, line)
    if full and note.text:
        yield from _said(note.text, columns)
    elif note.quote:
        yield Line(
            " " * (GUTTER + TITLE + 1),
            Span("“", "quiet"),
            cut(note.quote, room - TITLE - 3),
            Span("”", "quiet"),
        )
    for below in note.below:
        for piece in wrap(below.text, columns - GUTTER - 2):
            yield Line(" " * GUTTER, Span(piece, below.style))


def _fitting(note: Note, took: str, first: Line, room: int, full: bool) -> list[Line]:
    """The lines of a row: whole if they fit, else without asides, else cut; how it ended is never cut."""
    asides = [*([Span(took, "quiet")] if took else []), *note.aside]
    end = [] if note.outcome is None else [Span(f"{PERFORATION} ", "quiet"), note.outcome]
    while True:
        lines = _flow(first, _ending(_joined([*note.detail, *asides]), end), room)
        if full or len(lines) <= ROWS_MAX:
            return lines
        if not asides:
            break
        asides.pop()
    closing = Line(*end)
    main = _flow(first, _joined(note.detail), room)[:ROWS_MAX]
    if closing.width:
        main[-1] = _ended(main[-1], room - closing.width - 1) + " " + closing
    else:
        main[-1] = _ended(main[-1], room)
    return main


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The spans parted by dots."""
    parts: list[Span] = []
    for span in spans:
        if span.text:
            parts += [Span(" · ", "quiet"), span] if parts else [span]
    return parts


def _ending(parts: list[Span], end: list[Span]) -> list[Span]:
    return [*parts, Span(" "), *end] if parts and end else [*parts, *end]


def _flow(first: Line, parts: list[Span], room: int) -> list[Line]:
    """The first line beginning with the title, the others under the detail."""
    indent = first.width if first.width <= room // 2 else 4
    if first.width + 12 > room:
        return [first.rstrip(), *(Line("    ", line) for line in wrap_spans(parts, room - 4))]
    if not parts:
        return [first.rstrip()]
    wrapped = wrap_spans(parts, room - max(first.width, indent))
    return [first + wrapped[0], *(Line(" " * indent, line) for line in wrapped[1:])]


def _ended(line: Line, room: int) -> Line:
    """A line that says that more would follow."""
    spans, left = [], room - 1
    for span in line.spans:
        if left <= 0:
            break
        text = clip(span.text, left)
        spans.append(Span(text, span.style))
        left -= width(text)
    return Line(*spans).rstrip() + "…"


def _said(text: str, columns: int) -> Iterator[Line]:
    for line in text_lines(text):
        for piece in wrap(line, columns - GUTTER - 2):
            yield Line(" " * GUTTER, Span("│ ", "quiet"), piece)


# ---- pairs -----------------------------------------------------------------------------------------------------------


def _pair(pair: Pair, columns: int, now_ms: int) -> Iterator[Line]:
    glyph = Span("◆", "doubt") if pair.doubt is not None else Span("◧")
    head = _gutter(pair.sequence, pair.time_ms, glyph)
    if columns < CARD_BESIDE and not pair.small:
        yield head.rstrip()
        yield from (Line("  ", line) for line in card(pair, max(columns - 2, CARD_MIN), now_ms))
        yield from _commands(pair, columns)
        return
    if pair.small:
        assert pair.cheque is not None
        yield from _small(pair, head, columns)
        return
    for number, line in enumerate(card(pair, columns - GUTTER, now_ms)):
        yield (head if number == 0 else Line(" " * GUTTER)) + line
    yield from _commands(pair, columns)


def _commands(pair: Pair, columns: int) -> Iterator[Line]:
    """What leads out of a doubt: under the pair, or further left where that leaves it whole."""
    commands = pair.doubt.commands if pair.doubt is not None else []
    indent = GUTTER if all(width(command) + GUTTER + 4 <= columns for command in commands) else 2
    for command in commands:
        yield from (Line(" " * indent, line) for line in command_lines(command, columns - indent))


def _small(pair: Pair, head: Line, columns: int) -> Iterator[Line]:
    assert pair.cheque is not None
    cheque = pair.cheque
    said = f"{cheque.glyph} {cheque.word.lower()}"
    took = cheque.by.removeprefix("in ")
    arguments = ", ".join(value.text for _, value in pair.stub.fields)
    room = columns - GUTTER - width(pair.stub.tool) - width(said) - width(took) - 8
    yield Line(
        head,
        Span(pair.stub.tool, "strong"),
        f" {cut(arguments, max(room, 8))} " if arguments else " ",
        Span(f"{PERFORATION} "),
        Span(said, cheque.style),
        Span(f" · {took}" if took else "", "quiet"),
    )


# ---- folds -----------------------------------------------------------------------------------------------------------


def _fold(fold: Fold) -> Iterator[Line]:
    first = fold.first
    glyph = first.glyph if isinstance(first, Note) else "◧"
    head = _gutter(fold.sequence, fold.time_ms, Span(glyph))
    if isinstance(first, Note):
        outcome = first.outcome or Span("")
        name = (
            first.title
            if first.outcome is not None
            else " ".join([first.title, *(s.text for s in first.detail[:1])])
        )
    else:
        assert first.cheque is not None
        name, outcome = (
            first.stub.tool,
            Span(f"{first.cheque.glyph} {first.cheque.word.lower()}", first.cheque.style),
        )
    said = Line(Span(name, "strong" if isinstance(first, Pair) else "plain"), f" × {fold.count}")
    if outcome.text:
        said = said + f" {PERFORATION} all " + outcome
    yield Line(head, said, Span(f" · {fold.sequence} to {fold.last}", "quiet"))
