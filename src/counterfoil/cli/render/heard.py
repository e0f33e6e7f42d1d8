"""What a provider's message came to, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from counterfoil.cli.render.line import Line, Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.effects.callback import Heard

_DONE: Final[Mapping[str, tuple[str, Style, str]]] = {
    "decided": ("✓", "good", "its doubt is ended"),
    "confirmed": ("✓", "good", "it says what was known"),
    "contradicted": ("◆?", "doubt_bar", "it differs from what is recorded: a person is asked"),
    "repeated": ("·", "quiet", "it was heard before; nothing changed"),
    "ignored": ("·", "quiet", "it may be about an older attempt, and says nothing of this one"),
}


def heard_lines(heard: Heard, option: str) -> list[Line]:
    """What it did to the effect, and where to look."""
    glyph, style, words = _DONE[heard.done]
    mark = f" {glyph} " if style == "doubt_bar" else f"{glyph} "
    effect = f"{marked(heard.tool)}  {heard.effect_id}  {heard.state}"
    return [
        Line(Span(mark, style), words),
        Line(f"  {effect}"),
        Line(Span(f"  counterfoil show {heard.effect_id}{option}", "quiet")),
    ]
