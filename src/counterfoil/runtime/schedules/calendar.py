"""Calendar expressions: five fields of cron in an IANA time zone, and the instants they name (ADR 0026).

``minute hour day-of-month month day-of-week``, each ``*``, numbers, ranges ``a-b``, lists ``a,b`` and steps ``*/n`` or
``a-b/n``; months and weekdays also by their first three letters, 0 and 7 are Sunday. Where both days are restricted
either is enough, as in cron. What a change of clocks does:

- a local time that is left out is due at the first instant after the change, once;
- a local time that comes twice is due the first time;
- unless the hour is ``*``: then it is about the passing of time, and every instant that has such a minute is due.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from counterfoil.errors import InvalidForm

YEARS_MAX: Final = 12
"""How far an expression is looked along: leap days are at most eight years apart."""

EXPRESSION_CHARACTERS_MAX: Final = 200

_FIRST_DAY: Final = date.min.toordinal() + 2
_LAST_DAY: Final = date.max.toordinal() - 2
"""A day further out may lie outside of all years in another zone."""

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    ("minute", 0, 59, (), 0),
    ("hour", 0, 23, (), 0),
    ("day of the month", 1, 31, (), 0),
    ("month", 1, 12, _MONTHS, 1),
    ("day of the week", 0, 7, _WEEKDAYS, 0),
)
_DAY: Final = timedelta(days=1)


class Calendar(Struct, frozen=True):
    """A parsed expression: which values each field may have, and the zone it is meant in."""

    expression: str
    zone: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    every_hour: bool
    either_day: bool

    def after(self, instant_ms: int) -> int | None:
        """The first due instant after this one, in milliseconds; None when there is none in many years."""
        for day in _days(_local_date(self.zone, instant_ms), -_DAY, _DAY):
            due = next((ms for ms in _instants_on(self, day) if ms > instant_ms), None)
            if due is not None:
                return due
        return None

    def until(self, instant_ms: int) -> int | None:
        """The last due instant up to this one, in milliseconds."""
        for day in _days(_local_date(self.zone, instant_ms), _DAY, -_DAY):
            due = next((ms for ms in reversed(_instants_on(self, day)) if ms <= instant_ms), None)
            if due is not None:
                return due
        return None

    def names(self, day: date) -> bool:
        """Whether the expression names this day of its zone."""
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (of_month or of_week) if self.either_day else (of_month and of_week)


def _days(near: date, first: timedelta, step: timedelta) -> Iterator[date]:
    """The days to look along, as far as a calendar has days in every zone."""
    begin = near.toordinal() + first.days
    for number in range(begin, begin + YEARS_MAX * 366 * step.days, step.days):
        if _FIRST_DAY <= number <= _LAST_DAY:
            yield date.fromordinal(number)


@lru_cache(maxsize=64)
def _instants_on(calendar: Calendar, day: date) -> tuple[int, ...]:
    """The due instants of one local day, in order: a day of a thousand minutes is worked out once."""
    if not calendar.names(day):
        return ()
    zone = zone_of(calendar.zone)
    found: set[int] = set()
    for hour in calendar.hours:
        for minute in calendar.minutes:
            local = datetime.combine(day, time(hour, minute))
            found.update(_instants_of(local, zone, every=calendar.every_hour))
    return tuple(sorted(found))


@lru_cache(maxsize=256)
def parse(expression: str, zone: str) -> Calendar:
    """Read an expression in a zone. Raises ``InvalidForm`` saying which field is wrong, or that it names no day ever."""
    fields = expression.split()
    if len(expression) > EXPRESSION_CHARACTERS_MAX or len(fields) != len(_FIELDS):
        raise _refused(
            "an expression has five fields: minute, hour, day of the month, month, day of the week"
        )
    minutes, hours, days, months, weekdays = map(_field, fields, _FIELDS)
    zone_of(zone)
    calendar = Calendar(
        " ".join(fields),
        zone,
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        days,
        months,
        frozenset(day % 7 for day in weekdays),
        every_hour=fields[1] == "*",
        either_day=not (fields[2].startswith("*") or fields[4].startswith("*")),
    )
    if not any(_has_day(calendar, month) for month in months) and not calendar.either_day:
        raise _refused("no month has such a day")
    return calendar


_NO_ZONES: Final = ("localtime", "posixrules", "right/")
"""Files beside the zones that are none: this machine's own time, and clocks that count leap seconds."""


def zone_of(name: str) -> tzinfo:
    """An IANA time zone. Raises ``InvalidForm`` where the system has none of this name, or it means no one zone."""
    if name == "UTC":
        return UTC
    try:
        if name.startswith(_NO_ZONES):
            raise ValueError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as unknown:
        raise InvalidForm(
            "there is no time zone of this name here",
            hint='write it as "Europe/Berlin"; systems without time zones need the package tzdata',
            argument="zone",
        ) from unknown


def _has_day(calendar: Calendar, month: int) -> bool:
    longest = 29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31
    return any(day <= longest for day in calendar.days)


def _field(text: str, field: tuple[str, int, int, tuple[str, ...], int]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        found.update(_part(part, *field))
    return frozenset(found)


def _part(part: str, name: str, least: int, most: int, names: tuple[str, ...], first: int) -> range:
    span, slash, every = part.partition("/")
    step = _number(every, name, (), 0) if slash else 1
    if span == "*":
        low, high = least, most
    else:
        begin, dash, end = span.partition("-")
        low = _number(begin, name, names, first)
        high = _number(end, name, names, first) if dash else (most if slash else low)
    if not (least <= low <= high <= most and 1 <= step <= most):
        raise _refused(f"the {name} is from {least} to {most}, a range goes upwards, and a step is 1 or more")
    return range(low, high + 1, step)


def _number(text: str, name: str, names: tuple[str, ...], first: int) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + first
    if not (text.isascii() and text.isdigit() and len(text) <= 2):
        raise _refused(f"the {name} has a part that is neither a number nor a name")
    return int(text)


def _refused(why: str) -> InvalidForm:
    return InvalidForm(
        f"this is no calendar expression: {why}",
        hint='"30 8 * * mon-fri" is half past eight on working days',
        argument="calendar",
    )


# ---- local times ---------------------------------------------------------------------------------------------------


def _local_date(zone: str, instant_ms: int) -> date:
    try:
        return datetime.fromtimestamp(instant_ms / 1000, zone_of(zone)).date()
    except OverflowError:  # in this zone it is the year before the first, or after the last
        return date.min if instant_ms < 0 else date.max


def _instants_of(local: datetime, zone: tzinfo, *, every: bool) -> Iterator[int]:
    """The instants of a local time: one as a rule, two where clocks go back, none of its own where they go forward."""
    first = local.replace(tzinfo=zone).astimezone(UTC)
    second = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) == local:
        yield _ms(first)
        if every and second != first:
            yield _ms(second)
    elif not every:
        yield _ms(_change_between(second, first, zone))


def _change_between(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The first second of the new offset, between two instants that lie on either side of the change."""
    new = after.astimezone(zone).utcoffset()
    low, high = 0, round((after - before).total_seconds())
    while low < high:
        middle = (low + high) // 2
        if (before + timedelta(seconds=middle)).astimezone(zone).utcoffset() == new:
            high = middle
        else:
            low = middle + 1
    return before + timedelta(seconds=low)


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
