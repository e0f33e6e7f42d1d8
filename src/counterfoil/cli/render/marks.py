"""Hostile text made visible: control, direction and zero-width characters, lone surrogates, piled-up accents."""

from __future__ import annotations

import unicodedata
from typing import Final

_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Characters that draw nothing, steer the terminal or turn the direction of what follows."""

_INVISIBLE: Final = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)  # fillers and joiners that draw nothing
) | frozenset((*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))

_NAMES: Final = {
    **dict(enumerate("NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI".split())),
    **dict(enumerate("DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(), 0x10)),
    0x7F: "DEL",
    0x85: "NEL",
    0x9B: "CSI",
    0xA0: "NBSP",
    0xAD: "SHY",
    0x200B: "ZWSP",
    0x200C: "ZWNJ",
    0x200D: "ZWJ",
    0x200E: "LRM",
    0x200F: "RLM",
    0x202A: "LRE",
    0x202B: "RLE",
    0x202C: "PDF",
    0x202D: "LRO",
    0x202E: "RLO",
    0x2060: "WJ",
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
    0xFEFF: "BOM",
}

_OPEN: Final = "⟨"
_CLOSE: Final = "⟩"
_EMOJI_STYLE: Final = frozenset({0xFE0E, 0xFE0F})

ACCENTS_MAX: Final = 4
"""Combining characters after one another that are drawn; further ones are marked, so that no line grows upwards."""


def marked(text: str) -> str:
    """The text with a mark such as ``⟨ESC⟩`` or ``⟨U+D99C⟩`` for each character that could hide or mislead.

    Nothing else changes, and no text can imitate a mark: the opening bracket itself is marked. Line breaks are marked
    too; split into lines first where they may break.
    """
    if text.isascii() and text.isprintable():
        return text
    out: list[str] = []
    accents = 0
    before = ""
    for character in text:
        accents = accents + 1 if unicodedata.combining(character) else 0
        if accents > ACCENTS_MAX or _hides(character, before):
            out.append(mark(character))
        else:
            out.append(character)
        before = character
    return "".join(out)


def mark(character: str) -> str:
    """The mark of one character."""
    code = ord(character)
    return f"{_OPEN}{_NAMES.get(code) or f'U+{code:04X}'}{_CLOSE}"


def is_marked(text: str) -> bool:
    """Whether :func:`marked` changes the text."""
    return marked(text) != text


def text_lines(text: str) -> list[str]:
    """The lines of a text, each marked. LF and CRLF break lines; every other break is marked where it stands."""
    return [marked(line.removesuffix("\r")) for line in text.split("\n")]


def first_line(text: str) -> tuple[str, int]:
    """The first line that is not blank, marked, and how many more lines with something on them follow."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return marked(text.strip("\n ")), 0
    return marked(lines[0].strip(" \r")), len(lines) - 1


def _hides(character: str, before: str) -> bool:
    if character in {_OPEN, "\xa0"}:
        return True
    code = ord(character)
    if code in _EMOJI_STYLE:
        # Asking for the coloured or the plain picture of a symbol hides nothing; after anything else it does.
        return not before or unicodedata.category(before) not in {"So", "Sm", "Po", "Nd"}
    return code in _INVISIBLE or unicodedata.category(character) in _CATEGORIES
