"""Cancelling a run from outside: asked of a worker that is alive, carried out where there is none (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from counterfoil.approvals.standing import open_approvals
from counterfoil.core.event import Draft, Part
from counterfoil.core.values import to_json
from counterfoil.errors import (
    Fenced,
    GuardFailed,
    LeaseHeld,
    RunEnded,
    RunNotFound,
    StoreBusy,
    StreamNotFound,
    WrongSequence,
)
from counterfoil.flow.context import LEASE_TTL_MS
from counterfoil.flow.drafting import Person
from counterfoil.flow.event import Event
from counterfoil.flow.outside import CANCELLING
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import (
    Append,
    ClaimSpec,
    Entry,
    Events,
    Flow,
    HeadOf,
    NewId,
    Now,
    Read,
    Release,
    RowOf,
    Rows,
    UnitDraft,
)
from counterfoil.runtime import events, rows
from counterfoil.runtime.children.kin import Kin, RunEnd, kin_at_end
from counterfoil.runtime.events import Said
from counterfoil.runtime.line import next_in_line
from counterfoil.runtime.owner import is_gone
from counterfoil.runtime.resume import COUNTED_TYPES, tally_of
from counterfoil.runtime.spec import worker
from counterfoil.runtime.state import FINISHED, RUNNING
from counterfoil.store.rows import Row, RowIs
from counterfoil.store.unit import Claimed, Head, at

TRIES_MAX: Final = 64
"""How often cancelling looks again because the conversation moved between reading and writing."""

MOVED: Final = (Fenced, LeaseHeld, GuardFailed, WrongSequence, StreamNotFound)
"""What an append is refused with when somebody else was there since it was decided on."""


class Cancelled(Struct, frozen=True):
    """What became of a run that was cancelled. ``repeated``: it had been before, and nothing was written.

    ``done`` is ``ended``, or ``requested``: a worker holds it and ends it at its next call.
    """

    run_id: str
    stream_id: str
    done: Literal["ended", "requested"]
    repeated: bool = False


Judged = Literal["end", "request", "wait", "same", "late"]


def judge_cancel(*, state: str, terminal: str | None, held: bool, requested: bool) -> Judged:
    """What cancelling means for a run: ``held`` says that a live worker has it, ``requested`` that it is asked already.

    ``end`` it here, ``request`` it of its worker, ``wait`` for a worker that was asked; ``same``: it ended so before;
    ``late``: it ended otherwise.
    """
    if state == FINISHED:
        return "same" if terminal == "cancelled" else "late"
    if state == RUNNING and held:
        return "wait" if requested else "request"
    return "end"


def cancel_run(
    run_id: str, *, owner: str, person: Person, reason: str, ports: Ports | None = None
) -> Flow[Cancelled]:
    """Cancel a run in the name of a person. A call under way is never aborted, and an effect in doubt is recovered.

    A live worker sees it at its next call; a run that waits, or whose worker is gone, ends at once. Cancelling again
    changes nothing. Raises ``RunEnded`` for a run that ended otherwise, ``RunNotFound``.
    """
    reason = to_json(reason, "reason")
    for _ in range(TRIES_MAX):
        seen = yield from look_at_run(run_id)
        match judge_cancel(
            state=seen.state, terminal=seen.terminal, held=seen.held, requested=seen.requested
        ):
            case "late":
                raise RunEnded(
                    f"run {run_id} ended as {seen.terminal} before it was cancelled",
                    hint="what it did stands; `counterfoil show` tells it, and a repair corrects it",
                    run_id=run_id,
                    terminal=seen.terminal,
                )
            case "same":
                return Cancelled(run_id, seen.stream_id, "ended", repeated=True)
            case "wait":
                return Cancelled(run_id, seen.stream_id, "requested", repeated=True)
            case judged:
                try:
                    yield from _append(seen, person, reason, owner, ports, end=judged == "end")
                except MOVED:
                    continue
                return Cancelled(run_id, seen.stream_id, "ended" if judged == "end" else "requested")
    raise StoreBusy("the conversation kept changing while its run was cancelled", hint="try again")


class FoundRun(Struct, frozen=True):
    """The run as it was found, and where its conversation stood then."""

    run_id: str
    stream_id: str
    state: str
    terminal: str | None
    head: Head
    held: bool
    requested: bool


def look_at_run(run_id: str) -> Flow[FoundRun]:
    """The run with where its conversation stands. Raises ``RunNotFound``."""
    found: Row | None = yield Read(RowOf(rows.RUNS, (run_id,)))
    if found is None:
        raise RunNotFound(f"there is no run {run_id} in this ledger", run_id=run_id)
    stream_id = str(found["stream_id"])
    # The head is read before the row that is decided on: whatever moves in between is refused at the append.
    head: Head = yield Read(HeadOf(stream_id))
    row: Row = yield Read(RowOf(rows.RUNS, (run_id,)))
    now: int = yield Now()
    lease = head.lease
    asked: list[Event] = yield Read(Events(stream_id, 0, CANCELLING, run_id, 1))
    return FoundRun(
        run_id=run_id,
        stream_id=stream_id,
        state=str(row["state"]),
        terminal=None if row["terminal"] is None else str(row["terminal"]),
        head=head,
        held=lease is not None and now < lease.expires_at_ms and not is_gone(lease.owner),
        requested=bool(asked),
    )


def _append(
    seen: FoundRun, person: Person, reason: str, owner: str, ports: Ports | None, *, end: bool
) -> Flow[None]:
    drafts: list[Draft] = []
    actor = {"type": "human", "id": person.key.key_id}
    if not seen.requested:
        content = {"reason": reason, "by": {"$part": 1}}
        asked = yield from _draft(seen, actor, Said("run.cancel_requested", {}, content))
        asked.parts = (*asked.parts, Part(_name(person), key=person.key))
        drafts.append(asked)
    if end:
        yield from end_run(seen, actor, owner, drafts, ports=ports)
        return
    guard = RowIs(rows.RUNS, (seen.run_id,), frozenset({seen.state}))
    yield Append(UnitDraft((Entry(seen.stream_id, tuple(drafts), at(seen.head.sequence)),), (guard,)))


def end_run(
    seen: FoundRun,
    actor: Mapping[str, str],
    owner: str,
    before: Sequence[Draft] = (),
    *,
    ports: Ports | None = None,
) -> Flow[None]:
    """End an open run that nobody holds as ``cancelled``, in one append with whatever goes ``before``.

    Raises ``ConflictError`` when the conversation moved; then look again.
    """
    guard = RowIs(rows.RUNS, (seen.run_id,), frozenset({seen.state}))
    drafts = list(before)
    claim: ClaimSpec | None = None
    if seen.state == RUNNING:
        # Its worker is gone, or asleep: from here on it can append nothing.
        token = seen.head.token
        claimed = events.run_claimed(token + 1, token, "recovery", worker())
        drafts.append((yield from _draft(seen, actor, claimed)))
        claim = ClaimSpec(seen.stream_id, owner, LEASE_TTL_MS, token)
        if seen.head.lease is not None:
            yield Release(seen.head.lease)
    ending, kin = yield from _ending(seen, actor, ports)
    own = Entry(seen.stream_id, (*drafts, *ending, *kin.drafts), at(seen.head.sequence))
    unit = UnitDraft((own, *kin.entries), (guard, *kin.guards))
    answer: object = yield Append(unit, claim)
    if isinstance(answer, Claimed):
        yield Release(answer.lease)


def _ending(seen: FoundRun, actor: Mapping[str, str], ports: Ports | None) -> Flow[tuple[list[Draft], Kin]]:
    """The end of the run, with what nobody will answer any more, the next input's turn, and what its family is told."""
    drafts = []
    for approval in (yield from open_approvals(seen.run_id)):
        lapsed = events.approval_expired(approval.approval_id, approval.effect_id)
        drafts.append((yield from _draft(seen, actor, lapsed)))
    counted: list[Event] = yield Read(Events(seen.stream_id, types=COUNTED_TYPES, run_id=seen.run_id))
    finished = events.run_finished("cancelled", tally_of(counted).data)
    drafts.append((yield from _draft(seen, actor, finished)))
    kin = yield from kin_at_end(
        RunEnd(seen.stream_id, seen.run_id, "cancelled", drafts[-1].event_id, actor, ports=ports)
    )
    running: list[Row] = yield Read(Rows(rows.RUNS, "by_slot", (seen.stream_id, RUNNING), 2))
    if all(row["run_id"] == seen.run_id for row in running):
        row = yield from next_in_line(seen.stream_id)
        if row is not None:
            released = events.admission_released(str(row["admission_id"]), "operator")
            drafts.append((yield from _draft(seen, actor, released, of_run=False)))
    return drafts, kin


def _draft(seen: FoundRun, actor: Mapping[str, str], said: Said, *, of_run: bool = True) -> Flow[Draft]:
    event_id: str = yield NewId("evt")
    now: int = yield Now()
    return said.draft(event_id, now, actor, run_id=seen.run_id if of_run else None)


def _name(person: Person) -> Mapping[str, Any]:
    return {"name": to_json(person.name, "by")}
