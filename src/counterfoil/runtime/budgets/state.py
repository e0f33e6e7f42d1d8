"""Limits and time as the record of a run tells them, folded from headers alone (DESIGN 2.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.flow.event import Event
from counterfoil.runtime.budgets.limits import BudgetKind, Limit, merged

BEGINNINGS: Final = frozenset({"run.started", "run.claimed", "run.resumed"})
ENDINGS: Final = frozenset({"run.suspended", "run.finished"})


class Worked(Struct, frozen=True):
    """How long a worker was at a run, by the store's clock, in milliseconds.

    From ``run.started`` or a claim up to the suspension or the end. Of a worker that vanished the time counts up to
    the last thing it recorded; waiting for a person, a time or the next worker does not count.
    """

    before_ms: int = 0
    since_ms: int | None = None
    last_ms: int = 0

    def evolve(self, event_type: str, recorded_at_ms: int) -> Worked:
        """After one more event of the run. A clock that went back takes nothing away."""
        if event_type == "run.claimed" and self.since_ms is not None:
            return Worked(
                self.before_ms + max(0, self.last_ms - self.since_ms), recorded_at_ms, recorded_at_ms
            )
        if event_type in BEGINNINGS:
            since = recorded_at_ms if self.since_ms is None else self.since_ms
            return replace(self, since_ms=since, last_ms=recorded_at_ms)
        if event_type in ENDINGS:
            return Worked(self.at(recorded_at_ms), None, recorded_at_ms)
        return replace(self, last_ms=max(self.last_ms, recorded_at_ms))

    def at(self, now_ms: int) -> int:
        """How long it was by now, while a worker is at it."""
        return self.before_ms + (0 if self.since_ms is None else max(0, now_ms - self.since_ms))

    @property
    def recorded_ms(self) -> int:
        """How long it was up to the last thing on record."""
        return self.at(self.last_ms)


def worked_of(record: Iterable[Event]) -> Worked:
    """The time that these events of one run tell."""
    worked = Worked()
    for event in record:
        worked = worked.evolve(event.type, event.recorded_at_ms)
    return worked


def limits_in(record: Iterable[Event]) -> tuple[Limit, ...]:
    """The limits that hold after these events."""
    return merged((), (limit_of(event.data) for event in record if event.type == "budget.set"))


def limit_of(data: Mapping[str, Any]) -> Limit:
    """The limit that a header tells."""
    return Limit(cast("BudgetKind", data["budget"]), Decimal(data["limit"]), data.get("currency"))
