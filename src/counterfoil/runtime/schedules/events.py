"""The events of schedules as typed constructors: what is public, what is content (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from counterfoil.core.forms import time_text
from counterfoil.runtime.events import Said

CREATED: Final = "schedule.created"
FIRED: Final = "schedule.fired"
CANCELLED: Final = "schedule.cancelled"
TYPES: Final = frozenset({CREATED, FIRED, CANCELLED})


def schedule_created(
    schedule_id: str,
    kind: str,
    due_ms: int,
    period_ms: int | None,
    content: Mapping[str, Any],
    klass: str | None = None,
) -> Said:
    """A schedule begins; ``due_ms`` is its first due time. What it says, and its expression, is content."""
    data: dict[str, Any] = {"schedule_id": schedule_id, "kind": kind, "due_at": time_text(due_ms)}
    return Said(CREATED, data if period_ms is None else data | {"period_ms": period_ms}, content, klass=klass)


def schedule_fired(schedule_id: str, due_ms: int, late_ms: int, next_due_ms: int | None) -> Said:
    """A due time was carried out, so late; without a next one the schedule is over (ADR 0026)."""
    data = {"schedule_id": schedule_id, "due_at": time_text(due_ms), "late_ms": late_ms}
    return Said(FIRED, data if next_due_ms is None else data | {"next_due_at": time_text(next_due_ms)})


def schedule_cancelled(schedule_id: str, due_ms: int) -> Said:
    """The schedule is over before this due time, which is never carried out."""
    return Said(CANCELLED, {"schedule_id": schedule_id, "due_at": time_text(due_ms)})
