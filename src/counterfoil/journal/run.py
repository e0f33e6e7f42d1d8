"""Reading a run's turn from its ledger, and the ``turn.committed`` that keeps the turn's head there (DESIGN 8, FORMAT 17)."""

from __future__ import annotations

from typing import Any, Final

from counterfoil.core.event import Draft
from counterfoil.core.ids import is_id
from counterfoil.flow.drafting import Writes
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, RowOf
from counterfoil.journal.fold import (
    TURN_TYPES,
    RunPlace,
    RunTurn,
    Source,
    fold_turn,
    status_of,
    turn_of_run,
)
from counterfoil.store.rows import Cell, Row

HASHES_MAX: Final = 10_000
"""Hashes of single events that ``turn.committed`` keeps; of a longer turn it keeps the head alone."""

_WORDS: Final = frozenset({"completed", "cancelled", "refused"})


def place_of_run(tenant: str, row: Row, session_hash: str | None) -> Flow[RunPlace]:
    """Whose turn a row of ``runs`` stands for."""
    parent = yield from _parent_turn(str(row["stream_id"]))
    return RunPlace(tenant, str(row["run_id"]), str(row["agent"]), session_hash, parent)


def _parent_turn(stream_id: str) -> Flow[str | None]:
    """The turn of the run that spawned this conversation, if one did."""
    first: list[Event] = yield Read(Events(stream_id, limit=1))
    parent: Any = first[0].data.get("parent_run_id") if first else None
    return turn_of_run(parent) if is_id(parent, "run") else None


def run_turn(place: RunPlace, row: Row, ending: Draft | None = None) -> Flow[RunTurn]:
    """The turn of a run as its ledger has it, with the ``run.finished`` that is about to be recorded, if there is one."""
    sources = yield from _sources(row)
    return fold_turn(place, [*sources, *([] if ending is None else [Source.of_draft(ending)])])


def _sources(row: Row) -> Flow[list[Source]]:
    """What the turn is folded from, in the order of the ledger: its input first, which belongs to no run."""
    stream_id = str(row["stream_id"])
    recorded: list[Event] = yield Read(Events(stream_id, types=TURN_TYPES, run_id=str(row["run_id"])))
    accepted = yield from _accepted(stream_id, row["admission_id"])
    return [Source.of_event(event) for event in (*accepted, *recorded)]


def _accepted(stream_id: str, admission_id: Cell) -> Flow[list[Event]]:
    row: Row | None = None if admission_id is None else (yield Read(RowOf("admissions", (admission_id,))))
    if row is None:
        return []
    found: list[Event] = yield Read(Events(stream_id, after=int(row["sequence"] or 1) - 1, limit=1))
    return [event for event in found if event.type == "admission.accepted"]


def turn_committed(by: Writes, tenant: str, session_hash: str | None, row: Row, ending: Draft) -> Flow[Draft]:
    """The event that keeps the turn's head, to be recorded together with the ``run.finished`` that ends it."""
    place = yield from place_of_run(tenant, row, session_hash)
    turn = yield from run_turn(place, row, ending)
    return turn_kept(by, place, turn, ending.data["terminal"], ending.event_id)


def turn_kept(by: Writes, place: RunPlace, turn: RunTurn, terminal: str, cause: str | None = None) -> Draft:
    """The event that keeps a turn's head.

    The head, and the hash of each event so that a difference can be named, are content: payload hashes can be guessed
    (FORMAT 17).
    """
    status = status_of(terminal)
    data = {
        "turn_id": place.turn_id,
        "agent": place.agent_id,
        "events": len(turn.events),
        "status": status if status in _WORDS else "error",
    }
    content: dict[str, Any] = {"head": turn.events[-1].hash}
    if len(turn.events) <= HASHES_MAX:
        content["hashes"] = [event.hash for event in turn.events]
    return by.draft("turn.committed", data, content, causation_event_id=cause)


def turn_abandoned(by: Writes, place: RunPlace, turn: RunTurn) -> Draft:
    """The event that says that nobody is at a turn any more, with its head so far."""
    data = {"turn_id": place.turn_id, "agent": place.agent_id, "events": len(turn.events)}
    return by.draft("turn.abandoned", data, {"head": turn.events[-1].hash} if turn.events else None)
