"""A line of styled text and its width in terminal cells: what every renderer makes, before any terminal is known."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

Style = Literal["plain", "strong", "quiet", "doubt", "doubt_bar", "failure", "good", "wait", "stub"]
"""What a stretch of text means. ``doubt`` is amber and means one thing: a person is needed."""

SGR: Final[dict[Style, str]] = {
    "plain": "",
    "strong": "1",
    "quiet": "2",
    # Amber on dark and on light grounds: black on amber for words; the other one for glyphs and hatching alone.
    "doubt": "1;38;5;172",
    "doubt_bar": "1;30;48;5;214",
    "failure": "31",
    "good": "32",
    "wait": "35",
    "stub": "36",
}
"""How a style looks on a terminal with colour (ECMA-48 SGR). Without colour every line reads the same."""


class Span(Struct, frozen=True):
    """A stretch of text in one style. The text holds no control characters: it went through ``marks``."""

    text: str
    style: Style = "plain"


class Line:
    """One line: spans in order. Lines are values; ``+`` joins them."""

    __slots__ = ("spans",)

    def __init__(self, *parts: str | Span | Line) -> None:
        self.spans: tuple[Span, ...] = tuple(_spans(parts))

    def __add__(self, other: str | Span | Line) -> Line:
        return Line(self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Line) and self.spans == other.spans

    def __hash__(self) -> int:
        return hash(self.spans)

    def __repr__(self) -> str:
        return f"Line({self.text!r})"

    @property
    def text(self) -> str:
        """The line without styles."""
        return "".join(span.text for span in self.spans)

    @property
    def width(self) -> int:
        """Terminal cells."""
        return sum(width(span.text) for span in self.spans)

    def ansi(self) -> str:
        """The line with SGR sequences."""
        return "".join(
            f"\x1b[{SGR[span.style]}m{span.text}\x1b[0m" if SGR[span.style] else span.text
            for span in self.spans
        )

    def rstrip(self) -> Line:
        """The line without spaces at its end."""
        spans = list(self.spans)
        while spans:
            bare = spans[-1].text.rstrip(" ")
            if bare:
                spans[-1] = Span(bare, spans[-1].style)
                break
            spans.pop()
        return Line(*spans)

    def pad(self, cells: int) -> Line:
        """The line filled with spaces up to ``cells``."""
        missing = cells - self.width
        return self + " " * missing if missing > 0 else self


def _spans(parts: Iterable[str | Span | Line]) -> Iterator[Span]:
    for part in parts:
        if isinstance(part, Line):
            yield from part.spans
        elif isinstance(part, Span):
            if part.text:
                yield part
        elif part:
            yield Span(part)


# ---- cells -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def cells(character: str) -> int:
    """Terminal cells of one character: 0 for a combining one, 2 for a wide one."""
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def width(text: str) -> int:
    """Terminal cells of a text without control characters."""
    return len(text) if text.isascii() else sum(map(cells, text))


def cut(text: str, room: int) -> str:
    """The text in at most ``room`` cells; a cut one ends with ``…``. Never used for doubt."""
    if width(text) <= room:
        return text
    return clip(text, room - 1).rstrip(" ") + "…" if room > 0 else ""


def clip(text: str, room: int) -> str:
    """The beginning of the text that fits into ``room`` cells."""
    used = 0
    for place, character in enumerate(text):
        used += cells(character)
        if used > room:
            return text[:place]
    return text


def wrap(text: str, room: int) -> list[str]:
    """The text in lines of at most ``room`` cells, broken at spaces where it can be; nothing is left out."""
    room = max(room, 2)
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        candidate = f"{line} {word}" if line else word
        if width(candidate) <= room:
            line = candidate
            continue
        if line:
            lines.append(line)
        pieces = list(_chop(word, room))
        lines += pieces[:-1]
        line = pieces[-1] if pieces else ""
    return [*lines, line] if line or not lines else lines


def _chop(word: str, room: int) -> Iterator[str]:
    piece, used = "", 0
    for character in word:
        size = cells(character)
        if used + size > room and piece:
            yield piece
            piece, used = "", 0
        piece += character
        used += size
    if piece:
        yield piece


def wrap_spans(parts: Sequence[Span], room: int) -> list[Line]:
    """Styled text in lines of at most ``room`` cells; each span is broken at its spaces like one running text."""
    lines: list[Line] = []
    line = Line()
    for span in parts:
        for number, word in enumerate(span.text.split(" ")):
            gap = " " if number and line.spans else ""
            if line.width + len(gap) + width(word) > room and line.spans:
                lines.append(line.rstrip())
                line, gap = Line(), ""
            for piece in _chop(word, max(room, 2)):
                if line.width + len(gap) + width(piece) > room and line.spans:
                    lines.append(line.rstrip())
                    line, gap = Line(), ""
                line = line + Span(gap + piece, span.style)
                gap = ""
            if not word and gap:
                line = line + gap
    if line.spans or not lines:
        lines.append(line.rstrip())
    return lines
