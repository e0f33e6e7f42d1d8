"""Firing a schedule: the due time and the input that it brings stand in one append, so each comes exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, takewhile
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.core.event import Draft
from counterfoil.core.forms import time_text
from counterfoil.core.values import from_json
from counterfoil.errors import (
    AccessError,
    AdmissionRejected,
    ConflictError,
    GuardFailed,
    InputError,
    IntegrityError,
    NotFoundError,
)
from counterfoil.flow.drafting import Outsider
from counterfoil.flow.drive import drive
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, Entry, Flow, NewId, Now, Read, RowOf, Rows, UnitDraft
from counterfoil.runtime import rows as runtime_rows
from counterfoil.runtime.desk import Desk
from counterfoil.runtime.facts import class_of
from counterfoil.runtime.keeping import Beside, keep_flow
from counterfoil.runtime.schedules.create import created_event, schedule_row
from counterfoil.runtime.schedules.events import schedule_cancelled, schedule_fired
from counterfoil.runtime.schedules.plan import plan_of
from counterfoil.runtime.schedules.rows import SCHEDULES
from counterfoil.runtime.schedules.state import ACTIVE, CANCELLED, ENDED
from counterfoil.runtime.spec import make_spec
from counterfoil.store.rows import Guard, Key, Row, RowIs

_PAGE_ROWS: Final = 100

SHOWN: Final = (ACTIVE, ENDED, CANCELLED)
"""States of schedules; alarms of runs that sleep are none."""


class Fired(Struct, frozen=True):
    """What became of a schedule whose time had come.

    ``fired``: its input was taken in as ``admission_id``; ``refused``: it was on record as refused by the conversation;
    ``cancelled``: the conversation is closed, so it is over; ``left``: it could not be fired here, ``why`` says why.
    ``late_ms`` is how long after ``due_ms`` that was; ``next_due_ms`` None: it has no due time left.
    """

    schedule_id: str
    stream_id: str
    agent: str
    done: Literal["fired", "refused", "cancelled", "left"]
    due_ms: int
    late_ms: int = 0
    next_due_ms: int | None = None
    admission_id: str | None = None
    why: str = ""


def due_rows(ports: Ports) -> Iterator[Row]:
    """Rows of the tenant's schedules that are due, the earliest first; a page in memory at a time."""
    now_ms = ports.now_ms()
    return takewhile(lambda row: int(row["due_ms"] or 0) <= now_ms, active_rows(ports))


def active_rows(ports: Ports) -> Iterator[Row]:
    """Rows of the tenant's schedules that are still to fire, the next first."""
    return _pages(ports, "by_due", (ports.tenant, ACTIVE))


def tenant_rows(ports: Ports, state: str | None) -> Iterator[Row]:
    """Rows of the tenant's schedules in one state, or in all three one after the other."""
    states = SHOWN if state is None else (state,)
    return chain.from_iterable(_pages(ports, "by_due", (ports.tenant, each)) for each in states)


def stream_rows(ports: Ports, stream_id: str, state: str | None) -> Iterator[Row]:
    """Rows of the schedules of one conversation."""
    wanted = SHOWN if state is None else (state,)
    return (row for row in _pages(ports, "by_stream", (stream_id,)) if row["state"] in wanted)


def _pages(ports: Ports, index: str, prefix: Key) -> Iterator[Row]:
    after: Key | None = None
    while True:
        page: list[Row] = ports.read(Rows(SCHEDULES.name, index, prefix, _PAGE_ROWS, after))
        yield from page
        if len(page) < _PAGE_ROWS:
            return
        after = SCHEDULES.place_in(index, page[-1])


def fire(ports: Ports, owner: str, schedule_id: str) -> Fired | None:
    """Carry out the due time of a schedule; None where it is not due, or another worker was first.

    What hinders this schedule alone is said in the answer. Raises ``StoreError`` when the store fails.
    """
    row: Row | None = drive(schedule_row(schedule_id), ports)
    try:
        return None if row is None else drive(fire_flow(ports, owner, row), ports)
    except (AccessError, ConflictError, InputError, IntegrityError, NotFoundError) as error:
        # Of this schedule alone: its key is gone, its record cannot be read, or its zone is not known here.
        assert row is not None, "only a schedule that is there is fired"
        return _told(row, "left", why=error.message)


def fire_flow(ports: Ports, owner: str, row: Row) -> Flow[Fired | None]:
    """As :func:`fire`, for a row as it was read: whoever changed it since is noticed by its version."""
    now: int = yield Now()
    if row["tenant"] != ports.tenant or row["state"] != ACTIVE or int(row["due_ms"] or 0) > now:
        return None
    conversation: Row | None = yield Read(RowOf(runtime_rows.CONVERSATIONS, (row["stream_id"],)))
    if conversation is None or conversation["state"] == runtime_rows.CLOSED:
        return (yield from _close(row, now))
    created = yield from created_event(row)
    plan = plan_of(created.data, created.content)
    due_ms = plan.to_fire(int(row["due_ms"] or 0), now)
    fired = replace(
        _told(row, "fired"), due_ms=due_ms, late_ms=max(0, now - due_ms), next_due_ms=plan.following(due_ms)
    )
    message = from_json(created.content.get("payload"))
    return (yield from _bring(ports, owner, row, fired, message, class_of(created.header)))


def _bring(ports: Ports, owner: str, row: Row, fired: Fired, message: Any, klass: str) -> Flow[Fired | None]:
    said = schedule_fired(fired.schedule_id, fired.due_ms, fired.late_ms, fired.next_due_ms)

    def beside(desk: Desk) -> tuple[list[Draft], list[Guard]]:
        return [desk.draft(said, actor=_CLOCKWORK)], [_unchanged(row)]

    spec = make_spec(
        fired.agent,
        message=message,
        conversation=fired.stream_id,
        dedupe=dedupe_of(fired.schedule_id, fired.due_ms),
        classification=klass,
    )
    try:
        admitted = yield from keep_flow(
            ports, spec, owner, None, Beside(beside, SCHEDULES.name, fired.due_ms)
        )
    except AdmissionRejected as refused:
        return replace(fired, done="refused", admission_id=refused.fields.get("admission_id"))
    except GuardFailed:
        return None
    return replace(fired, admission_id=admitted.admission_id)


def _close(row: Row, now: int) -> Flow[Fired | None]:
    """Nobody takes anything in any more."""
    event_id: str = yield NewId("evt")
    said = schedule_cancelled(str(row["schedule_id"]), int(row["due_ms"] or 0))
    draft = Outsider(event_id, now, None).draft(said.type, said.data)
    try:
        yield Append(UnitDraft((Entry(str(row["stream_id"]), (draft,)),), (_unchanged(row),)))
    except GuardFailed:
        return None
    return _told(row, "cancelled", why="its conversation is closed")


def dedupe_of(schedule_id: str, due_ms: int) -> str:
    """The dedupe key of a due time's input: the second guard against firing it twice."""
    return f"{schedule_id}:{time_text(due_ms)}"


_CLOCKWORK: Final = {"type": "system", "id": "counterfoil"}


def _unchanged(row: Row) -> RowIs:
    return RowIs(SCHEDULES.name, (row["schedule_id"],), frozenset({ACTIVE}), int(row["row_version"] or 0))


def _told(row: Row, done: Literal["fired", "refused", "cancelled", "left"], why: str = "") -> Fired:
    return Fired(
        str(row["schedule_id"]),
        str(row["stream_id"]),
        str(row["agent"] or ""),
        done,
        int(row["due_ms"] or 0),
        why=why,
    )
