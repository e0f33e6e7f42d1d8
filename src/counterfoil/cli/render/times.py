"""Times and durations for people: UTC with an explicit Z, and lengths in two units at most."""

from __future__ import annotations

from typing import Final

from counterfoil.core.forms import time_text

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def day(time_ms: int) -> str:
    """``2026-09-01``"""
    return time_text(time_ms)[:10]


def clock(time_ms: int) -> str:
    """``14:31:08.4``, of the same length for every row."""
    return time_text(time_ms)[11:21]


def second(time_ms: int) -> str:
    """``14:31:08``"""
    return time_text(time_ms)[11:19]


def moment(time_ms: int) -> str:
    """``2026-09-01 14:31:08Z``"""
    return f"{day(time_ms)} {second(time_ms)}Z"


def duration(length_ms: int) -> str:
    """``212 ms``, ``4.1 s``, ``1 min 10 s``, ``2 h 14 min``, ``3 d 8 h``; a length below zero has a minus."""
    if length_ms < 0:
        return f"−{duration(-length_ms)}"
    if length_ms < 1_000:
        return f"{length_ms} ms" if length_ms else "under 1 ms"
    if length_ms < 10_000:
        return f"{length_ms // 1000}.{length_ms % 1000 // 100} s"
    for place, (size, unit) in enumerate(_UNITS):
        if length_ms >= size:
            whole, rest = divmod(length_ms, size)
            if place == len(_UNITS) - 1:
                return f"{whole} {unit}"
            small_size, small_unit = _UNITS[place + 1]
            small = rest // small_size
            return f"{whole} {unit} {small} {small_unit}" if small else f"{whole} {unit}"
    return f"{length_ms} ms"


def count(number: int) -> str:
    """``40,328``"""
    return f"{number:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """``1 event``, ``2,000 events``"""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
