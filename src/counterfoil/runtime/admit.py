"""Entering a run: an input becomes a run, waits, joins another, or is refused (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from counterfoil.core import canonical
from counterfoil.core.event import Draft
from counterfoil.core.genesis import Genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import (
    AdmissionAbsorbed,
    AdmissionConflict,
    AdmissionRejected,
    ConflictError,
    Fenced,
    GuardFailed,
    LeaseHeld,
    RunBusy,
    RunWaiting,
    StreamExists,
    WrongSequence,
)
from counterfoil.flow.context import LEASE_TTL_MS
from counterfoil.flow.event import Event
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, ClaimSpec, Entry, Events, Flow, Now, Read, UnitDraft, Wait
from counterfoil.runtime import events, rows
from counterfoil.runtime.decide import (
    Absorb,
    Busy,
    Decision,
    Defer,
    Ended,
    OtherMessage,
    Reject,
    Replay,
    Resume,
    Start,
    Supersede,
    decide,
)
from counterfoil.runtime.doubt import open_reviews, parked
from counterfoil.runtime.events import CONVERSATION_SCOPE, TENANT_SCOPE, Said
from counterfoil.runtime.known import OWN_TYPES, interpreted
from counterfoil.runtime.look import Seen, look
from counterfoil.runtime.resume import ENTRY_TYPES, tally_of
from counterfoil.runtime.spec import RunSpec, worker
from counterfoil.runtime.state import DEFERRED, FINISHED, RELEASED, RUNNING, SUSPENDED, RunState
from counterfoil.store.rows import Absent, Guard, RowIs
from counterfoil.store.unit import Claimed, Lease

TRIES_MAX = 64
"""How often a decision is taken anew because the world moved between looking and claiming."""

WAIT_STEP_S = 0.1
"""How often an input that waits in line looks again."""

_MOVED = (Fenced, LeaseHeld, GuardFailed, WrongSequence, StreamExists)


@dataclass(frozen=True, slots=True)
class Entered:
    """A run that was entered. ``lease`` None: it has ended and its record is replayed."""

    stream_id: str
    run_id: str
    admission_id: str | None
    lease: Lease | None
    history: Sequence[Event] = ()
    terminal: str | None = None


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
            return (yield from _carry_out(decide(seen.situation), _Desk(ports, spec, owner, seen)))
        except _MOVED as error:
            moved = error
    raise RunBusy(
        f"the conversation changed {TRIES_MAX} times while this input asked for a run", hint="try again"
    ) from moved


def _carry_out(decision: Decision, desk: _Desk) -> Flow[Entered]:
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
        case Busy() | Ended() | OtherMessage():
            raise _refusal(desk, decision)
        case _:
            assert_never(decision)


class _Desk:
    """What one attempt works with: what was asked, what was seen, and drafts in its name."""

    def __init__(self, ports: Ports, spec: RunSpec, owner: str, seen: Seen) -> None:
        self.ports = ports
        self.spec = spec
        self.owner = owner
        self.seen = seen
        self.now_ms = ports.now_ms()
        self.agent = {"type": "agent", "id": spec.agent} | (
            {"identity_version": spec.agent_version} if spec.agent_version else {}
        )
        self.create: Genesis | None = None
        if seen.stream_id is None:
            self.create = ports.new_genesis("conversation")
        self.stream_id = seen.stream_id or self.create.stream_id if self.create else str(seen.stream_id)
        self.admission_id = seen.admission_id or ports.new_id("adm")

    def draft(self, said: Said, run_id: str | None = None, actor: dict[str, str] | None = None) -> Draft:
        """A draft in the agent's name."""
        return said.draft(self.ports.new_id("evt"), self.now_ms, actor or self.agent, run_id=run_id)

    def material(self) -> KeyMaterial:
        """The stream key."""
        return self.ports.stream_material(self.create) if self.create else self.ports.material(self.stream_id)

    def person(self) -> KeyMaterial | None:
        """The key of the person this input is about, if one was named."""
        return (
            None if self.spec.subject is None else self.ports.subject_key(self.stream_id, self.spec.subject)
        )

    # ---- groups of drafts with the guards they rest on ----

    def opening(self) -> tuple[list[Draft], list[Guard]]:
        """The conversation's first event, if it is new."""
        if self.create is None:
            return [], []
        spec, now = self.spec, self.seen.situation
        said = events.conversation_opened(
            spec.agent, now.while_running, now.while_suspended, "live", name=self.seen.name, title=spec.title
        )
        if self.seen.name is None:
            return [self.draft(said)], []
        taken = rows.name_index(self.ports.index, self.seen.name)
        return [self.draft(said)], [Absent(rows.NAMES, (self.ports.tenant, taken))]

    def accepting(self) -> tuple[list[Draft], list[Guard]]:
        """The input as accepted; or, if it waited, as released."""
        known = self.seen.situation.admission
        if known is not None:
            guard = RowIs(rows.ADMISSIONS, (known.admission_id,), frozenset({known.state}))
            released = events.admission_released(known.admission_id, "live_run")
            return ([self.draft(released)] if known.state == DEFERRED else []), [guard]
        spec = self.spec
        scope = TENANT_SCOPE if spec.conversation is None else CONVERSATION_SCOPE
        person = self.person()
        said = events.admission_accepted(self.admission_id, spec.message, spec.dedupe, scope, person)
        linked = [] if person is None else self.linking(person)
        return [*linked, self.draft(said, actor=self.user(person))], self.unique(scope)

    def linking(self, person: KeyMaterial) -> list[Draft]:
        """Says whom the key belongs to, the first time it is used."""
        assert self.spec.subject is not None
        return [self.draft(events.subject_linked(person, self.spec.subject))] if self.create else []

    def unique(self, scope: str) -> list[Guard]:
        """The guard that makes one dedupe key one admission."""
        if self.spec.dedupe is None:
            return []
        key = rows.key_index(
            self.ports.index, self.spec.dedupe, None if scope == TENANT_SCOPE else self.stream_id
        )
        return [Absent(rows.ADMISSION_KEYS, (self.ports.tenant, key))]

    def user(self, person: KeyMaterial | None) -> dict[str, str]:
        """Who sent the input: a person appears only as the id of a data key (FORMAT 3)."""
        return {"type": "user", "id": (person or self.material()).key_id}

    def started(self, run_id: str, token: int) -> Draft:
        """The run's first event."""
        spec, material = self.spec, self.material()
        principal = None if spec.principal is None else self.ports.subject_key(self.stream_id, spec.principal)
        said = events.run_started(
            spec.agent,
            admission_id=self.admission_id,
            agent_version=spec.agent_version,
            input_digest=material.digest("input", [run_id], spec.message_bytes),
            configuration_digest=material.digest(
                "configuration", [run_id], canonical.encode(dict(spec.configuration))
            ),
            classification=spec.classification,
            principal=None if principal is None else principal.key_id,
            fencing_token=token,
            configuration=spec.configuration,
            worker=worker(),
        )
        return self.draft(said, run_id)

    def parking(self, run: RunState | None) -> Flow[list[Draft]]:
        """The end, or the suspension, of a run whose worker vanished from the slot."""
        if run is None:
            return []
        said = yield from parked(self.stream_id, run)
        return [self.draft(said, run.run_id)]

    # ---- writing ----

    def claim(self, drafts: Sequence[Draft], guards: Sequence[Guard]) -> Flow[Claimed]:
        """Append and take the lease in one transaction."""
        unit = UnitDraft((Entry(self.stream_id, tuple(drafts), create=self.create),), tuple(guards))
        claim = ClaimSpec(self.stream_id, self.owner, LEASE_TTL_MS, self.seen.token)
        claimed: Claimed = yield Append(unit, claim)
        return claimed


