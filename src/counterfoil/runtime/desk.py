"""What one attempt to enter a run works with: what was asked, what was seen, and the drafts made in its name."""

from __future__ import annotations

from collections.abc import Sequence

from counterfoil.approvals.standing import open_approvals
from counterfoil.core import canonical
from counterfoil.core.event import Draft
from counterfoil.core.genesis import Genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.flow.context import LEASE_TTL_MS
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, ClaimSpec, Entry, Flow, Release, UnitDraft
from counterfoil.runtime import events, rows
from counterfoil.runtime.budgets.check import starting_limits
from counterfoil.runtime.budgets.events import budget_set
from counterfoil.runtime.children.kin import Kin, RunEnd, kin_at_end
from counterfoil.runtime.doubt import parked
from counterfoil.runtime.events import CONVERSATION_SCOPE, TENANT_SCOPE, Said
from counterfoil.runtime.look import Seen
from counterfoil.runtime.spec import RunSpec, worker
from counterfoil.runtime.state import DEFERRED, RunState
from counterfoil.store.rows import Absent, Guard, RowIs
from counterfoil.store.unit import Claimed


class Desk:
    """What one attempt works with: what was asked, what was seen, and drafts in its name."""

    def __init__(self, ports: Ports, spec: RunSpec, owner: str, seen: Seen) -> None:
        self.ports = ports
        self.spec = spec
        self.owner = owner
        self.seen = seen
        self.now_ms: int = ports.now_ms()
        self.agent: dict[str, str] = {"type": "agent", "id": spec.agent} | (
            {"identity_version": spec.agent_version} if spec.agent_version else {}
        )
        self.kin: Kin = Kin()
        """What others are told of runs that end here; it goes with the claim."""
        self.create: Genesis | None = None
        if seen.stream_id is None:
            self.create = ports.new_genesis("conversation")
            self.stream_id: str = self.create.stream_id
        else:
            self.stream_id = seen.stream_id
        self.accepted_event_id: str | None = None
        self.admission_id: str = seen.admission_id or ports.new_id("adm")

    def draft(
        self,
        said: Said,
        run_id: str | None = None,
        actor: dict[str, str] | None = None,
        cause: str | None = None,
    ) -> Draft:
        """A draft in the agent's name; ``cause`` is the event that it follows from."""
        event_id = self.ports.new_id("evt")
        return said.draft(event_id, self.now_ms, actor or self.agent, run_id=run_id, causation_event_id=cause)

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
            guard = RowIs(
                rows.ADMISSIONS,
                (known.admission_id,),
                frozenset({known.state}),
                self.seen.admission_version,
            )
            due_ms = known.due_ms if known.cause == "until" else None
            released = events.admission_released(known.admission_id, events.defer_cause(known.cause), due_ms)
            return ([self.draft(released)] if known.state == DEFERRED else []), [guard]
        spec = self.spec
        scope = TENANT_SCOPE if spec.conversation is None else CONVERSATION_SCOPE
        person = self.person()
        said = events.admission_accepted(
            self.admission_id, spec.message, spec.dedupe, scope, person, spec.classification
        )
        linked = [] if person is None else self.linking(person)
        accepted = self.draft(said, actor=self.user(person))
        self.accepted_event_id = accepted.event_id
        return [*linked, accepted], self.unique(scope)

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

    def starting(self, run_id: str, token: int) -> list[Draft]:
        """The run's first events: that it begins, and what it may use."""
        limits = [self.draft(budget_set(limit), run_id) for limit in starting_limits(self.spec)]
        return [self.started(run_id, token), *limits]

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
            policy_revision=spec.policy_revision,
            fencing_token=token,
            configuration=spec.configuration,
            worker=worker(),
            rehearsal_of=spec.rehearsal_of,
        )
        return self.draft(said, run_id, cause=self.accepted_event_id)

    def parking(self, run: RunState | None) -> Flow[list[Draft]]:
        """The end, or the suspension, of a run whose worker vanished from the slot."""
        if run is None:
            return []
        said = yield from parked(self.stream_id, run)
        if said.type == "run.suspended":
            return [self.draft(said, run.run_id)]
        return (yield from self.ending(run, said))

    def ending(self, run: RunState, said: Said) -> Flow[list[Draft]]:
        """The end of a run that was in the way, with what nobody will answer any more; its family is told."""
        lapsed = yield from self.lapsing(run)
        finished = self.draft(said, run.run_id)
        end = RunEnd(
            self.stream_id,
            run.run_id,
            said.data["terminal"],
            finished.event_id,
            self.agent,
            ports=self.ports,
        )
        kin = yield from kin_at_end(end)
        self.kin += kin
        return [*lapsed, finished, *kin.drafts]

    def lapsing(self, run: RunState) -> Flow[list[Draft]]:
        """What people were asked for a run that ends now; nobody will use an answer any more."""
        asked = yield from open_approvals(run.run_id)
        return [
            self.draft(events.approval_expired(approval.approval_id, approval.effect_id), run.run_id)
            for approval in asked
        ]

    # ---- writing ----

    def claim(self, drafts: Sequence[Draft], guards: Sequence[Guard]) -> Flow[Claimed]:
        """Append and take the lease in one transaction."""
        lease = self.seen.lease
        if lease is not None and self.seen.situation.lapsed and lease.expires_at_ms > self.now_ms:
            # Its process is gone: what it held is free before the time is up.
            yield Release(lease)
        own = Entry(self.stream_id, tuple(drafts), create=self.create)
        unit = UnitDraft((own, *self.kin.entries), (*guards, *self.kin.guards))
        claim = ClaimSpec(self.stream_id, self.owner, LEASE_TTL_MS, self.seen.token)
        claimed: Claimed = yield Append(unit, claim)
        return claimed
