"""A pair drawn as a cheque with its stub: intention left, perforation, observation right; in doubt the right is missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from counterfoil.cli.render.line import Line, Span, Style, width, wrap
from counterfoil.cli.render.model import Cheque, Doubt, Pair, Stub
from counterfoil.cli.render.times import clock, duration

STUB_SHARE: Final = 0.44
STUB_MIN: Final = 24
CARD_MAX: Final = 96
HATCH: Final = "\u2571"
"""A slanting line: the hatching of a torn-off half."""

PERFORATION: Final = "┊"


def card(pair: Pair, room: int, now_ms: int) -> list[Line]:
    """The pair in at most ``room`` cells (60 and more look well)."""
    room = min(room, CARD_MAX)
    left = max(STUB_MIN, round(room * STUB_SHARE))
    right = room - left - 1
    stub = _stub(pair.stub, left - 3)
    if pair.doubt is not None:
        body = _doubt(pair.doubt, right - 3)
        if pair.cheque is not None:
            body += [Line(), *_cheque(pair.cheque, [], right - 3)]
        return _torn(pair, stub, body, left, right, now_ms)
    if pair.cheque is not None:
        return _whole(pair, stub, _cheque(pair.cheque, pair.story, right - 3), left, right)
    return _open(stub, [Line(Span(f"… {pair.under_way or 'no observation yet'}", "quiet"))], left)


def _stub(stub: Stub, room: int) -> list[Line]:
    lines = [Line(Span(piece, "strong")) for piece in wrap(stub.tool, room)]
    if stub.version:
        version = Span(stub.version, "quiet")
        if len(lines) == 1 and lines[0].width + 1 + width(stub.version) <= room:
            lines[0] = lines[0] + " " + version
        else:
            lines += [Line(Span(piece, "quiet")) for piece in wrap(stub.version, room)]
    facts = [*stub.fields]
    if stub.key is not None:
        facts.append(("key", stub.key))
    lines += _facts(facts, room, rows_max=4)
    if stub.attempt > 1:
        lines.append(Line(f"attempt {stub.attempt}"))
    if stub.rule:
        lines += [Line(Span(piece, "quiet")) for piece in wrap(f"if in doubt: {stub.rule}", room)]
    return lines


def _facts(facts: list[tuple[str, Span]], room: int, rows_max: int = 100) -> list[Line]:
    """Names in a column, values beside them; a value keeps to ``rows_max`` rows, the last ending with ``…``."""
    if not facts:
        return []
    column = min(max(width(name) for name, _ in facts), 14, room // 2)
    lines: list[Line] = []
    for name, value in facts:
        pieces = wrap(value.text, room - column - 1)
        if len(pieces) > rows_max:
            pieces = [*pieces[: rows_max - 1], pieces[rows_max - 1][: room - column - 2] + "…"]
        names = wrap(name, column) if name else [""]
        for label, piece in zip_longest(names, pieces, fillvalue=""):
            lines.append(Line(Line(Span(label, "quiet")).pad(column + 1), Span(piece, value.style)))
    return lines


def _cheque(cheque: Cheque, story: list[str], room: int) -> list[Line]:
    lines = _facts(cheque.facts, room, rows_max=4)
    for told in story:
        for number, piece in enumerate(wrap(told, room - 2)):
            lines.append(Line(Span("· " if number == 0 else "  ", "quiet"), piece))
    return lines


def _doubt(doubt: Doubt, room: int) -> list[Line]:
    """Every word of it, whatever the width."""
    lines = [Line(piece) for known in doubt.known for piece in wrap(known, room)]
    lines += [Line(Span(piece, "strong")) for piece in (wrap(doubt.verdict, room) if doubt.verdict else [])]
    return lines + [Line(piece) for piece in wrap(doubt.decides, room)]


# ---- frames ----------------------------------------------------------------------------------------------------------


def _whole(pair: Pair, stub: list[Line], body: list[Line], left: int, right: int) -> list[Line]:
    assert pair.cheque is not None
    cheque = pair.cheque
    head = Line(" ", Span(f"{cheque.glyph} {cheque.word}", cheque.style))
    by = Line(f" {cheque.by}") if cheque.by else Line()
    told = f" {clock(cheque.time_ms)} {cheque.sequence} "
    if head.width + by.width + width(told) + 3 > right:
        # What does not fit into the frame stands inside it: nothing of an outcome is cut.
        body = [Line(piece) for piece in wrap(cheque.by, right - 3)] + body if cheque.by else body
        by = Line()
    title = head + by + " "
    fill = right - 2 - title.width - width(told)
    if fill < 1:
        told, fill = "", right - 1 - title.width
    rule = Span("─" * max(fill, 0), "quiet")
    top = title + rule + Span(told + ("─" if told else ""), "quiet")
    lines = [_top(left, "quiet") + top + Span("┐", "quiet")]
    lines += [row.pad(left + right) + Span("│", "quiet") for row in _beside(stub, body, left, "quiet")]
    lines.append(_bottom(left, "quiet") + Span("─" * (right - 1) + "┘", "quiet"))
    return lines


def _torn(pair: Pair, stub: list[Line], body: list[Line], left: int, right: int, now_ms: int) -> list[Line]:
    """The right half is missing; what is there instead is the doubt, hatched."""
    assert pair.doubt is not None
    head = f" ◆? {pair.doubt.word} for {duration(now_ms - pair.doubt.since_ms)} "
    hatch = Span(HATCH * max(right - width(head), 0), "doubt")
    lines = [_top(left, "doubt") + Span(head, "doubt_bar") + hatch]
    lines += list(_beside(stub, body, left, "doubt", Span(HATCH, "doubt")))
    lines.append(_bottom(left, "doubt") + Span(HATCH * right, "doubt"))
    return lines


def _open(stub: list[Line], body: list[Line], left: int) -> list[Line]:
    """A call that is under way: the right half is open, and nobody need do anything."""
    return [_top(left, "quiet"), *_beside(stub, body, left, "quiet"), _bottom(left, "quiet")]


def _top(left: int, style: Style) -> Line:
    return Line(Span("┌ ", style), "INTENDED ", Span("─" * (left - 11) + PERFORATION, style))


def _bottom(left: int, style: Style) -> Line:
    return Line(Span("└" + "─" * (left - 1) + PERFORATION, style))


def _beside(
    stub: list[Line], body: list[Line], left: int, style: Style, edge: Span | None = None
) -> Iterator[Line]:
    """Stub and cheque, line by line, with the perforation between them."""
    for one, other in zip_longest(stub, body, fillvalue=Line()):
        line = Line(Span("│", style), " ", one).pad(left) + Span(PERFORATION, style)
        yield line + (edge or "") + " " + other


# ---- commands --------------------------------------------------------------------------------------------------------


def command_lines(command: str, room: int) -> list[Line]:
    """A command line to copy; one that is too long is broken before an option, as a shell allows."""
    pieces, line = [], ""
    for part in command.replace(" --", "\0--").split("\0"):
        if line and width(line) + width(part) + 7 > room:
            pieces.append(line)
            line = part
        else:
            line = f"{line} {part}" if line else part
    pieces.append(line)
    last = len(pieces) - 1
    return [
        Line(
            Span("  ▶ " if number == 0 else "      ", "doubt"),
            Span(piece, "strong"),
            " \\" if number < last else "",
        )
        for number, piece in enumerate(pieces)
    ]
