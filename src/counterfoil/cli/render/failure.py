"""An error for people: what, code, whether to try again, the way out."""

from __future__ import annotations

from typing import Final

from counterfoil.cli.exits import Failure
from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.marks import text_lines

MESSAGE_CHARACTERS_MAX: Final = 2_000
"""Of a message on a screen. A name in it may be of any length, and its end says as much as its beginning."""

_INDENT = "  "


def failure_lines(failure: Failure, width: int) -> list[Line]:
    """Two to four lines; the first begins with a cross and the message."""
    lines: list[Line] = []
    for text in text_lines(_in_sight(failure.message)):
        for piece in wrap(text, width - 2):
            head: str | Span = _INDENT if lines else Span("✗ ", "failure")
            lines.append(Line(head, Span(piece, "failure")))
    again = "trying again may help" if failure.retryable else "trying again does not help"
    if failure.code == "interrupted":
        again = "starting it again goes on where it stopped"
    lines.append(Line(_INDENT, Span(f"{failure.code} · {again} · exit code {int(failure.exit)}", "quiet")))
    if failure.hint:
        for text in text_lines(_in_sight(failure.hint)):
            lines += [
                Line(_INDENT, Span("→ " if number == 0 else "  ", "quiet"), piece)
                for number, piece in enumerate(wrap(text, width - 4))
            ]
    return lines


def _in_sight(text: str) -> str:
    """The text, or its beginning and its end where it is longer than a screen."""
    left_out = len(text) - MESSAGE_CHARACTERS_MAX
    if left_out <= 0:
        return text
    half = MESSAGE_CHARACTERS_MAX // 2
    return f"{text[:half]} … {left_out:,} characters … {text[-half:]}"
