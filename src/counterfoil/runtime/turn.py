"""The turns of runs that ended or were given up: their heads are put into the ledger once (DESIGN 8)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from counterfoil.core.event import Draft
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import (
    AccessError,
    CounterfoilError,
    GuardFailed,
    InputError,
    IntegrityError,
    InternalError,
    WrongSequence,
)
from counterfoil.flow.context import RunScope
from counterfoil.flow.drafting import Outsider
from counterfoil.flow.drive import drive
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, Entry, Flow, HeadOf, Read, RowOf, Rows, UnitDraft
from counterfoil.journal.fold import RunPlace, RunTurn, turn_of_run
from counterfoil.journal.rows import ABANDONED, DUE, TURNS
from counterfoil.journal.run import place_of_run, run_turn, turn_abandoned, turn_kept
from counterfoil.runtime.rows import RUNS
from counterfoil.runtime.state import RUNNING
from counterfoil.store.rows import Key, Row, RowIs
from counterfoil.store.unit import Head, at

SESSION: Final = "session"
"""Purpose of the index value by which the turns of a conversation are found (FORMAT 3, 17)."""

PAGE_ROWS: Final = 200

ELSEWHERE: Final = "another ledger recorded it, and a head is not worth taking its conversation over"

log: logging.Logger = logging.getLogger("counterfoil.journal")


class Turning:
    """Whether the heads of turns are kept (``scope.part(Turning)``)."""

    def __init__(self, scope: RunScope) -> None:
        del scope
        self.on: bool = False


class TurnKept(Struct, frozen=True):
    """What became of a turn: its head is ``kept`` or was so far (``abandoned``), or it was ``left`` (``why`` says why)."""

    turn_id: str
    run_id: str
    stream_id: str
    done: Literal["kept", "abandoned", "left"]
    why: str = ""


def kept_turn(scope: RunScope, finished: Draft) -> Flow[list[Draft]]:
    """The ``turn.committed`` that goes with a run's end, if it is wanted. Whatever hinders it, the run ends."""
    if not scope.part(Turning).on:
        return []
    try:
        row: Row | None = yield Read(RowOf(RUNS, (scope.run_id,)))
        if row is None:
            return []
        place = yield from place_of_run(scope.ports.tenant, row, scope.ports.index(SESSION, scope.stream_id))
        turn = yield from run_turn(place, row, finished)
        if turn.closed is not None:
            return []
        key = person_key(scope.ports, turn)
        return [turn_kept(scope, place, turn, finished.data["terminal"], key, finished.event_id)]
    except CounterfoilError as error:
        log.error("the turn of run %s was not kept: %s", scope.run_id, error.code)  # noqa: TRY400 - a trace could show content
        return []


def person_key(ports: Ports, turn: RunTurn) -> KeyMaterial | None:
    """The key that a turn's head is sealed under where its message is under a person's. Raises ``AccessError``."""
    return None if turn.person_key is None else ports.key_material(turn.person_key)


def session_of(ports: Ports, stream_id: str) -> str | None:
    """The digest of a session, None where the key for it is not at hand."""
    try:
        return ports.index(SESSION, stream_id)
    except (AccessError, InternalError):
        # Without its key store a handle has never opened the index key.
        return None


# ---- heads of turns that ended by another's hand ------------------------------------------------------------------


def due_turns(ports: Ports, after: Key | None = None) -> Iterator[Row]:
    """Rows of the turns whose head is not kept, oldest run first, a page in memory at a time."""
    prefix = (ports.tenant, DUE)
    while page := ports.read(Rows(TURNS.name, "by_state", prefix, PAGE_ROWS, after)):
        yield from page
        if len(page) < PAGE_ROWS:
            return
        after = TURNS.place_in("by_state", page[-1])


def keep_turn(ports: Ports, due: Row) -> TurnKept | None:
    """Record the head of an ended turn, once; None where another worker just did, or the conversation moved.

    The guard on the turn's row makes it once, whoever tries at the same time. Raises ``StoreError``.
    """
    try:
        return drive(_keep(ports, due), ports)
    except (GuardFailed, WrongSequence):
        return None
    except (AccessError, InputError, IntegrityError) as error:
        # Of this conversation alone: its key is gone, or its record cannot be read.
        return _told(due, "left", error.message)


def _keep(ports: Ports, due: Row) -> Flow[TurnKept | None]:
    stream_id, run_id = str(due["stream_id"]), str(due["run_id"])
    if not ports.is_home(stream_id):
        return _told(due, "left", ELSEWHERE)
    head: Head = yield Read(HeadOf(stream_id))
    row: Row | None = yield Read(RowOf(RUNS, (run_id,)))
    if row is None:
        return None
    place, turn = yield from turn_of_row(ports, row)
    if turn.closed is not None or not turn.events:
        return _told(due, "left", f"content that it is made of is {turn.closed or 'not there'}")
    outsider = Outsider(ports.new_id("evt"), ports.now_ms(), run_id)
    draft = turn_kept(outsider, place, turn, str(row["terminal"]), person_key(ports, turn))
    guard = RowIs(TURNS.name, (run_id,), frozenset({DUE}))
    yield Append(UnitDraft((Entry(stream_id, (draft,), at(head.sequence)),), (guard,)))
    return _told(due, "kept")


def turn_of_row(ports: Ports, row: Row) -> Flow[tuple[RunPlace, RunTurn]]:
    """The turn of a run by its row, and whose it is."""
    place = yield from place_of_run(ports.tenant, row, session_of(ports, str(row["stream_id"])))
    return place, (yield from run_turn(place, row))


def _told(row: Row, done: Literal["kept", "abandoned", "left"], why: str = "") -> TurnKept:
    run_id = str(row["run_id"])
    return TurnKept(turn_of_run(run_id), run_id, str(row["stream_id"]), done, why)


# ---- turns that nobody is at any more -----------------------------------------------------------------------------


def abandon_turn(ports: Ports, row: Row) -> TurnKept | None:
    """Record that nobody is at the turn of this run (its row) any more; None where that is said, or it went on."""
    try:
        return drive(_abandon(ports, row), ports)
    except GuardFailed:
        return None
    except (AccessError, InputError, IntegrityError) as error:
        return _told(row, "left", error.message)


def _abandon(ports: Ports, row: Row) -> Flow[TurnKept | None]:
    stream_id, run_id = str(row["stream_id"]), str(row["run_id"])
    said: Row | None = yield Read(RowOf(TURNS.name, (run_id,)))
    if (said is not None and said["state"] == ABANDONED) or not ports.is_home(stream_id):
        return None
    place, turn = yield from turn_of_row(ports, row)
    outsider = Outsider(ports.new_id("evt"), ports.now_ms(), run_id)
    key = None if turn.closed is not None else person_key(ports, turn)
    draft = turn_abandoned(outsider, place, turn, key)
    guard = RowIs(RUNS, (run_id,), frozenset({RUNNING}), int(row["row_version"] or 1))
    yield Append(UnitDraft((Entry(stream_id, (draft,)),), (guard,)))
    return _told(row, "abandoned")
