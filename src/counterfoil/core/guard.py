"""The guard on the input that decides whether orjson's sorted output is the canonical text (FORMAT 2, DESIGN 3)."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

import orjson

from counterfoil.core.limits import NESTING_MAX, VALUES_MAX
from counterfoil.core.numerals import float_text

# Between these magnitudes a float with a fraction has the same digits, without exponent, in ECMAScript and in
# every version of orjson. Whole floats (1.0), minus zero, tiny and huge ones differ; NaN would become null.
_FLOAT_MIN: Final = 1e-4
_FLOAT_MAX: Final = 1e15

_ASTRAL: Final = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
"""First bytes in UTF-8 of the characters beyond U+FFFF; those from U+E000 to U+FFFF begin with 0xEE and 0xEF."""


def is_plain(value: Any) -> bool:
    """Whether ``value`` holds only what orjson writes canonically, apart from the order of members.

    Exact types only (no subclass, tuple, enum or UUID), floats of the harmless kind, nesting within the limit.
    Integers beyond 64 bits, lone surrogates and member names that are not text are left to orjson, which refuses
    them. False also for what has no canonical form at all: the exact encoder then names the reason.
    """
    level: list[Any] = [value]
    for _ in range(NESTING_MAX):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str or kind is int:
                continue
            if kind is dict:
                below += item.values()
            elif kind is list:
                below += item
            elif kind is float:
                if not _is_harmless(item):
                    return False
                continue
            elif kind is bool or item is None:
                continue
            else:
                return False
            if len(below) > VALUES_MAX:
                return False
        if not below:
            return True
        level = below
    return False


def _is_harmless(value: float) -> bool:
    return (_FLOAT_MIN <= value < _FLOAT_MAX or -_FLOAT_MAX < value <= -_FLOAT_MIN) and not value.is_integer()


def spell_floats(value: Any) -> Any:
    """A copy of a value in which each float that orjson writes differently is replaced by its canonical text.

    None when something else than such floats keeps the value from being plain.
    """
    holder = [value]
    level: list[Any] = [holder]
    count = 0
    for _ in range(NESTING_MAX + 1):
        below: list[Any] = []
        for container in level:
            for place, item in container.items() if type(container) is dict else enumerate(container):
                kind = type(item)
                if kind is str or kind is int or kind is bool or item is None:
                    continue
                if kind is dict or kind is list:
                    count += len(item)
                    container[place] = item.copy()
                    below.append(container[place])
                elif kind is float and isfinite(item):
                    if not _is_harmless(item):
                        container[place] = orjson.Fragment(float_text(item).encode())
                else:
                    return None
            if count > VALUES_MAX:
                return None
        if not below:
            return holder[0]
        level = below
    return None


def same_order(value: Any, text: bytes) -> bool:
    """Whether members sorted by UTF-8 bytes, as in ``text``, are sorted by UTF-16 units as well.

    The two orders differ only between a character beyond U+FFFF and one from U+E000 to U+FFFF.
    """
    if not (b"\xee" in text or b"\xef" in text) or not any(map(text.__contains__, _ASTRAL)):
        return True
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        if type(item) is dict:
            if not "".join(item).isascii() and max(map(max, filter(None, item))) > "\uffff":
                return False
            pending += item.values()
        elif type(item) is list:
            pending += item
    return True
