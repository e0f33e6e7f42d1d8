"""The table of schedules: the durable default timer (ADR 0026); header values only (FORMAT 11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.core.forms import time_ms
from counterfoil.runtime.schedules.events import CANCELLED as CANCELLED_TYPE
from counterfoil.runtime.schedules.events import CREATED, TYPES
from counterfoil.runtime.schedules.state import CANCELLED, state_of_created, state_of_last
from counterfoil.store.rows import CellSource, Column, Fact, Feature, Index, Patch, Put, RowChange, TableSpec

SCHEDULES: Final = TableSpec(
    "schedules",
    (
        Column("schedule_id"),
        Column("tenant"),
        Column("stream_id"),
        Column("state"),
        Column("kind"),
        Column("agent", required=False),
        Column("run_id", required=False),
        Column("due_ms", "integer"),
        Column("period_ms", "integer", required=False),
        Column("fired_ms", "integer", required=False),
        Column("sequence", "integer"),
        Column("changed_at_ms", "integer"),
    ),
    key=("schedule_id",),
    indexes={"by_due": ("tenant", "state", "due_ms"), "by_stream": ("stream_id", "schedule_id")},
)


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:  # noqa: ARG001 - the signature of every feature's rows
    """What one event changes; from public fields alone."""
    data = fact.data
    if fact.event_type == CREATED:
        yield Put(SCHEDULES.name, _created(fact))
        return
    due_ms = time_ms(data["due_at"])
    values: dict[str, CellSource] = {"changed_at_ms": fact.recorded_at_ms}
    if fact.event_type == CANCELLED_TYPE:
        values["state"] = CANCELLED
    elif "next_due_at" in data:
        values.update(fired_ms=due_ms, due_ms=time_ms(data["next_due_at"]))
    else:
        values.update(fired_ms=due_ms, state=state_of_last(fact.run_id))
    yield Patch(SCHEDULES.name, (data["schedule_id"],), values)


def _created(fact: Fact) -> dict[str, CellSource]:
    data, actor = fact.data, fact.actor
    return {
        "schedule_id": data["schedule_id"],
        "tenant": fact.tenant,
        "stream_id": fact.stream_id,
        "state": state_of_created(fact.run_id),
        "kind": data["kind"],
        "agent": actor["id"] if actor["type"] == "agent" else None,
        "run_id": fact.run_id,
        "due_ms": time_ms(data["due_at"]),
        "period_ms": data.get("period_ms"),
        "sequence": fact.sequence,
        "changed_at_ms": fact.recorded_at_ms,
    }


FEATURE: Final = Feature("schedules", (SCHEDULES,), TYPES, rows)
