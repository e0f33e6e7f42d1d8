"""Schedules: inputs that come by themselves, and that workers then run (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from counterfoil.abc import Timer
from counterfoil.client.handle import Handle
from counterfoil.client.place import MEMORY
from counterfoil.core.bounds import check_limit, check_texts
from counterfoil.core.event_types import DEFAULT_CLASS
from counterfoil.errors import InvalidForm, ScheduleNotFound, StreamNotFound
from counterfoil.flow.drafting import Person
from counterfoil.flow.drive import adrive, drive
from counterfoil.flow.requests import Flow
from counterfoil.runtime.schedules.calendar import parse
from counterfoil.runtime.schedules.create import Schedule, cancel_flow, create_flow, schedule_row
from counterfoil.runtime.schedules.fire import Fired, fire, stream_rows, tenant_rows
from counterfoil.runtime.schedules.plan import Missed, Plan
from counterfoil.runtime.schedules.timer import RowTimer
from counterfoil.runtime.spec import RunSpec, check_seconds, check_text, instant_ms, make_spec
from counterfoil.store.rows import Row

PERIOD_MS_MIN: Final = 1_000
"""Shortest period of a schedule."""


class Scheduling(Handle):
    """What comes to conversations by itself."""

    def schedule(
        self,
        agent: str,
        *,
        conversation: str | None = None,
        message: Any = None,
        at: datetime | None = None,
        every_s: float | None = None,
        calendar: str | None = None,
        zone: str = "UTC",
        missed: Missed = "latest",
        key: str | None = None,
        title: str | None = None,
        classification: str = DEFAULT_CLASS,
    ) -> Schedule:
        """Bring this message to a conversation by itself: ``at`` a time, ``every_s`` seconds, or by the ``calendar``.

        ``at`` beside ``every_s`` is the first time. ``calendar`` is five fields of cron in a time ``zone``. The same
        ``key`` in the conversation is the same schedule, so a program may say it at each start. ``missed`` says what
        becomes of times that pass while no worker looks: ``latest`` fires the last one, ``all`` each of them.
        ``classification`` is that of the message, of the inputs that it brings, and of their runs.
        Raises ``InvalidForm``, or ``ScheduleConflict`` for another plan, message, class or agent under the key.

        >>> ledger = counterfoil.open(":memory:")
        >>> made = ledger.schedule("reporter", conversation="reports", calendar="30 8 * * mon-fri", zone="Europe/Berlin")
        >>> (made.kind, made.state)
        ('calendar', 'active')
        >>> ledger.close()
        """
        return drive(
            self._creating(
                agent, conversation, message, at, every_s, calendar, zone, missed, key, title, classification
            ),
            self.ports,
        )

    async def aschedule(
        self,
        agent: str,
        *,
        conversation: str | None = None,
        message: Any = None,
        at: datetime | None = None,
        every_s: float | None = None,
        calendar: str | None = None,
        zone: str = "UTC",
        missed: Missed = "latest",
        key: str | None = None,
        title: str | None = None,
        classification: str = DEFAULT_CLASS,
    ) -> Schedule:
        """As :meth:`schedule`, for tasks."""
        flow = self._creating(
            agent, conversation, message, at, every_s, calendar, zone, missed, key, title, classification
        )
        return await adrive(flow, self.ports)

    def schedules(
        self, stream: str | None = None, state: str | None = "active", limit: int | None = None
    ) -> list[Row]:
        """Rows of schedules: of the tenant in one state (``active ended cancelled``, None: all three), the next first.

        Of one conversation, by name or stream id, in the order of their ids. The alarms of runs that sleep are no
        schedules. Raises ``StreamNotFound``.
        """
        check_limit(limit)
        check_texts("what schedules are found by", (stream, state))
        if stream is None:
            found = tenant_rows(self.ports, state)
        else:
            stream_id = self._find(stream)
            if stream_id is None:
                raise StreamNotFound(f"there is no conversation {stream!r} in {self.place}")
            found = stream_rows(self.ports, stream_id, state)
        kept: list[Row] = []
        for row in found:
            if limit is not None and len(kept) == limit:
                break
            kept.append(row)
        return kept

    def cancel_schedule(self, schedule_id: str, *, by: str) -> Schedule:
        """End a schedule, as the named person ``by``. What it brought before goes on. Cancelling again changes nothing.

        Raises ``ScheduleNotFound``; ``ScheduleConflict`` for the alarm of a run that sleeps.
        """
        self.check_writable()
        check_text("by", by.strip())
        row = drive(schedule_row(schedule_id), self.ports)
        if row is None or row["tenant"] != self.tenant:
            raise ScheduleNotFound(
                f"there is no schedule {schedule_id} in {self.place}", schedule_id=schedule_id
            )
        person = Person(self.ports.subject_key(str(row["stream_id"]), by), by)
        ended = drive(cancel_flow(schedule_id, person), self.ports)
        self.timer.disarm(schedule_id)
        return ended

    def fire_due(self) -> Iterator[Fired]:
        """Carry out the schedules whose time has come, as a worker does; for a host whose own timer rang.

        Each due time comes once, however many do this at the same time.
        """
        self.check_writable()
        for schedule_id in self.timer.due(self.ports.now_ms()):
            fired = fire(self.ports, self.owner, schedule_id)
            if fired is not None:
                if fired.next_due_ms is not None:
                    self.timer.arm(schedule_id, fired.next_due_ms)
                yield fired

    @property
    def timer(self) -> Timer:
        """The host's timer, or the default one on the ledger's own rows."""
        return self.host.timer or RowTimer(self.ports)

    def _creating(
        self,
        agent: str,
        conversation: str | None,
        message: Any,
        at: datetime | None,
        every_s: float | None,
        calendar: str | None,
        zone: str,
        missed: Missed,
        key: str | None,
        title: str | None,
        classification: str,
    ) -> Flow[Schedule]:
        self.check_writable()
        check_text("key", key)
        if missed not in ("latest", "all"):
            raise InvalidForm("missed is latest or all", argument="missed")
        plan = _plan(at, every_s, calendar, zone, missed)
        at_ms = None if at is None else instant_ms("at", at)
        due_ms = _first(plan, at_ms, self.ports.now_ms())
        place = None if self.place == MEMORY else self.place
        spec = make_spec(
            agent,
            conversation=conversation,
            message=message,
            title=title,
            classification=classification,
            place=place,
        )
        return self._created(spec, plan, due_ms, key)

    def _created(self, spec: RunSpec, plan: Plan, due_ms: int, key: str | None) -> Flow[Schedule]:
        made = yield from create_flow(self.ports, spec, self.owner, plan, due_ms, key)
        if made.state == "active":
            self.timer.arm(made.schedule_id, made.due_ms)
        return made


def _plan(
    at: datetime | None, every_s: float | None, calendar: str | None, zone: str, missed: Missed
) -> Plan:
    if calendar is not None:
        if at is not None or every_s is not None:
            raise InvalidForm("calendar stands alone", argument="calendar")
        check_text("calendar", calendar)
        check_text("zone", zone or "")
        parsed = parse(calendar, zone)
        return Plan("calendar", expression=parsed.expression, zone=zone, missed=missed)
    if zone != "UTC":
        raise InvalidForm(
            "zone stands beside calendar", hint="a time has its own zone, seconds have none", argument="zone"
        )
    if every_s is not None:
        check_seconds("every_s", every_s, least="above 0")
        period_ms = round(every_s * 1000)
        if period_ms < PERIOD_MS_MIN:
            raise InvalidForm("every_s is a second or more", argument="every_s")
        return Plan("every", period_ms=period_ms, missed=missed)
    if at is None:
        raise InvalidForm("a schedule needs at, every_s or calendar", argument="at")
    return Plan("once")


def _first(plan: Plan, at_ms: int | None, now_ms: int) -> int:
    if at_ms is not None:
        return at_ms
    due_ms = plan.following(now_ms)
    if due_ms is None:
        raise InvalidForm("this expression names no time in the next years", argument="calendar")
    return due_ms
