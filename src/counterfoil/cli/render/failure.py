"""An error for people: what, code, whether to try again, the way out."""

from __future__ import annotations

from counterfoil.cli.exits import Failure
from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.marks import text_lines

_INDENT = "  "


def failure_lines(failure: Failure, width: int) -> list[Line]:
    """Two to four lines; the first begins with a cross and the message."""
    lines: list[Line] = []
    for text in text_lines(failure.message):
        for piece in wrap(text, width - 2):
            head: str | Span = _INDENT if lines else Span("✗ ", "failure")
            lines.append(Line(head, Span(piece, "failure")))
    again = "trying again may help" if failure.retryable else "trying again does not help"
    if failure.code == "interrupted":
        again = "starting it again goes on where it stopped"
    lines.append(Line(_INDENT, Span(f"{failure.code} · {again} · exit code {int(failure.exit)}", "quiet")))
    if failure.hint:
        for text in text_lines(failure.hint):
            lines += [
                Line(_INDENT, Span("→ " if number == 0 else "  ", "quiet"), piece)
                for number, piece in enumerate(wrap(text, width - 4))
            ]
    return lines
