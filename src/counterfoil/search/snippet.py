"""What stood around a match, as it was written, with the places of what was looked for."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from counterfoil.search.text import fold

BEFORE: Final = 48
CHARACTERS_MAX: Final = 240
CHUNK: Final = 4096
MARKS_MAX: Final = 16


class Snippet(Struct, frozen=True):
    """A stretch of one value, at most 240 characters; ``marks`` are (start, end) of matches in it, in order.

    The text is as hostile as what was recorded: make it safe before it is shown.
    """

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    begins: bool = True
    ends: bool = True
    """Whether the value begins and ends with the stretch."""


def snippet(values: Iterable[str], terms: Sequence[str]) -> Snippet | None:
    """Around the first value that holds one of the folded terms; None where none does."""
    for value in values:
        folded = fold(value)
        places = [(at, term) for term in terms if (at := folded.find(term)) >= 0]
        if places:
            at, term = min(places)
            return _around(value, at, at + len(term), terms)
    return None


def _around(value: str, start: int, end: int, terms: Sequence[str]) -> Snippet:
    first = max(0, written_at(value, start) - (0 if value.isascii() else 1))
    begin = max(0, first - BEFORE)
    stop = min(len(value), begin + CHARACTERS_MAX)
    text = value[begin:stop]
    marks = _marks(text, terms)
    if not marks:
        # The match is longer than the stretch: all of it from there on is match.
        marks = ((min(first - begin, len(text)), min(written_at(value, end) - begin, len(text))),)
    return Snippet(text, marks, begin == 0, stop == len(value))


def _marks(text: str, terms: Sequence[str]) -> tuple[tuple[int, int], ...]:
    folded = fold(text)
    found: list[tuple[int, int]] = []
    for term in terms:
        at = folded.find(term)
        while at >= 0 and len(found) < MARKS_MAX * len(terms):
            found.append((at, at + len(term)))
            at = folded.find(term, at + len(term))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found)[:MARKS_MAX]:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple((_begin(text, start), _end(text, end)) for start, end in merged)


def _begin(text: str, folded_at: int) -> int:
    """Where the character that stands at a folded place begins: the last one before it that is folded whole."""
    if text.isascii():
        return folded_at
    at = written_at(text, folded_at)
    while at < len(text) and len(fold(text[: at + 1])) <= folded_at:
        at += 1
    return at


def _end(text: str, folded_at: int) -> int:
    """Behind the character that ends at a folded place, its combining marks included."""
    at = written_at(text, folded_at)
    while at < len(text) and unicodedata.combining(text[at]) and len(fold(text[: at + 1])) == folded_at:
        at += 1
    return at


def written_at(value: str, folded_at: int) -> int:
    """How many characters of a value have this many folded ones; chunk by chunk, so that a long value is read once."""
    if value.isascii():
        return folded_at
    done = start = 0
    while start + CHUNK < len(value):
        here = len(fold(value[start : start + CHUNK]))
        if done + here >= folded_at:
            break
        done += here
        start += CHUNK
    low, high = 0, min(CHUNK, len(value) - start)
    while low < high:
        middle = (low + high) // 2
        if done + len(fold(value[start : start + middle])) >= folded_at:
            high = middle
        else:
            low = middle + 1
    return start + low
