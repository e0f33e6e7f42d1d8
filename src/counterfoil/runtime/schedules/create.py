"""Making a schedule, once for its key, and ending one (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from counterfoil.core import canonical
from counterfoil.core.ids import derived_id
from counterfoil.core.values import comparable_text
from counterfoil.errors import (
    AdmissionRejected,
    ConflictError,
    GuardFailed,
    ScheduleConflict,
    ScheduleNotFound,
    StoreBusy,
    StreamExists,
    WrongSequence,
)
from counterfoil.flow.drafting import Person
from counterfoil.flow.event import Event
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, Entry, Events, Flow, NewId, Now, Read, RowOf, UnitDraft
from counterfoil.runtime.desk import Desk
from counterfoil.runtime.facts import class_of
from counterfoil.runtime.look import look
from counterfoil.runtime.schedules.events import schedule_cancelled, schedule_created
from counterfoil.runtime.schedules.plan import Plan, plan_of
from counterfoil.runtime.schedules.rows import SCHEDULES
from counterfoil.runtime.schedules.state import ACTIVE, ALARM, CANCELLED, ENDED
from counterfoil.runtime.spec import RunSpec
from counterfoil.store.rows import Absent, Row, RowIs

TRIES_MAX: Final = 64

_MOVED: Final = (GuardFailed, WrongSequence, StreamExists)


class Schedule(Struct, frozen=True):
    """A schedule: where its inputs go, when it is due next, and whether it was there before (``repeated``).

    ``state`` is ``active``, ``ended`` (it has no due time left) or ``cancelled``.
    """

    schedule_id: str
    stream_id: str
    kind: str
    state: str
    due_ms: int
    repeated: bool = False


def create_flow(
    ports: Ports, spec: RunSpec, owner: str, plan: Plan, due_ms: int, key: str | None
) -> Flow[Schedule]:
    """Record a schedule that brings ``spec.message`` to the conversation at each due time.

    The same ``key`` in the conversation is the same schedule, whatever has become of it. Raises ``ScheduleConflict`` for
    another plan or message under the key, ``AdmissionRejected`` where the conversation is closed.
    """
    moved: ConflictError | None = None
    for _ in range(TRIES_MAX):
        seen = yield from look(ports, spec)
        desk = Desk(ports, spec, owner, seen)
        if seen.situation.closed:
            raise AdmissionRejected("the conversation is closed", hint="schedule in another conversation")
        schedule_id = ports.new_id("sch") if key is None else _id_of(desk, key)
        row = yield from schedule_row(schedule_id)
        if row is not None:
            return (yield from _repeated(row, spec, plan, due_ms))
        try:
            yield from _append(desk, schedule_id, plan, due_ms)
        except _MOVED as error:
            moved = error
            continue
        return Schedule(schedule_id, desk.stream_id, plan.kind, ACTIVE, due_ms)
    raise StoreBusy(f"the conversation changed {TRIES_MAX} times while it was scheduled in") from moved


def _id_of(desk: Desk, key: str) -> str:
    """An id that is found again: of the key, under the conversation's own."""
    keyed = desk.material().keyed("derived-id", ["schedule"], canonical.encode(key))
    return derived_id("sch", keyed)


def _append(desk: Desk, schedule_id: str, plan: Plan, due_ms: int) -> Flow[None]:
    opened, guards = desk.opening()
    content = {"payload": desk.spec.message, **plan.content}
    said = schedule_created(schedule_id, plan.kind, due_ms, plan.period_ms, content, desk.spec.classification)
    created = desk.draft(said)
    entry = Entry(desk.stream_id, (*opened, created), create=desk.create)
    yield Append(UnitDraft((entry,), (*guards, Absent(SCHEDULES.name, (schedule_id,)))))


def _repeated(row: Row, spec: RunSpec, plan: Plan, due_ms: int) -> Flow[Schedule]:
    created = yield from created_event(row)
    same_plan = plan_of(created.data, created.content) == plan
    same = same_plan and _same_message(created.content, spec) and row["agent"] == spec.agent
    same = same and class_of(created.header) == spec.classification
    if plan.kind == "once":
        same = same and row["due_ms"] == due_ms
    if not same:
        raise ScheduleConflict(
            f"schedule {row['schedule_id']!s} has this key, and another plan, message, class or agent",
            schedule_id=row["schedule_id"],
        )
    return of_row(row, repeated=True)


def _same_message(content: Mapping[str, Any], spec: RunSpec) -> bool:
    return comparable_text(content.get("payload")) == comparable_text(spec.message)


def schedule_row(schedule_id: str) -> Flow[Row | None]:
    """The row of a schedule, or None."""
    row: Row | None = yield Read(RowOf(SCHEDULES.name, (schedule_id,)))
    return row


def created_event(row: Row) -> Flow[Event]:
    """The ``schedule.created`` of a schedule."""
    found: list[Event] = yield Read(
        Events(str(row["stream_id"]), after=int(row["sequence"] or 1) - 1, limit=1)
    )
    return found[0]


def of_row(row: Row, *, repeated: bool = False) -> Schedule:
    """A row as a schedule."""
    return Schedule(
        str(row["schedule_id"]),
        str(row["stream_id"]),
        str(row["kind"]),
        str(row["state"]),
        int(row["due_ms"] or 0),
        repeated,
    )


def cancel_flow(schedule_id: str, person: Person) -> Flow[Schedule]:
    """End a schedule, as a named person; what it fired before goes on. Again changes nothing.

    Raises ``ScheduleNotFound``.
    """
    for _ in range(TRIES_MAX):
        row = yield from schedule_row(schedule_id)
        if row is None:
            raise ScheduleNotFound(f"there is no schedule {schedule_id}", schedule_id=schedule_id)
        if row["state"] in (CANCELLED, ENDED):
            return of_row(row, repeated=True)
        if row["state"] == ALARM:
            raise ScheduleConflict(
                f"schedule {schedule_id} is the alarm of run {row['run_id']!s}, which sleeps",
                hint="cancel the run",
                schedule_id=schedule_id,
            )
        event_id: str = yield NewId("evt")
        now: int = yield Now()
        said = schedule_cancelled(schedule_id, int(row["due_ms"] or 0))
        draft = said.draft(event_id, now, {"type": "human", "id": person.key.key_id})
        guard = RowIs(SCHEDULES.name, (schedule_id,), version=int(row["row_version"] or 0))
        try:
            yield Append(UnitDraft((Entry(str(row["stream_id"]), (draft,)),), (guard,)))
        except GuardFailed:
            continue
        return Schedule(
            schedule_id, str(row["stream_id"]), str(row["kind"]), CANCELLED, int(row["due_ms"] or 0)
        )
    raise StoreBusy(f"schedule {schedule_id} kept changing", hint="try again")
