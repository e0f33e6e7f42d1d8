"""A run that sleeps: it gives its lease and slot up and goes on when the time has come, days later if need be."""

from __future__ import annotations

from typing import Final

from counterfoil.core import canonical
from counterfoil.core.forms import time_ms
from counterfoil.effects.standin import StandIn
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow, NewId, Now, Wait
from counterfoil.runtime.events import Said
from counterfoil.runtime.once import once_flow
from counterfoil.runtime.schedules.events import schedule_created, schedule_fired

IN_PLACE_MS: Final = 2_000
"""A sleep up to this long is waited for in place, under the run's lease; a longer one parks the run."""


def sleep_flow(scope: RunScope, until_ms: int | None, for_ms: int) -> Flow[None]:
    """Go on not before this time, or this long after the first time that the code came here.

    Raises what parks the run where that is longer than a moment.
    """

    def begin() -> Flow[Said]:
        now: int = yield Now()
        schedule_id: str = yield NewId("sch")
        return schedule_created(schedule_id, "once", now + for_ms if until_ms is None else until_ms, None, {})

    told = canonical.encode([until_ms, for_ms])
    asleep = yield from once_flow(scope, "sleep", "sleep", told, begin)
    schedule_id, due_ms = asleep.data["schedule_id"], time_ms(asleep.data["due_at"])

    def wake() -> Flow[Said]:
        now: int = yield Now()
        if scope.part(StandIn).answer is not None:
            # A rehearsal waits for nothing.
            return schedule_fired(schedule_id, due_ms, 0, None)
        if due_ms - now > IN_PLACE_MS:
            raise scope.suspend(
                f"it sleeps until {asleep.data['due_at']}", cause="schedule", waits_for=(schedule_id,)
            )
        if due_ms > now:
            yield Wait((due_ms - now) / 1000)
            now = yield Now()
        return schedule_fired(schedule_id, due_ms, max(0, now - due_ms), None)

    yield from once_flow(scope, "awake", "awake", canonical.encode(schedule_id), wake)
