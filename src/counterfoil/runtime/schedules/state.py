"""Where schedules stand, folded from header data alone (DESIGN 2.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.core.forms import time_ms
from counterfoil.runtime.schedules.events import CANCELLED as CANCELLED_TYPE
from counterfoil.runtime.schedules.events import CREATED, TYPES

ACTIVE: Final = "active"
"""It fires at its due time."""
ALARM: Final = "alarm"
"""A run waits for it: nothing is fired, the run goes on."""
AWAKE: Final = "awake"
"""The run that waited for it has gone on."""
ENDED: Final = "ended"
CANCELLED: Final = "cancelled"


class ScheduleState(Struct, frozen=True):
    """Where a schedule stands; ``due_ms`` is the next due time, or the last one it had."""

    schedule_id: str
    state: str
    due_ms: int


def evolve(
    schedules: Mapping[str, ScheduleState], event_type: str, data: Mapping[str, Any], run_id: str | None
) -> Mapping[str, ScheduleState]:
    """The schedules after one more event. Events of other features leave them as they are; needs no content."""
    if event_type not in TYPES:
        return schedules
    schedule_id = data["schedule_id"]
    if event_type == CREATED:
        state = state_of_created(run_id)
        return {**schedules, schedule_id: ScheduleState(schedule_id, state, time_ms(data["due_at"]))}
    known = schedules.get(schedule_id)
    if known is None:
        return schedules
    if event_type == CANCELLED_TYPE:
        return {**schedules, schedule_id: replace(known, state=CANCELLED)}
    due = data.get("next_due_at")
    if due is None:
        return {**schedules, schedule_id: replace(known, state=state_of_last(run_id))}
    return {**schedules, schedule_id: replace(known, due_ms=time_ms(due))}


def state_of_created(run_id: str | None) -> str:
    """A schedule that a run made is the run's own alarm."""
    return ACTIVE if run_id is None else ALARM


def state_of_last(run_id: str | None) -> str:
    """After the last due time."""
    return ENDED if run_id is None else AWAKE
