"""Entering a run: an input becomes a run, waits, joins another, or is refused (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.core.event import Draft
from counterfoil.errors import (
    ConflictError,
    Fenced,
    GuardFailed,
    LeaseHeld,
    RunBusy,
    StreamExists,
    WrongSequence,
)
from counterfoil.flow.event import Event
from counterfoil.flow.known import OWN_TYPES, interpreted
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, Entry, Events, Flow, Now, Read, Release, UnitDraft, Wait
from counterfoil.runtime import events, rows
from counterfoil.runtime.children.begin import spawned_spec
from counterfoil.runtime.children.state import run_of
from counterfoil.runtime.decide import (
    Absorb,
    Busy,
    Decision,
    Defer,
    Ended,
    NotYet,
    OtherMessage,
    Reject,
    Replay,
    Resume,
    Start,
    Supersede,
    decide,
)
from counterfoil.runtime.desk import Desk
from counterfoil.runtime.facts import admitted_class, admitted_message, higher
from counterfoil.runtime.look import look
from counterfoil.runtime.refusal import refusal
from counterfoil.runtime.rehearsals import refuse_rehearsal
from counterfoil.runtime.resume import ENTRY_TYPES, tally_of
from counterfoil.runtime.spec import RunSpec, worker
from counterfoil.runtime.state import RUNNING, SUSPENDED, RunState
from counterfoil.runtime.waiting import waiting
from counterfoil.store.rows import Guard, RowIs
from counterfoil.store.unit import Claimed, Lease

TRIES_MAX = 64
"""How often a decision is taken anew because the world moved between looking and claiming."""

WAIT_STEP_S = 0.1
"""How often an input that waits in line looks again."""

_MOVED = (Fenced, LeaseHeld, GuardFailed, WrongSequence, StreamExists)


class Entered(Struct, frozen=True):
    """A run that was entered. ``lease`` None: it has ended and its record is replayed."""

    stream_id: str
    run_id: str
    admission_id: str | None
    lease: Lease | None
    history: Sequence[Event] = ()
    terminal: str | None = None
    spec: RunSpec | None = None
    """As the run began, where that says more than what was asked for."""
    sequence: int | None = None
    """Of the last event that this entry recorded."""


def enter(ports: Ports, spec: RunSpec, owner: str) -> Flow[Entered]:
    """Get the run this input asks for.

    Raises ``RunBusy`` (also for an input that was kept and waits; field ``admission_id``), ``RunWaiting``,
    ``AdmissionConflict``, ``AdmissionAbsorbed`` or ``AdmissionRejected``.
    """
    began: int = yield Now()
    until_ms = began + round(spec.wait_s * 1000)
    while True:
        try:
            return (yield from _try(ports, spec, owner))
        except RunBusy as busy:
            now: int = yield Now()
            if now >= until_ms:
                raise
            # From here on the input waits under the admission that was recorded for it.
            spec = replace(spec, admission_id=busy.fields.get("admission_id") or spec.admission_id)
        yield Wait(min(WAIT_STEP_S, (until_ms - now) / 1000))


def _try(ports: Ports, spec: RunSpec, owner: str) -> Flow[Entered]:
    moved: ConflictError | None = None
    for _ in range(TRIES_MAX):
        seen = yield from look(ports, spec)
        try:
            return (yield from _carry_out(decide(seen.situation), Desk(ports, spec, owner, seen)))
        except _MOVED as error:
            moved = error
    raise RunBusy(
        f"the conversation changed {TRIES_MAX} times while this input asked for a run", hint="try again"
    ) from moved


def _carry_out(decision: Decision, desk: Desk) -> Flow[Entered]:
    match decision:
        case Start():
            return (yield from _start(desk, decision.park))
        case Resume():
            return (yield from _resume(desk, decision))
        case Replay():
            return (yield from _replay(desk, decision.run))
        case Supersede():
            return (yield from _supersede(desk, decision.run))
        case Defer() | Absorb() | Reject():
            return (yield from _turned_away(desk, decision))
        case Busy() | Ended() | OtherMessage() | NotYet():
            raise refusal(desk, decision)
        case _:
            assert_never(decision)


# ---- the decisions that lead into the block ------------------------------------------------------------------------


def _start(desk: Desk, park: RunState | None) -> Flow[Entered]:
    run_id = yield from _next_run(desk)
    if desk.spec.admission_id is not None:
        # Asked for by id, the admitted message is meant: it is what the run's input digest is made of.
        desk.spec = replace(desk.spec, message=(yield from admitted_message(desk.seen.admission_id)))
    if desk.seen.situation.admission is not None:
        # What the input was classified as counts for its run, unless whoever asks classifies it higher.
        admitted = yield from admitted_class(desk.seen.admission_id)
        desk.spec = replace(desk.spec, classification=higher(admitted, desk.spec.classification))
    opened, guards = desk.opening()
    accepted, more = desk.accepting()
    parked_ = yield from desk.parking(park)
    drafts = [*opened, *accepted, *parked_, *desk.starting(run_id, desk.seen.token + 1)]
    claimed = yield from desk.claim(drafts, [*guards, *more, *_still_running(park)])
    return Entered(
        desk.stream_id, run_id, desk.admission_id, claimed.lease, sequence=_last(claimed), spec=desk.spec
    )


def _next_run(desk: Desk) -> Flow[str]:
    """The id of the run to start: in a child's conversation it was fixed with its input, and named by the parent."""
    if not desk.seen.child or desk.seen.admission_id is None:
        return desk.ports.new_id("run")
    run_id = run_of(desk.seen.admission_id)
    desk.spec = yield from spawned_spec(desk.spec, desk.stream_id, run_id)
    return run_id


