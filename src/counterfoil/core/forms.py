"""The forms of header values: label, name, event type, decimal, time, digest and tag (FORMAT 1)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, Protocol

from counterfoil.core.limits import DECIMAL_CHARACTERS_MAX, EVENT_TYPE_CHARACTERS_MAX, LABEL_CHARACTERS_MAX
from counterfoil.errors import InvalidForm

_LABEL: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.:/+-]{{0,{LABEL_CHARACTERS_MAX - 1}}}").fullmatch
_HIDDEN: Final = re.compile(r"~[0-9a-f]{16}").fullmatch
_EVENT_TYPE: Final = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*){1,4}").fullmatch
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?").fullmatch
_DIGEST: Final = re.compile(r"[0-9a-f]{64}").fullmatch
_TAG: Final = re.compile(r"[0-9a-f]{32}").fullmatch
_MILLISECONDS: Final = re.compile(r"\.[0-9]{3}Z").fullmatch
_SECOND: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}").fullmatch
_OUTSIDE_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
    r" ?(?:([Zz])|([+-])([0-9]{2})(?::?([0-9]{2}))?)"
).fullmatch

_EPOCH: Final = datetime(1970, 1, 1)
_SECONDS_MIN: Final = int((datetime.min - _EPOCH).total_seconds())
_SECONDS_MAX: Final = int((datetime.max.replace(microsecond=0) - _EPOCH).total_seconds())
_HIDDEN_NAME_DIGITS: Final = 16
TIME_CHARACTERS: Final = 24


class _Keyed(Protocol):
    """What hides a name: the stream's key material."""

    def keyed(self, purpose: str, ids: tuple[str | int, ...], data: bytes) -> bytes: ...


def is_label(text: object) -> bool:
    """A name the application declared: 1 to 128 of ``A-Za-z0-9_.:/+-``, not beginning with punctuation but ``_``."""
    return type(text) is str and _LABEL(text) is not None


def is_name(text: object) -> bool:
    """A label, or ``~`` and 16 hex standing for a name that nobody declared."""
    return type(text) is str and (_LABEL(text) or _HIDDEN(text)) is not None


def is_event_type(text: object) -> bool:
    """Dotted lower-case words, 2 to 5 of them, at most 96 characters: ``effect.intended``."""
    return type(text) is str and len(text) <= EVENT_TYPE_CHARACTERS_MAX and _EVENT_TYPE(text) is not None


def is_decimal(text: object) -> bool:
    """Decimal text without exponent or superfluous zeros in front, at most 40 characters: ``-12.50``."""
    return type(text) is str and len(text) <= DECIMAL_CHARACTERS_MAX and _DECIMAL(text) is not None


def is_digest(text: object) -> bool:
    """64 lower-case hex digits."""
    return type(text) is str and _DIGEST(text) is not None


def is_tag(text: object) -> bool:
    """32 lower-case hex digits."""
    return type(text) is str and _TAG(text) is not None


def is_time(text: object) -> bool:
    """``YYYY-MM-DDTHH:MM:SS.mmmZ``, a real calendar instant in UTC."""
    return (
        type(text) is str
        and len(text) == TIME_CHARACTERS
        and _MILLISECONDS(text, 19) is not None
        and _second_of(text[:19]) is not None
    )


def is_real_second(text: str) -> bool:
    """Whether ``YYYY-MM-DDTHH:MM:SS`` is an instant of the calendar."""
    return _second_of(text) is not None


@lru_cache(maxsize=1024)
def _second_of(text: str) -> int | None:
    """Seconds since the epoch of ``YYYY-MM-DDTHH:MM:SS``, or None; neighbouring events share a second."""
    if _SECOND(text) is None:
        return None
    try:
        return int((datetime.fromisoformat(text) - _EPOCH).total_seconds())
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def _second_text(second: int) -> str:
    if not _SECONDS_MIN <= second <= _SECONDS_MAX:
        raise InvalidForm("a time lies between the years 1 and 9999", hint="check the unit: milliseconds")
    return (_EPOCH + timedelta(seconds=second)).isoformat(timespec="seconds")


def time_text(time_ms: int) -> str:
    """The time of FORMAT 1 for milliseconds since the epoch. Raises InvalidForm outside the years 1 to 9999."""
    second, millisecond = divmod(time_ms, 1000)
    return f"{_second_text(second)}.{millisecond:03d}Z"


def time_ms(text: str) -> int:
    """Milliseconds since the epoch of a time of FORMAT 1. Raises InvalidForm for any other text."""
    if type(text) is str and len(text) == TIME_CHARACTERS and _MILLISECONDS(text, 19) is not None:
        second = _second_of(text[:19])
        if second is not None:
            return second * 1000 + int(text[20:23])
    raise InvalidForm("a time reads YYYY-MM-DDTHH:MM:SS.mmmZ, in UTC, on a real day", hint="see FORMAT 1")


def parse_outside_time(text: str) -> tuple[str, bool]:
    """The time of FORMAT 1 for an ISO 8601 date and time with zone, and whether it is the same instant.

    Finer fractions are cut down to milliseconds and second 60 becomes 59.999; then the second value is False and
    the caller keeps the text as received in content. Raises InvalidForm for text without zone or of another form.
    """
    found = _OUTSIDE_TIME(text)
    if found is None:
        raise InvalidForm(
            "not a date and time with a zone in ISO 8601", hint="write it as 2026-09-01T14:31:08.412+02:00"
        )
    year, month, day, hour, minute, second, fraction, _, sign, zone_hours, zone_minutes = found.groups()
    leap = second == "60"
    digits = "999" if leap else (fraction or "")[:3].ljust(3, "0")
    exact = not leap and not (fraction or "")[3:].strip("0")
    offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0))
    try:
        local = datetime(
            int(year), int(month), int(day), int(hour), int(minute), 59 if leap else int(second or 0)
        )
        instant = local + offset if sign == "-" else local - offset
    except (ValueError, OverflowError):
        raise InvalidForm("no such day or time in the calendar", hint="see FORMAT 1") from None
    if int(zone_hours or 0) > 23 or int(zone_minutes or 0) > 59:
        raise InvalidForm("no such time zone offset", hint="offsets lie between -23:59 and +23:59")
    return f"{instant.isoformat(timespec='seconds')}.{digits}Z", exact


def hidden_name(material: _Keyed, text: str) -> str:
    """``~`` and 16 hex of the keyed name, for a name that nobody declared; the full name goes into content.

    The name is hashed as UTF-8, a lone surrogate as its three bytes.
    """
    digest = material.keyed("name", (), text.encode("utf-8", "surrogatepass"))
    return f"~{digest.hex()[:_HIDDEN_NAME_DIGITS]}"
