"""Settling a child whose end its own run did not tell: its conversation is gone, or nobody could be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterfoil.errors import GuardFailed, StreamNotFound
from counterfoil.flow.event import Event
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import (
    Append,
    Call,
    Entry,
    Events,
    Flow,
    Now,
    Raised,
    Read,
    RowOf,
    UnitDraft,
)
from counterfoil.runtime import rows as runtime_rows
from counterfoil.runtime.children.events import child_settled
from counterfoil.runtime.children.kin import RunEnd, said_by, stopped_by_parent
from counterfoil.runtime.children.rows import CHILDREN, ENDABLE, LEFT, OPEN, UNSETTLED, settling
from counterfoil.runtime.children.state import takes_more
from counterfoil.runtime.events import Said
from counterfoil.runtime.state import FINISHED
from counterfoil.store.rows import Guard, Row, RowIs

TRIES_MAX = 16
"""How often a settlement is decided anew because somebody else settled, or a conversation was purged, meanwhile."""


def settle_flow(
    row: Row, said: Said, actor: Mapping[str, str], ports: Ports, *, cause: tuple[str, str] | None = None
) -> Flow[bool]:
    """Record what became of a child: with its parent; where that is purged, in its own conversation, else on its row.

    False if somebody has settled it before. ``cause`` is the event that it follows from, with its conversation.
    """
    states = ENDABLE if said.data["state"] in ("finished", "stopped") else UNSETTLED
    if said.data["state"] == LEFT:
        states = frozenset({OPEN})
    guard = RowIs(CHILDREN.name, (row["child_stream_id"],), states)
    for _ in range(TRIES_MAX):
        place = yield from _place(row, ports)
        try:
            if place is None:
                yield from _on_the_row(row, said, ports)
            else:
                yield from _append(place, row, said, actor, cause, guard)
        except GuardFailed:
            return False
        except StreamNotFound:
            continue
        return True
    return False


def _place(row: Row, ports: Ports) -> Flow[str | None]:
    for column in ("parent_stream_id", "child_stream_id"):
        stream_id = str(row[column])
        if (yield from takes_more(stream_id, ports)):
            return stream_id
    return None


def _append(
    place: str, row: Row, said: Said, actor: Mapping[str, str], cause: tuple[str, str] | None, guard: Guard
) -> Flow[None]:
    run_id = str(row["parent_run_id" if place == row["parent_stream_id"] else "child_run_id"])
    event_id, stream_id = cause or (None, None)
    elsewhere = None if stream_id == place else stream_id
    told = yield from said_by(actor, said, run_id, event_id, elsewhere)
    yield Append(UnitDraft((Entry(place, (told,)),), (guard,)))


def _on_the_row(row: Row, said: Said, ports: Ports) -> Flow[None]:
    """Both conversations are purged: no event is left that could say it (ADR 0175)."""
    now: int = yield Now()
    change = settling(said.data, now)
    answer: object = yield Call("the row of a child", ports.keep_row, (str(row["child_stream_id"]), change))
    if isinstance(answer, Raised):
        raise answer.error


def settle_purged(end: RunEnd, ports: Ports) -> Flow[bool]:
    """Tell how a child's run ended whose own conversation is purged; False for a run that is nobody's child."""
    row: Row | None = yield Read(RowOf(CHILDREN.name, (end.stream_id,)))
    if row is None or row["child_run_id"] != end.run_id:
        return False
    said = child_settled(end.stream_id, "finished", "child", result=end.result())
    yield from settle_flow(row, said, end.actor, ports)
    return True


def settle_finished(row: Row, ports: Ports) -> Flow[bool]:
    """Settle a child whose run has ended without its parent being told; from the record of that run."""
    stream_id, run_id = str(row["child_stream_id"]), str(row["child_run_id"])
    ended: list[Event] = yield Read(
        Events(stream_id, types=frozenset({"run.finished"}), run_id=run_id, limit=1)
    )
    if not ended:
        return False
    event = ended[0]
    stopped_by = (yield from stopped_by_parent(row)) if event.data["terminal"] == "cancelled" else None
    content: Mapping[str, Any] = event.content_or_none() or {}
    result = {"terminal": event.data["terminal"], **content}
    said = (
        child_settled(stream_id, "finished", "child", result=result)
        if stopped_by is None
        else child_settled(stream_id, "stopped", "parent", stopped_by or None, result)
    )
    actor = event.header.actor
    return (yield from settle_flow(row, said, actor, ports, cause=(event.event_id, stream_id)))


def parent_terminal(row: Row) -> Flow[str | None]:
    """How the run ended that spawned the child; None while it is open, or purged."""
    run: Row | None = yield Read(RowOf(runtime_rows.RUNS, (row["parent_run_id"],)))
    return None if run is None or run["state"] != FINISHED else str(run["terminal"])
