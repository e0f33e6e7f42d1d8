"""Where a text may be cut so that no character a reader sees is cut in two (Unicode Annex 29, on the safe side)."""

from __future__ import annotations

import unicodedata
from typing import Final

_JOINING: Final = frozenset({"Mn", "Mc", "Me", "Cf"})
"""What belongs to the character before it: marks, variation selectors, joiners, tags."""

_JOINING_LETTERS: Final = frozenset("\u0e33\u0eb3\uff9e\uff9f")
"""Letters by category that the annex counts to the character before them."""

_LEADING_LETTERS: Final = frozenset(
    map(
        chr, (0x0D4E, 0x111C2, 0x111C3, 0x1193F, 0x11941, 0x11A3A, *range(0x11A84, 0x11A8A), 0x11D46, 0x11F02)
    )
)
"""Letters by category that the annex counts to the character after them."""


def cut_text(text: str, characters_max: int) -> str:
    """The longest beginning of at most so many code points that does not end inside a grapheme.

    Where it is not certain that two code points are apart, they are taken for one: a cut may come a little early. A
    text whose first grapheme is longer than that comes to nothing.
    """
    if len(text) <= characters_max:
        return text
    place = characters_max
    while place > 0 and not may_cut(text, place):
        place -= 1
    return text[:place]


def may_cut(text: str, place: int) -> bool:
    """Whether a grapheme surely ends before ``text[place]``."""
    if place <= 0 or place >= len(text):
        return True
    before, after = text[place - 1], text[place]
    if before.isascii() and after.isascii():
        return not (before == "\r" and after == "\n")
    if _joins(after) or _reaches_on(before):
        return False
    if _is_flag_half(before) and _is_flag_half(after):
        return _flag_halves_before(text, place) % 2 == 0
    return not (_is_hangul(before) and _is_hangul_tail(after))


def _joins(character: str) -> bool:
    # Emoji modifiers are symbols by category, and colour the picture before them.
    return (
        unicodedata.category(character) in _JOINING
        or 0x1F3FB <= ord(character) <= 0x1F3FF
        or character in _JOINING_LETTERS
    )


def _reaches_on(character: str) -> bool:
    """Joiners, signs written before their letter (category Cf), and viramas that tie two consonants together."""
    return (
        unicodedata.category(character) == "Cf"
        or unicodedata.combining(character) == 9
        or character in _LEADING_LETTERS
    )


def _is_flag_half(character: str) -> bool:
    return 0x1F1E6 <= ord(character) <= 0x1F1FF


def _flag_halves_before(text: str, place: int) -> int:
    count = 0
    while count < place and _is_flag_half(text[place - 1 - count]):
        count += 1
    return count


def _is_hangul(character: str) -> bool:
    code = ord(character)
    return 0x1100 <= code <= 0x11FF or 0xA960 <= code <= 0xA97C or 0xAC00 <= code <= 0xD7FB


def _is_hangul_tail(character: str) -> bool:
    """Anything of a syllable but a whole one: those only begin a new grapheme."""
    code = ord(character)
    return _is_hangul(character) and not 0xAC00 <= code <= 0xD7A3
