"""Timers: what says that the time of a schedule has come (ADR 0175: where timers lie is a capability of the host)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Timer(Protocol):
    """A host's alarm clock for schedules. It says when somebody looks; what is due, the ledger's rows alone decide.

    So it may be late, forget, and ring twice: a due time is fired once, because it stands in one append with the
    input that it brings. What it forgot it is told again, when a worker begins.
    """

    def arm(self, schedule_id: str, due_ms: int) -> None:
        """Ring at this time (milliseconds since 1970, the store's clock); in place of an earlier time of this schedule.

        Called after the schedule is durable, and again when a worker begins. May be called from any thread.
        """
        ...

    def disarm(self, schedule_id: str) -> None:
        """Ring no more for this schedule; for one that is not armed, nothing."""
        ...

    def due(self, now_ms: int) -> Iterable[str]:
        """The schedules that rang and have not been armed since, asked by each pass of a worker."""
        ...