# ---- the decisions that lead into the block ------------------------------------------------------------------------


def _start(desk: _Desk, park: RunState | None) -> Flow[Entered]:
    run_id = desk.ports.new_id("run")
    opened, guards = desk.opening()
    accepted, more = desk.accepting()
    parked_ = yield from desk.parking(park)
    drafts = [*opened, *accepted, *parked_, desk.started(run_id, desk.seen.token + 1)]
    claimed = yield from desk.claim(drafts, [*guards, *more, *_still_running(park)])
    return Entered(desk.stream_id, run_id, desk.admission_id, claimed.lease)


def _resume(desk: _Desk, decision: Resume) -> Flow[Entered]:
    run = decision.run
    yield from _refuse_while_reviewed(run)
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
    return Entered(desk.stream_id, run.run_id, desk.seen.admission_id, claimed.lease, history)


def _history(desk: _Desk, run: RunState, after: int = 0) -> Flow[list[Event]]:
    """What the run is given of its past. Raises ``UnknownEventType`` for what a newer version wrote."""
    found: list[Event] = yield Read(Events(desk.stream_id, after, ENTRY_TYPES, run.run_id))
    return list(interpreted(OWN_TYPES, found))


def _refuse_while_reviewed(run: RunState) -> Flow[None]:
    """A run that waits for a person is not entered before the answer: nothing could go on, and nothing is recorded."""
    open_ = yield from open_reviews(run.waits_for)
    if run.state == SUSPENDED and open_:
        raise RunWaiting(
            f"run {run.run_id} waits for {', '.join(open_)}",
            hint="settle it with `counterfoil review`, then run this again",
            run_id=run.run_id,
            cause=run.cause,
            waits_for=run.waits_for,
        )


def _replay(desk: _Desk, run: RunState) -> Flow[Entered]:
    history = yield from _history(desk, run)
    return Entered(desk.stream_id, run.run_id, desk.seen.admission_id, None, history, run.terminal)


