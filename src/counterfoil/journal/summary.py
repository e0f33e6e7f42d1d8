"""Summaries: a few named values in a row, structural and redacted, at most 240 characters (seed 000, FORMAT 17)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from counterfoil.core.ids import is_id
from counterfoil.journal.grapheme import cut_text

SUMMARY_CHARACTERS_MAX: Final = 240
VALUE_CHARACTERS_MAX: Final = 120
"""Characters of one value from outside, so that a long one does not push out what follows it."""

_APART: Final = str.maketrans({"=": ":", "|": "/", " ": "_"})


class Own(str):
    """A value that this package made (a digest, a word of a closed set) and that is shown as it is."""

    __slots__ = ()


class Said(str):
    """A text from outside, such as a reason; other texts are names."""

    __slots__ = ()


Value = str | int | None
Fields = Mapping[str, Value]


def summary(fields: Fields, *, gap: int = 0) -> str:
    """``name=value`` for each field that is not None, in order; ``gap`` (events lost before this one) comes first.

    Values from outside are redacted, and hold neither spaces nor ``=`` afterwards: none can imitate another field.
    """
    parts = [f"gap={gap}"] if gap else []
    parts += [f"{name}={_shown(value)}" for name, value in fields.items() if value is not None]
    return cut_text(" ".join(parts), SUMMARY_CHARACTERS_MAX)


def with_gap(text: str, gap: int) -> str:
    """A summary that was made before it was known that ``gap`` events are missing in front of it."""
    return cut_text(f"gap={gap} {text}", SUMMARY_CHARACTERS_MAX) if gap else text


def _shown(value: str | int) -> str:
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Own) or is_id(str(value)):
        return str(value)
    if not isinstance(value, Said):
        return shown_name(str(value))
    from counterfoil.journal.redaction import redact

    return _one_word(redact(value))


def shown_name(name: str) -> str:
    """A name from outside as a summary shows it."""
    from counterfoil.journal.redaction import redact_name

    return _one_word(redact_name(name))


def _one_word(shown: str) -> str:
    return cut_text(shown, VALUE_CHARACTERS_MAX).translate(_APART)
