"""Runs that can go on: what they waited for has come, or their worker is gone (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from counterfoil.approvals.standing import unanswered
from counterfoil.effects.retrying import retry_due_ms
from counterfoil.effects.standing import effect_now
from counterfoil.effects.state import OPEN
from counterfoil.flow.drive import drive
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Flow, Now, Read, RowOf
from counterfoil.runtime import rows
from counterfoil.runtime.children.kin import stopped_by_parent
from counterfoil.runtime.children.recover import is_foreign, unsettled_rows
from counterfoil.runtime.children.rows import END
from counterfoil.runtime.children.state import child_row
from counterfoil.runtime.doubt import open_reviews
from counterfoil.runtime.recover import is_held, open_runs, run_pages
from counterfoil.runtime.rehearsals import rehearsed_by
from counterfoil.runtime.schedules.rows import SCHEDULES
from counterfoil.runtime.schedules.state import ALARM
from counterfoil.runtime.state import SUSPENDED
from counterfoil.store.rows import Row


class ReadyRun(Struct, frozen=True):
    """A run that can go on.

    ``why`` is what it waited for (``approval review effect schedule child input``), ``left``: its worker is gone, or ``spawned``: a child that nobody has
    begun.
    """

    run_id: str
    stream_id: str
    agent: str
    why: str
    started_sequence: int


def ready_runs(ports: Ports) -> Iterator[ReadyRun]:
    """Runs of the tenant whose wait has ended and that no worker holds, a page in memory at a time.

    A rehearsal is none of them: nobody goes on with one.
    """
    return (run for run in _ready_runs(ports) if drive(rehearsed_by(run.run_id), ports) is None)


def _ready_runs(ports: Ports) -> Iterator[ReadyRun]:
    for row in run_pages(ports, SUSPENDED):
        if not is_held(ports, str(row["stream_id"])) and drive(can_go_on(row), ports):
            yield _ready(row, rows.run_of_row(row).cause or "input")
    for row in open_runs(ports):
        yield _ready(row, "left")
    yield from spawned_runs(ports)


def people_asked(waits_for: Iterable[str]) -> Flow[tuple[str, ...]]:
    """The questions to people that keep a run waiting; none when it can go on.

    Every review has to be settled. One answer of several approvals is enough: each call goes on with its own (case S14).
    """
    waits = tuple(waits_for)
    open_ = yield from open_reviews(waits)
    if open_:
        return open_
    asked = yield from unanswered(waits)
    return asked if len(asked) == len(waits) else ()


def still_waits(waits_for: Iterable[str]) -> Flow[tuple[str, ...]]:
    """What keeps a run from being entered: questions to people, or nothing but retries and alarms that are due later."""
    waits = tuple(waits_for)
    asked = yield from people_asked(waits)
    if asked:
        return asked
    for name in waits:
        if name.startswith("sch_") and (yield from _sleeps(name)):
            continue
        effect = (yield from effect_now(name)) if name.startswith("eff_") else None
        if effect is None or effect.state != "failed" or not (yield from _is_tried_later(name)):
            return ()
    return waits


def can_go_on(row: Row) -> Flow[bool]:
    """Whether what a suspended run waited for has come; ``row`` is the run's."""
    waits_for = rows.run_of_row(row).waits_for
    asked = yield from people_asked(waits_for)
    if asked:
        return False
    for name in waits_for:
        if name.startswith("eff_") and not (yield from _is_over(name)):
            return False
        if name.startswith("run_") and (yield from _is_at_work(name)):
            return False
        if name.startswith("sch_") and (yield from _sleeps(name)):
            return False
    return True


def _is_at_work(child_run_id: str) -> Flow[bool]:
    """Whether a child has no end on record yet."""
    row = yield from child_row(child_run_id)
    return row is not None and row["awaits"] == END


def spawned_runs(ports: Ports) -> Iterator[ReadyRun]:
    """Children that nobody has begun and that nobody has stopped, a page in memory at a time."""
    for row in unsettled_rows(ports):
        run_id, stream_id = str(row["child_run_id"]), str(row["child_stream_id"])
        if ports.read(RowOf(rows.RUNS, (run_id,))) is not None or is_held(ports, stream_id):
            continue
        conversation: Row | None = ports.read(RowOf(rows.CONVERSATIONS, (stream_id,)))
        if conversation is None or is_foreign(row, ports):
            continue
        if drive(stopped_by_parent(row), ports) is None:
            yield ReadyRun(run_id, stream_id, str(conversation["agent"]), "spawned", 1)


def _sleeps(schedule_id: str) -> Flow[bool]:
    """Whether the time that a run sleeps until has not come."""
    row: Row | None = yield Read(RowOf(SCHEDULES.name, (schedule_id,)))
    now: int = yield Now()
    return row is not None and row["state"] == ALARM and int(row["due_ms"] or 0) > now


def _is_over(effect_id: str) -> Flow[bool]:
    """Whether an effect is decided, and not to be tried again later."""
    effect = yield from effect_now(effect_id)
    if effect is None:
        return True
    return effect.state not in OPEN and not (yield from _is_tried_later(effect_id))


def _is_tried_later(effect_id: str) -> Flow[bool]:
    due_ms = yield from retry_due_ms(effect_id)
    now: int = yield Now()
    return due_ms is not None and due_ms > now


def _ready(row: Row, why: str) -> ReadyRun:
    return ReadyRun(
        run_id=str(row["run_id"]),
        stream_id=str(row["stream_id"]),
        agent=str(row["agent"]),
        why=why,
        started_sequence=int(row["started_sequence"] or 1),
    )
