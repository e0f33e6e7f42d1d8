"""Values of a foreign record as content and back, exactly: numbers keep their text, tags cannot be imitated."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from counterfoil.core.forms import is_decimal
from counterfoil.core.limits import DECIMAL_CHARACTERS_MAX
from counterfoil.core.numerals import float_text
from counterfoil.core.values import register, whole_float_text

NUMBER: Final = "counterfoil.number"
"""The registered name of :class:`Number` in content."""


class Number:
    """A JSON number with point or exponent, as its text was found: ``0.10`` is not ``0.1``."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: str = text

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Number) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Number({self.text!r})"


register(Number, NUMBER, encode=lambda number: number.text, decode=Number)


def to_content(value: Any) -> Any:
    """A value of :mod:`.reader` in the tagged form of FORMAT 2.

    A number stays a JSON number if its float reads back as the same text. Otherwise it is ``$float`` (``40.0``),
    ``$decimal`` (``0.10``) or, in a spelling that neither has (``1e5``), ``$type`` of :class:`Number`.
    An object with a member beginning with ``$`` is ``$literal``, so that a transcript cannot imitate a tag.
    The reader has bounded the nesting, so recursion is safe.
    """
    if type(value) is dict:
        members = {name: to_content(inner) for name, inner in value.items()}
        return {"$literal": members} if any(name.startswith("$") for name in members) else members
    if type(value) is list:
        return [to_content(inner) for inner in value]
    return _tagged(value.text) if type(value) is Number else value


def from_content(value: Any) -> Any:
    """What :func:`to_content` was given."""
    if type(value) is list:
        return [from_content(inner) for inner in value]
    if type(value) is float:
        return Number(float_text(value))
    if type(value) is not dict:
        return value
    if value.keys() == {"$type", "value"}:
        return Number(value["value"])
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name in ("$float", "$decimal"):
            return Number(inner)
        if name == "$literal":
            value = inner
    return {name: from_content(inner) for name, inner in value.items()}


def _tagged(text: str) -> float | dict[str, str]:
    number = float(text)
    if math.isfinite(number):
        if not number.is_integer() and text == float_text(number):
            return number
        if number.is_integer() and text == whole_float_text(number):
            return {"$float": text}
    if text == _decimal_text(text):
        return {"$decimal": text}
    return {"$type": NUMBER, "value": text}


def _decimal_text(text: str) -> str | None:
    try:
        return str(Decimal(text))
    except InvalidOperation:
        return None


def whole(value: object, limit: int) -> int | None:
    """The value if it is an integer from 0 to ``limit``; None for anything else, true and 1.0 included."""
    return value if type(value) is int and 0 <= value <= limit else None


def money(value: object) -> Decimal | None:
    """The exact amount of a number as found, or None if it is none or has no decimal text of FORMAT 1."""
    if type(value) is int:
        text = str(value) if abs(value) < 10**DECIMAL_CHARACTERS_MAX else ""
    elif isinstance(value, Number):
        text = value.text
    else:
        return None
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return None
    # An exponent of a million would be written out as a million digits, so it is looked at first.
    if not amount.is_finite() or abs(amount.adjusted()) >= DECIMAL_CHARACTERS_MAX:
        return None
    return amount if is_decimal(money_text(amount)) else None


def money_text(amount: Decimal) -> str:
    """An amount without exponent, with the digits it was given: ``0.30``."""
    return f"{amount:f}"
