"""Numbers as JSON text: ECMAScript form for floats, exact form for integers of any allowed size (RFC 8785, FORMAT 2)."""

from __future__ import annotations

import math
from typing import Final

from counterfoil.core.limits import INTEGER_DIGITS_MAX

# The interpreter's own limit on int/str conversion may be set as low as 640 digits; longer integers go in two
# halves, each below it.
_DIRECT_DIGITS: Final = 600
_HALF_DIGITS: Final = 500
_DIRECT_BOUND: Final = 10**_DIRECT_DIGITS
_HALF: Final = 10**_HALF_DIGITS
INTEGER_BOUND: Final = 10**INTEGER_DIGITS_MAX
"""The first magnitude that has too many digits."""


_EXACT_BELOW: Final = 1e15
"""Whole floats below it have at most 15 digits, all of which are theirs."""


def integer_text(value: int) -> str:
    """All digits of an integer below :data:`INTEGER_BOUND`, whatever the interpreter's own conversion limit."""
    if -_DIRECT_BOUND < value < _DIRECT_BOUND:
        return str(int(value))
    high, low = divmod(abs(value), _HALF)
    return f"{'-' if value < 0 else ''}{high}{low:0{_HALF_DIGITS}d}"


def integer_value(text: str) -> int:
    """The integer behind at most 1,000 digits with an optional minus sign."""
    if len(text) <= _DIRECT_DIGITS:
        return int(text)
    digits = text.removeprefix("-")
    value = int(digits[:-_HALF_DIGITS]) * _HALF + int(digits[-_HALF_DIGITS:])
    return -value if text.startswith("-") else value


def float_text(value: float) -> str:
    """ECMAScript's Number::toString for a finite float: ``1``, ``1e-7``, ``1e+21``, ``0`` for minus zero."""
    if not math.isfinite(value):
        raise ValueError("a float that is not a number or infinite has no JSON text")
    if -_EXACT_BELOW < value < _EXACT_BELOW and value.is_integer():
        return str(int(value))
    sign = "-" if value < 0 else ""
    digits, point = _shortest(abs(value))
    count = len(digits)
    if count <= point <= 21:
        return f"{sign}{digits}{'0' * (point - count)}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    exponent = point - 1
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{sign}{mantissa}e{'+' if exponent > 0 else '-'}{abs(exponent)}"


def _shortest(value: float) -> tuple[str, int]:
    """The fewest digits that read back as ``value``, and where the point stands: value = 0.DIGITS × 10^point."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole) - (len(whole + fraction) - len(digits))
    return digits.rstrip("0"), leading + int(exponent or 0)
