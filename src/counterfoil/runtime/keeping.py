"""Inputs that are taken in without a run: kept for a worker, until a time, or until a person lets them in (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.core.event import Draft
from counterfoil.errors import (
    AdmissionNotFound,
    AdmissionTaken,
    ConflictError,
    GuardFailed,
    StoreBusy,
    StreamExists,
    WrongSequence,
)
from counterfoil.flow.drafting import Person
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, Entry, Flow, NewId, Now, Read, RowOf, UnitDraft
from counterfoil.runtime import events, rows
from counterfoil.runtime.admit import TRIES_MAX, turning
from counterfoil.runtime.decide import Absorb, Defer, Keep, Known, OtherMessage, Reject, decide_keeping
from counterfoil.runtime.desk import Desk
from counterfoil.runtime.events import Said
from counterfoil.runtime.look import look
from counterfoil.runtime.refusal import refusal
from counterfoil.runtime.spec import RunSpec
from counterfoil.runtime.state import ABSORBED, ACCEPTED, DEFERRED, RELEASED, AdmissionState
from counterfoil.store.rows import Guard, Row, RowIs

WAITING: Final = frozenset({ACCEPTED, DEFERRED, RELEASED})
"""States of an input that has no run yet and may get one."""

_MOVED: Final = (GuardFailed, WrongSequence, StreamExists)


class Admitted(Struct, frozen=True):
    """An input that was taken in.

    ``state`` is ``released`` (whoever takes it up may start it), ``deferred`` (``cause`` says why, ``due_ms`` until when),
    ``absorbed`` (``run_id`` reads it), or, for one that came again, whatever has become of it.
    """

    admission_id: str
    stream_id: str
    state: str
    cause: str | None = None
    due_ms: int | None = None
    run_id: str | None = None


class Beside(Struct, frozen=True):
    """What brings an input: recorded in the same unit, before it.

    ``make`` gives the drafts and the guards that they rest on; a guard on ``table`` that fails is the caller's affair.
    ``came_ms`` is the time that the input had waited for.
    """

    make: Callable[[Desk], tuple[Sequence[Draft], Sequence[Guard]]]
    table: str
    came_ms: int


def keep_flow(
    ports: Ports,
    spec: RunSpec,
    owner: str,
    until_ms: int | None,
    beside: Beside | None = None,
) -> Flow[Admitted]:
    """Take an input in, once for its dedupe key, and let nobody run it here.

    ``GuardFailed`` about the table of what stands ``beside`` it is the caller's: that has changed. Raises ``AdmissionConflict`` for another message under the key, ``AdmissionRejected`` where the conversation refuses.
    """
    moved: ConflictError | None = None
    for _ in range(TRIES_MAX):
        seen = yield from look(ports, spec)
        desk = Desk(ports, spec, owner, seen)
        try:
            return (yield from _carry_out(desk, until_ms, beside))
        except _MOVED as error:
            if beside is not None and error.fields.get("table") == beside.table:
                raise
            moved = error
    raise StoreBusy(f"the conversation changed {TRIES_MAX} times while this input was taken in") from moved


def _carry_out(desk: Desk, until_ms: int | None, beside: Beside | None) -> Flow[Admitted]:
    decision = decide_keeping(replace(desk.seen.situation, now_ms=desk.now_ms), until_ms)
    match decision:
        case Known() | OtherMessage():
            if beside is not None:
                drafts, guards = beside.make(desk)
                yield Append(UnitDraft((Entry(desk.stream_id, tuple(drafts)),), tuple(guards)))
            if isinstance(decision, OtherMessage):
                raise refusal(desk, decision)
            return _as_it_is(desk, decision.admission)
        case Keep() | Defer() | Absorb() | Reject():
            before, guards = ((), ()) if beside is None else beside.make(desk)
            drafts, more = (
                _keeping(desk, decision, beside) if isinstance(decision, Keep) else turning(desk, decision)
            )
            unit = Entry(desk.stream_id, (*before, *drafts), create=desk.create)
            yield Append(UnitDraft((unit,), (*guards, *more)))
            if isinstance(decision, Reject):
                raise refusal(desk, decision)
            return _admitted(desk, decision)
        case _:
            assert_never(decision)


def _keeping(desk: Desk, keep: Keep, beside: Beside | None) -> tuple[list[Draft], list[Guard]]:
    opened, guards = desk.opening()
    accepted, more = desk.accepting()
    if beside is not None:
        said = events.admission_released(desk.admission_id, "until", beside.came_ms)
    elif keep.until_ms is None:
        said = events.admission_released(desk.admission_id, "operator")
    else:
        said = events.admission_deferred(desk.admission_id, "until", keep.until_ms)
    kept = desk.draft(said, cause=desk.accepted_event_id)
    return [*opened, *accepted, kept], [*guards, *more]


def _admitted(desk: Desk, decision: Keep | Defer | Absorb) -> Admitted:
    match decision:
        case Absorb(run):
            return Admitted(desk.admission_id, desk.stream_id, ABSORBED, run_id=run.run_id)
        case Defer(cause, _):
            return Admitted(desk.admission_id, desk.stream_id, DEFERRED, cause)
        case Keep(None):
            return Admitted(desk.admission_id, desk.stream_id, RELEASED, "operator")
        case Keep(until_ms):
            return Admitted(desk.admission_id, desk.stream_id, DEFERRED, "until", until_ms)
        case _:
            assert_never(decision)


def _as_it_is(desk: Desk, admission: AdmissionState) -> Admitted:
    timed = admission.state == DEFERRED and admission.cause == "until"
    return Admitted(
        admission.admission_id,
        desk.stream_id,
        admission.state,
        admission.cause,
        admission.due_ms if timed else None,
        admission.run_id,
    )


# ---- by a person ---------------------------------------------------------------------------------------------------


def defer_flow(admission_id: str, person: Person, until_ms: int | None) -> Flow[Admitted]:
    """Have an input wait that has no run yet: until a time, or until somebody lets it in. Again changes nothing.

    Raises ``AdmissionNotFound``, or ``AdmissionTaken`` where it has a run, joined one, or was refused.
    """
    cause: events.DeferCause = "operator" if until_ms is None else "until"
    said = events.admission_deferred(admission_id, cause, until_ms)
    return (yield from _move(admission_id, person, said, DEFERRED, until_ms))


def let_in_flow(admission_id: str, person: Person) -> Flow[Admitted]:
    """Let an input wait no more: whoever takes it up may start it. Raises as :func:`defer_flow`."""
    said = events.admission_released(admission_id, "operator")
    return (yield from _move(admission_id, person, said, RELEASED, None))


def _move(admission_id: str, person: Person, said: Said, state: str, until_ms: int | None) -> Flow[Admitted]:
    cause = str(said.data["cause"])
    for _ in range(TRIES_MAX):
        row = yield from admission_row(admission_id)
        admission = rows.admission_of_row(row)
        if admission.state not in WAITING:
            raise AdmissionTaken(
                f"input {admission_id} waits no more: it is {admission.state}",
                admission_id=admission_id,
                state=admission.state,
                run_id=admission.run_id,
            )
        stream_id = str(row["stream_id"])
        moved = Admitted(admission_id, stream_id, state, cause, until_ms)
        same_time = state == RELEASED or until_ms is None or until_ms == admission.due_ms
        if admission.state == state and (state == RELEASED or admission.cause == cause) and same_time:
            return moved
        event_id: str = yield NewId("evt")
        now: int = yield Now()
        draft = said.draft(event_id, now, {"type": "human", "id": person.key.key_id})
        guard = RowIs(rows.ADMISSIONS, (admission_id,), version=int(row["row_version"] or 0))
        try:
            yield Append(UnitDraft((Entry(stream_id, (draft,)),), (guard,)))
        except GuardFailed:
            continue
        return moved
    raise StoreBusy(f"input {admission_id} kept changing", hint="try again")


def admission_row(admission_id: str) -> Flow[Row]:
    """The row of an input. Raises ``AdmissionNotFound``."""
    row: Row | None = yield Read(RowOf(rows.ADMISSIONS, (admission_id,)))
    if row is None:
        raise AdmissionNotFound(f"there is no input {admission_id} in this ledger", admission_id=admission_id)
    return row
