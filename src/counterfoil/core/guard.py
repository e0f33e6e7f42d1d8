"""The guard on the input that decides whether orjson's sorted output is the canonical text (FORMAT 2, DESIGN 3)."""

from __future__ import annotations

from typing import Any, Final

from counterfoil.core.limits import NESTING_MAX, VALUES_MAX

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
                if (
                    not (_FLOAT_MIN <= item < _FLOAT_MAX or -_FLOAT_MAX < item <= -_FLOAT_MIN)
                    or item.is_integer()
                ):
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
