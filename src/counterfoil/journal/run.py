"""Reading a run's turn from its ledger, and the ``turn.committed`` that keeps the turn's head there (DESIGN 8, FORMAT 17)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from counterfoil.core.event import Draft, Part
from counterfoil.core.ids import is_id
from counterfoil.core.keyed import KeyMaterial
from counterfoil.flow.drafting import Writes
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, RowOf
from counterfoil.journal.fold import (
    FOLD_VERSION,
    RunPlace,
    RunTurn,
    fold_turn,
    status_of,
    turn_of_run,
)
from counterfoil.journal.source import TURN_TYPES, Source
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


def turn_kept(
    by: Writes,
    place: RunPlace,
    turn: RunTurn,
    terminal: str,
    key: KeyMaterial | None,
    cause: str | None = None,
) -> Draft:
    """The event that keeps a turn's head; ``key`` is that of the person whom the message is about, if there is one.

    The head, and the hash of each event so that a difference can be named, are content: payload hashes can be guessed
    (FORMAT 17). Where the message lies under a person's key they do too, for each hash stands on the message's.
    """
    status = status_of(terminal)
    data = {
        "turn_id": place.turn_id,
        "agent": place.agent_id,
        "events": len(turn.events),
        "status": status if status in _WORDS else "error",
    }
    content: dict[str, Any] = {"head": turn.events[-1].hash, "fold": FOLD_VERSION}
    if place.session_hash is not None:
        content["session"] = place.session_hash
    if len(turn.events) <= HASHES_MAX:
        content["hashes"] = [event.hash for event in turn.events]
    return _sealed(by.draft("turn.committed", data, content, causation_event_id=cause), content, key)


def turn_abandoned(by: Writes, place: RunPlace, turn: RunTurn, key: KeyMaterial | None) -> Draft:
    """The event that says that nobody is at a turn any more, with its head so far."""
    data = {"turn_id": place.turn_id, "agent": place.agent_id, "events": len(turn.events)}
    if not turn.events or turn.closed is not None:
        return by.draft("turn.abandoned", data)
    content = {"head": turn.events[-1].hash}
    return _sealed(by.draft("turn.abandoned", data, content), content, key)


def _sealed(draft: Draft, content: Mapping[str, Any], key: KeyMaterial | None) -> Draft:
    if key is not None:
        draft.parts = (Part({"about": {"$part": 1}}), Part(content, key=key))
    return draft