def _supersede(desk: _Desk, old: RunState) -> Flow[Entered]:
    """End the run under way in favour of this input; its doubt stays and is recovered (DESIGN 6)."""
    run_id = desk.ports.new_id("run")
    accepted, guards = desk.accepting()
    record: list[Event] = yield Read(Events(desk.stream_id, types=ENTRY_TYPES, run_id=old.run_id))
    drafts = [*accepted]
    if old.admission_id is not None:
        superseded = events.admission_superseded(old.admission_id, old.run_id, desk.admission_id)
        drafts.append(desk.draft(superseded))
    drafts.append(desk.draft(events.run_finished("superseded", tally_of(record).data), old.run_id))
    drafts.append(desk.started(run_id, desk.seen.token + 1))
    if desk.seen.lease is not None:
        # The claim needs a free lease. Until it is made the old worker may still append, which does no harm.
        desk.ports.release(desk.seen.lease)
    claimed = yield from desk.claim(drafts, [*guards, *_still_running(old)])
    return Entered(desk.stream_id, run_id, desk.admission_id, claimed.lease)


def _still_running(run: RunState | None) -> list[Guard]:
    return [] if run is None else [RowIs(rows.RUNS, (run.run_id,), frozenset({RUNNING}))]


# ---- the decisions that do not -------------------------------------------------------------------------------------


def _turned_away(desk: _Desk, decision: Defer | Absorb | Reject) -> Flow[Entered]:
    """Record what became of the input, then say so."""
    drafts, guards = _turning(desk, decision)
    yield Append(UnitDraft((Entry(desk.stream_id, tuple(drafts), create=desk.create),), tuple(guards)))
    raise _refusal(desk, decision)


def _turning(desk: _Desk, decision: Defer | Absorb | Reject) -> tuple[list[Draft], list[Guard]]:
    match decision:
        case Defer(cause, behind):
            drafts, guards = desk.accepting()
            drafts.append(desk.draft(events.admission_deferred(desk.admission_id, cause)))
            state = frozenset({behind.state})
            return drafts, [*guards, RowIs(rows.RUNS, (behind.run_id,), state)]
        case Absorb(run):
            drafts, guards = desk.accepting()
            drafts.append(desk.draft(events.admission_absorbed(desk.admission_id, run.run_id)))
            return drafts, [*guards, *_still_running(run)]
        case Reject(run):
            person, spec = desk.person(), desk.spec
            run_id = None if run is None else run.run_id
            said = events.admission_rejected(desk.admission_id, spec.message, spec.dedupe, run_id, person)
            return [desk.draft(said, actor=desk.user(person))], []
        case _:
            assert_never(decision)


def _refusal(desk: _Desk, decision: Defer | Absorb | Reject | Busy | Ended | OtherMessage) -> ConflictError:
    admission_id = desk.admission_id
    match decision:
        case Defer(_, behind):
            return RunBusy(
                f"run {behind.run_id} comes first; this input is kept as {admission_id} and waits",
                hint="ask again with the same dedupe key, or give wait_s to wait in line",
                run_id=behind.run_id,
                admission_id=admission_id,
                deferred=True,
            )
        case Busy(run):
            waits = desk.seen.situation.admission
            busy = (
                "the conversation is held by another worker"
                if run is None
                else f"run {run.run_id} is under way"
            )
            return RunBusy(
                busy,
                hint="try again when it has ended or its lease has expired",
                run_id=None if run is None else run.run_id,
                admission_id=admission_id
                if waits is not None and waits.state in {DEFERRED, RELEASED}
                else None,
            )
        case Absorb(run):
            return _absorbed(admission_id, run.run_id)
        case Reject(run, why):
            return AdmissionRejected(
                f"the conversation refuses this input: {why}",
                hint="try again later, or open another conversation",
                admission_id=admission_id,
                run_id=None if run is None else run.run_id,
            )
        case Ended(admission):
            if admission.state == "absorbed":
                return _absorbed(admission.admission_id, admission.run_id)
            return AdmissionRejected(
                f"this input was {admission.state}",
                admission_id=admission.admission_id,
                run_id=admission.run_id,
            )
        case OtherMessage(admission):
            return AdmissionConflict(
                f"the dedupe key belongs to admission {admission.admission_id}, which came with another message",
                hint="a dedupe key names one message: use the message's own id",
                admission_id=admission.admission_id,
                run_id=admission.run_id,
            )
        case _:
            assert_never(decision)


def _absorbed(admission_id: str, run_id: str | None) -> AdmissionAbsorbed:
    return AdmissionAbsorbed(
        f"this input joined run {run_id}, which is under way",
        hint="that run reads it with run.inputs()",
        admission_id=admission_id,
        run_id=run_id,
    )


_ = FINISHED
