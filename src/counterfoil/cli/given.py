"""A value given on the command line as JSON: read as strictly and as exactly as the ledger keeps it (FORMAT 2)."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from counterfoil.core.canonical import decode
from counterfoil.core.values import PartRef, from_json
from counterfoil.errors import InputError

HINT: Final = """text needs its quotes: '"re_7Q2M4K"'; exact decimals are tagged: {"$decimal":"1.10"}"""


def json_given(option: str, text: str) -> Any:
    """The value of a JSON text, with the tags of FORMAT 2 (``$decimal``, ``$datetime``, …) taken for what they mean.

    Integers are exact at any size. A number with a fraction becomes a float, as in every JSON reader; one that a
    float cannot hold is refused, since it would silently become another. Raises InputError, so also for a member
    that stands twice.
    """
    try:
        parsed = decode(text.encode("utf-8"))
        json.loads(text, parse_float=_check_float)
        value = from_json(parsed, option)
    except UnicodeEncodeError:
        raise InputError(f"{option} is not UTF-8 text", hint=HINT, argument=option) from None
    except _Inexact as inexact:
        raise InputError(
            f"{option} holds the number {inexact}, which a float cannot hold exactly",
            hint=f'write it as {{"$decimal":"{inexact}"}}, or as text',
            argument=option,
        ) from None
    except InputError as error:
        raise InputError(
            f"{option} is not a value that can be recorded: {error.message}", hint=HINT, argument=option
        ) from error
    if _holds_reference(value):
        raise InputError(f"{option} holds $part, which points into an event", hint=HINT, argument=option)
    return value


class _Inexact(Exception):
    """A number that would become another one."""


def _check_float(text: str) -> float:
    found = float(text)
    try:
        exact = Decimal(text) == Decimal(repr(found))
    except InvalidOperation:
        exact = False
    if not exact:
        raise _Inexact(text)
    return found


def _holds_reference(value: Any) -> bool:
    left = [value]
    while left:
        inner = left.pop()
        if isinstance(inner, PartRef):
            return True
        if isinstance(inner, dict):
            left += [*inner.keys(), *inner.values()]
        elif isinstance(inner, list | tuple | set | frozenset):
            left += inner
    return False


_SPAN: Final = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def time_given(option: str, text: str, now_ms: int) -> datetime:
    """A time with its zone, or a span from now: ``90s``, ``30m``, ``4h``, ``2d``. Raises InputError."""
    span = _SPAN.fullmatch(text)
    try:
        if span is not None:
            ahead = timedelta(seconds=int(span[1]) * _SECONDS[span[2]])
            return datetime.fromtimestamp(now_ms / 1000, UTC) + ahead
        given = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        given = None
    if given is None or given.tzinfo is None:
        raise InputError(
            f"{option} is a time with its zone, or a span from now",
            hint="such as 2026-09-01T12:00Z, 30m, 4h or 2d",
            argument=option,
        )
    return given
