"""The default timer: the table of schedules itself, so nothing is forgotten when a process ends (ADR 0026)."""

from __future__ import annotations

from collections.abc import Iterable

from counterfoil.abc.timer import Timer
from counterfoil.flow.ports import Ports
from counterfoil.runtime.schedules.fire import active_rows, due_rows


class RowTimer:
    """Reads which schedules are due from their rows, by index; there is nothing to arm."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    def arm(self, schedule_id: str, due_ms: int) -> None:
        """See ``Timer.arm``; the row says it already."""

    def disarm(self, schedule_id: str) -> None:
        """See ``Timer.disarm``; the row says it already."""

    def due(self, now_ms: int) -> Iterable[str]:
        """See ``Timer.due``."""
        del now_ms
        return (str(row["schedule_id"]) for row in due_rows(self._ports))


def arm_all(ports: Ports, timer: Timer) -> None:
    """Tell a timer of every schedule that is still to fire: it may have forgotten, or be new."""
    if not isinstance(timer, RowTimer):
        for row in active_rows(ports):
            timer.arm(str(row["schedule_id"]), int(row["due_ms"] or 0))
