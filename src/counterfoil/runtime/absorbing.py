"""A run takes over another one of its conversation that waits: that one ends as ``absorbed``, and its input joins."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from counterfoil.approvals.standing import open_approvals
from counterfoil.core import canonical
from counterfoil.core.event import Draft
from counterfoil.errors import EventIdReused, GuardFailed, NotWaiting, RunNotFound
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, RowOf
from counterfoil.runtime import events, rows
from counterfoil.runtime.events import Said
from counterfoil.runtime.recording import record
from counterfoil.runtime.resume import COUNTED_TYPES, Identity, Record, attempt_event_id, identify, tally_of
from counterfoil.runtime.spec import check_text
from counterfoil.runtime.state import SUSPENDED, RunState
from counterfoil.store.rows import Row, RowIs

TRIES_MAX: Final = 8
"""How often the other run is looked at anew because it moved meanwhile."""


def absorb_flow(scope: RunScope, run_id: str) -> Flow[str]:
    """End a run of this conversation that waits, and have its input join this run; returns the admission's id.

    Its doubt stays and is recovered; what people were asked for it expires. Recorded once. Raises ``RunNotFound`` for
    a run of another conversation, ``NotWaiting`` for one that does not wait.
    """
    check_text("run_id", run_id or "")
    scope.check()
    identity = identify(scope, "absorb", run_id, canonical.encode(run_id))
    identity = replace(identity, memo=attempt_event_id(scope, identity.memo, 0))
    found = scope.part(Record).take(identity)
    if found is not None:
        return str(found.data["admission_id"])
    scope.part(Record).live(identity)
    with scope.in_flight(identity.memo):
        for _ in range(TRIES_MAX):
            run = yield from _waiting(scope, run_id)
            guard = RowIs(rows.RUNS, (run_id,), frozenset({SUSPENDED}))
            try:
                yield from record(scope, *(yield from _drafts(scope, identity, run)), guards=(guard,))
            except GuardFailed:
                continue
            except EventIdReused:
                # An append whose answer was lost had recorded it: the id says what it says.
                pass
            return str(run.admission_id)
    raise _not_waiting(run_id, "kept changing")


def _waiting(scope: RunScope, run_id: str) -> Flow[RunState]:
    row: Row | None = yield Read(RowOf(rows.RUNS, (run_id,)))
    if row is None or row["stream_id"] != scope.stream_id or run_id == scope.run_id:
        raise RunNotFound(f"there is no other run {run_id} in this conversation", run_id=run_id)
    run = rows.run_of_row(row)
    if run.state != SUSPENDED or run.admission_id is None:
        raise _not_waiting(run_id, f"is {run.state}")
    return run


def _not_waiting(run_id: str, how: str) -> NotWaiting:
    return NotWaiting(f"run {run_id} {how}: only a run that waits can be absorbed", run_id=run_id)


def _drafts(scope: RunScope, identity: Identity, run: RunState) -> Flow[list[Draft]]:
    ports = scope.ports

    def of_other(said: Said) -> Draft:
        return said.draft(ports.new_id("evt"), ports.now_ms(), scope.actor, run_id=run.run_id)

    said = events.admission_absorbed(str(run.admission_id), scope.run_id)
    said = replace(said, content=identity.place())
    absorbed = said.draft(identity.memo, ports.now_ms(), scope.actor, run_id=scope.run_id)
    asked = yield from open_approvals(run.run_id)
    lapsed = [of_other(events.approval_expired(each.approval_id, each.effect_id)) for each in asked]
    counted: list[Event] = yield Read(Events(scope.stream_id, types=COUNTED_TYPES, run_id=run.run_id))
    finished = of_other(events.run_finished("absorbed", tally_of(counted).data))
    return [absorbed, *lapsed, finished]