def _resume(desk: Desk, decision: Resume) -> Flow[Entered]:
    run = decision.run
    yield from refuse_rehearsal(run.run_id)
    yield from _refuse_while_waiting(run, desk.spec.place)
    token = desk.seen.token
    parked_ = yield from desk.parking(decision.park)
    drafts = [
        *parked_,
        desk.draft(events.run_claimed(token + 1, token, decision.cause, worker()), run.run_id),
    ]
    if run.state == SUSPENDED:
        cause = events.wait_cause(run.cause) or "input"
        drafts.append(desk.draft(events.run_resumed(cause, run.waits_for), run.run_id))
    guards = [RowIs(rows.RUNS, (run.run_id,), frozenset({run.state})), *_still_running(decision.park)]
    # Most of it is read before the claim: a record that cannot be understood is not claimed, and no lease runs down.
    history = yield from _history(desk, run)
    claimed = yield from desk.claim(drafts, guards)
    history += yield from _history(desk, run, history[-1].sequence if history else 0)
    admission_id = desk.seen.admission_id
    return Entered(desk.stream_id, run.run_id, admission_id, claimed.lease, history, sequence=_last(claimed))


def _last(claimed: Claimed) -> int | None:
    return None if claimed.receipt is None else claimed.receipt.positions[-1].sequence


def _history(desk: Desk, run: RunState, after: int = 0) -> Flow[list[Event]]:
    """What the run is given of its past. Raises ``UnknownEventType`` for what a newer version wrote."""
    found: list[Event] = yield Read(Events(desk.stream_id, after, ENTRY_TYPES, run.run_id, lightly=True))
    return list(interpreted(OWN_TYPES, found))


def _refuse_while_waiting(run: RunState, place: str | None) -> Flow[None]:
    """A run that waits for a person, or for a retry that is due later, is not entered: nothing could go on.

    And nothing is recorded.
    """
    if run.state != SUSPENDED:
        return
    from counterfoil.runtime.ready import still_waits

    waits = yield from still_waits(run.waits_for)
    if waits:
        raise waiting(run.run_id, waits, run.cause or "input", place=place)


def _replay(desk: Desk, run: RunState) -> Flow[Entered]:
    history = yield from _history(desk, run)
    return Entered(desk.stream_id, run.run_id, desk.seen.admission_id, None, history, run.terminal)


def _supersede(desk: Desk, old: RunState) -> Flow[Entered]:
    """End the run under way in favour of this input; its doubt stays and is recovered (DESIGN 6)."""
    run_id = desk.ports.new_id("run")
    accepted, guards = desk.accepting()
    record: list[Event] = yield Read(
        Events(desk.stream_id, types=ENTRY_TYPES, run_id=old.run_id, lightly=True)
    )
    drafts = [*accepted]
    if old.admission_id is not None:
        superseded = events.admission_superseded(old.admission_id, old.run_id, desk.admission_id)
        drafts.append(desk.draft(superseded))
    drafts += yield from desk.ending(old, events.run_finished("superseded", tally_of(record).data))
    drafts += desk.starting(run_id, desk.seen.token + 1)
    if desk.seen.lease is not None:
        # The claim needs a free lease. Until it is made the old worker may still append, which does no harm.
        yield Release(desk.seen.lease)
    claimed = yield from desk.claim(drafts, [*guards, *_still_running(old)])
    return Entered(desk.stream_id, run_id, desk.admission_id, claimed.lease, sequence=_last(claimed))


def _still_running(run: RunState | None) -> list[Guard]:
    return [] if run is None else [RowIs(rows.RUNS, (run.run_id,), frozenset({RUNNING}))]


# ---- the decisions that do not -------------------------------------------------------------------------------------


def _turned_away(desk: Desk, decision: Defer | Absorb | Reject) -> Flow[Entered]:
    """Record what became of the input, then say so."""
    drafts, guards = turning(desk, decision)
    yield Append(UnitDraft((Entry(desk.stream_id, tuple(drafts), create=desk.create),), tuple(guards)))
    raise refusal(desk, decision)


def turning(desk: Desk, decision: Defer | Absorb | Reject) -> tuple[list[Draft], list[Guard]]:
    """What is recorded of an input that gets no run, and the guards that this rests on."""
    match decision:
        case Defer(cause, behind):
            drafts, guards = desk.accepting()
            drafts.append(
                desk.draft(events.admission_deferred(desk.admission_id, cause), cause=desk.accepted_event_id)
            )
            state = frozenset({behind.state})
            return drafts, [*guards, RowIs(rows.RUNS, (behind.run_id,), state)]
        case Absorb(run):
            drafts, guards = desk.accepting()
            drafts.append(
                desk.draft(
                    events.admission_absorbed(desk.admission_id, run.run_id), cause=desk.accepted_event_id
                )
            )
            return drafts, [*guards, *_still_running(run)]
        case Reject(run):
            person, spec = desk.person(), desk.spec
            run_id = None if run is None else run.run_id
            said = events.admission_rejected(desk.admission_id, spec.message, spec.dedupe, run_id, person)
            return [desk.draft(said, actor=desk.user(person))], []
        case _:
            assert_never(decision)
