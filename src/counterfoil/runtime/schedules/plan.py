"""When a schedule is due: once, every so often, or by the calendar; pure (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from counterfoil.runtime.schedules.calendar import parse

Kind = Literal["once", "every", "calendar"]
Missed = Literal["latest", "all"]


class Plan(Struct, frozen=True):
    """The due times of a schedule. ``period_ms`` belongs to ``every``; ``expression`` and ``zone`` to ``calendar``.

    ``missed`` says what becomes of due times that pass while nobody fires: ``latest`` fires the last of them and lets
    the others go, ``all`` fires each in its order. One that is due once is fired however late.
    """

    kind: Kind
    period_ms: int | None = None
    expression: str | None = None
    zone: str | None = None
    missed: Missed = "latest"

    def following(self, due_ms: int) -> int | None:
        """The due time after this one; None after the last."""
        if self.period_ms is not None:
            return due_ms + self.period_ms
        if self.expression is not None:
            return parse(self.expression, self.zone or "UTC").after(due_ms)
        return None

    def to_fire(self, due_ms: int, now_ms: int) -> int:
        """Which due time is fired now, when the earliest that was not is ``due_ms`` and has come."""
        if self.missed == "all" or self.kind == "once":
            return due_ms
        if self.period_ms is not None:
            return due_ms + (now_ms - due_ms) // self.period_ms * self.period_ms
        last = parse(self.expression or "", self.zone or "UTC").until(now_ms)
        return due_ms if last is None else max(due_ms, last)

    @property
    def content(self) -> dict[str, Any]:
        """As the content of ``schedule.created`` holds it, beside the public fields."""
        told = {"expression": self.expression, "zone": self.zone, "missed": self.missed}
        return {name: value for name, value in told.items() if value is not None}


def plan_of(data: Mapping[str, Any], content: Mapping[str, Any]) -> Plan:
    """The plan that a ``schedule.created`` recorded."""
    return Plan(
        data["kind"],
        data.get("period_ms"),
        content.get("expression"),
        content.get("zone"),
        content.get("missed", "latest"),
    )
