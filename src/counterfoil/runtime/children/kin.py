"""What the end of a run means for its family: the part of the append that ends it which concerns children and parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.core.event import Draft
from counterfoil.flow.event import Event
from counterfoil.flow.outside import CANCELLING
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Entry, Events, EventsById, Flow, HeadOf, NewId, Now, Read, RowOf, Rows
from counterfoil.runtime import rows as runtime_rows
from counterfoil.runtime.children.decide import fate
from counterfoil.runtime.children.events import child_settled, stop_asked
from counterfoil.runtime.children.rows import CHILDREN, END, ENDABLE, OPEN
from counterfoil.runtime.children.state import state_of, takes_more
from counterfoil.runtime.events import Said
from counterfoil.runtime.state import FINISHED
from counterfoil.store.rows import Guard, Row, RowIs

KIN_MAX: Final = 200
"""Children whose fate is decided in the append that ends a run; those beyond it are found by recovery."""


class RunEnd(Struct, frozen=True):
    """A run that ends: where, how, by which event, in whose name, and with what output or error (in content form)."""

    stream_id: str
    run_id: str
    terminal: str
    event_id: str
    actor: Mapping[str, str]
    output: Any = None
    error: Any = None
    ports: Ports | None = None
    """By which it is seen whether another conversation still has its key; None takes every key to be there."""

    def result(self) -> dict[str, Any]:
        """What the parent is told."""
        told = {"terminal": self.terminal, "output": self.output, "error": self.error}
        return {name: value for name, value in told.items() if value is not None}


class Kin(Struct, frozen=True):
    """What goes with a run's end: drafts in its own conversation, entries in others, and guards."""

    drafts: tuple[Draft, ...] = ()
    entries: tuple[Entry, ...] = ()
    guards: tuple[Guard, ...] = ()

    def __add__(self, other: Kin) -> Kin:
        return Kin(self.drafts + other.drafts, self.entries + other.entries, self.guards + other.guards)


def kin_at_end(end: RunEnd) -> Flow[Kin]:
    """The fates of the conversation's children, and the settlement of this run if it is a child itself."""
    fates = yield from _fates(end)
    settled = yield from _own_settlement(end)
    return fates + settled


# ---- to the children -------------------------------------------------------------------------------------------------


def _fates(end: RunEnd) -> Flow[Kin]:
    found: list[Row] = yield Read(Rows(CHILDREN.name, "by_parent", (end.stream_id, END), KIN_MAX))
    kin = Kin()
    others = yield from _runs_of_others(end, found)
    for row in found:
        if row["parent_run_id"] not in others:
            kin += yield from _fate_of(end, row)
    return kin


def _runs_of_others(end: RunEnd, found: list[Row]) -> Flow[set[str]]:
    """Runs of this conversation that are open themselves: they decide about the children that they spawned."""
    others = set()
    for run_id in {str(row["parent_run_id"]) for row in found} - {end.run_id}:
        run: Row | None = yield Read(RowOf(runtime_rows.RUNS, (run_id,)))
        if run is not None and run["state"] != FINISHED:
            others.add(run_id)
    return others


def _fate_of(end: RunEnd, row: Row) -> Flow[Kin]:
    """What this end says to one child. Whether it can be reached is seen when it is stopped; here it is asked to end."""
    stream_id = str(row["child_stream_id"])
    exists = yield from takes_more(stream_id, end.ports)
    run: Row | None = yield Read(RowOf(runtime_rows.RUNS, (row["child_run_id"],)))
    decided = fate(end.terminal, state_of(str(row["state"]), run, exists=exists), reachable=True)
    if decided == "left" and row["state"] == OPEN:
        said = child_settled(stream_id, "left", "parent", end.terminal)
        left = yield from said_by(end.actor, said, end.run_id, end.event_id)
        return Kin(drafts=(left,), guards=(RowIs(CHILDREN.name, (stream_id,), frozenset({OPEN})),))
    if decided == "stopped" and exists:
        asked = yield from said_by(
            end.actor, stop_asked(), str(row["child_run_id"]), end.event_id, end.stream_id
        )
        return Kin(entries=(Entry(stream_id, (asked,)),))
    return Kin()


# ---- to the parent ---------------------------------------------------------------------------------------------------


def _own_settlement(end: RunEnd) -> Flow[Kin]:
    row: Row | None = yield Read(RowOf(CHILDREN.name, (end.stream_id,)))
    if row is None or row["child_run_id"] != end.run_id or row["state"] not in ENDABLE:
        return Kin()
    stopped_by = (yield from stopped_by_parent(row)) if end.terminal == "cancelled" else None
    said = (
        child_settled(end.stream_id, "finished", "child", result=end.result())
        if stopped_by is None
        else child_settled(end.stream_id, "stopped", "parent", stopped_by or None, end.result())
    )
    guard = RowIs(CHILDREN.name, (end.stream_id,), ENDABLE)
    parent_stream_id = str(row["parent_stream_id"])
    if not (yield from takes_more(parent_stream_id, end.ports)):
        # A purged parent takes no more events: the child's own conversation says what became of it (ADR 0175).
        own = yield from said_by(end.actor, said, end.run_id, end.event_id)
        return Kin(drafts=(own,), guards=(guard,))
    told = yield from said_by(end.actor, said, str(row["parent_run_id"]), end.event_id, end.stream_id)
    return Kin(entries=(Entry(parent_stream_id, (told,)),), guards=(guard,))


def stopped_by_parent(row: Row) -> Flow[str | None]:
    """How the parent's run ended that stopped this child; empty if it is purged, None if no parent stopped it."""
    parent_stream_id = str(row["parent_stream_id"])
    asked: list[Event] = yield Read(
        Events(str(row["child_stream_id"]), 0, CANCELLING, str(row["child_run_id"]))
    )
    for event in asked:
        raw = event.header.raw
        if raw.get("causation_stream_id") == parent_stream_id:
            if (yield Read(HeadOf(parent_stream_id))) is None:
                return ""
            cause: list[Event] = yield Read(EventsById(parent_stream_id, (raw["causation_event_id"],)))
            return str(cause[0].data.get("terminal", "")) if cause else ""
    return None


def said_by(
    actor: Mapping[str, str], said: Said, run_id: str, cause: str | None, cause_stream: str | None = None
) -> Flow[Draft]:
    """A draft about a run that follows from an event, which may stand in another conversation."""
    event_id: str = yield NewId("evt")
    now: int = yield Now()
    draft = said.draft(event_id, now, actor, run_id=run_id, causation_event_id=cause)
    return draft if cause_stream is None else replace(draft, causation_stream_id=cause_stream)
