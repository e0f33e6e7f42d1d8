"""What stands between spilled values, or artifacts that need a permission, and whoever reads them (seed 003).

What an operation was permitted by is recorded when its output spills. Reading it back asks the authorizer anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from counterfoil.abc.authorizer import AccessDecision, AccessRequest, Actor, Authorizer
from counterfoil.access import events as access_events
from counterfoil.access.decide import ask, record, refused
from counterfoil.access.session import Session
from counterfoil.artifacts.events import SPILLED, STORED, Authority
from counterfoil.artifacts.handle import serving_scope
from counterfoil.artifacts.rows import ARTIFACTS
from counterfoil.artifacts.spill import KIND, spilled_id
from counterfoil.core.artifact import Reference
from counterfoil.core.event import Draft, Header
from counterfoil.core.forms import is_label
from counterfoil.core.keyed import KeyMaterial
from counterfoil.effects.rows import EFFECTS
from counterfoil.errors import AccessRefused, KeyMissing, KeyStoreMissing, KeyWithheld, StoreReadOnly
from counterfoil.flow.drive import drive
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events

if TYPE_CHECKING:
    from counterfoil.client.handle import Handle
    from counterfoil.client.ports import LedgerPorts

STARTED: Final = frozenset({"run.started"})
OBJECTS_MAX: Final = 100
"""Conversations that one object is looked for in; beyond it nobody can say whose it is, and it is refused."""

NAMES: Final = ("tool", "name", "model")
"""Public fields that name the operation, the first that an event has."""


# ---- on the way in ---------------------------------------------------------------------------------------------------


def authority_of(ports: LedgerPorts, stream_id: str, draft: Draft, beside: Sequence[Draft]) -> Authority:
    """What the operation behind a draft was permitted by; ``beside`` are the drafts of its append.

    The permission is the name of the tool, the step or the model, as far as it was declared.
    """
    name = next((draft.data[field] for field in NAMES if field in draft.data), None)
    if name is None and "effect_id" in draft.data:
        row = ports.store.get(EFFECTS.name, (str(draft.data["effect_id"]),))
        name = None if row is None else row["tool"]
    return Authority(
        name if isinstance(name, str) and is_label(name) else None,
        principal_of(ports, stream_id, draft.run_id, beside),
    )


def principal_of(
    ports: LedgerPorts, stream_id: str, run_id: str | None, beside: Sequence[Draft] = ()
) -> str | None:
    """The data key of the person for whom a run acts; None where it acts for nobody in particular."""
    if run_id is None:
        return None
    found: Mapping[str, Any] | None = next(
        (draft.data for draft in beside if draft.event_type in STARTED and draft.run_id == run_id), None
    )
    if found is None:
        said: list[Event] = ports.read(Events(stream_id, types=STARTED, run_id=run_id, limit=1))
        found = said[0].data if said else {}
    principal = found.get("principal")
    return principal if isinstance(principal, str) else None


# ---- on the way out --------------------------------------------------------------------------------------------------


class Gate:
    """Asks a ledger's authorizer before spilled values and artifacts are handed out; refusals are recorded.

    What a run reads of its own is asked for and not recorded: its run is on record, and so is each read session.
    """

    def __init__(self, handle: Handle, authorizer: Authorizer) -> None:
        self._handle = handle
        self._ports = handle.ports
        self.authorizer: Authorizer = authorizer

    def check_spilled(self, header: Header, session: Session | None) -> None:
        """Raise AccessRefused unless what moved out of this event may be read. Each operation is asked for once."""
        asked: set[tuple[str | None, str | None, str | None]] = set()
        for event, klass in self._spilled(header):
            needs = (klass, event.data.get("permission"), event.data.get("principal"))
            if needs not in asked:
                asked.add(needs)
                self._check(event, klass, session)

    def _spilled(self, header: Header) -> list[tuple[Event, str]]:
        """The events that tell of what moved out of this one, found by their ids and not by any row."""
        members = [member for member in header.artifact_refs if member["kind"] == KIND]
        try:
            material = self._ports.material(header.stream_id)
        except (KeyMissing, KeyWithheld, KeyStoreMissing):
            # Without the key nothing of it can be opened either, which is said by whoever tries.
            return []
        ids = {
            spilled_id(material, header.event_id, number, member["sha256"]): member["class"]
            for number, member in enumerate(members)
        }
        found = [self._ports.event(one) for one in self._ports.store.find(header.stream_id, list(ids))]
        known = [(event, ids[event.event_id]) for event in found if event.type == SPILLED]
        if len(known) < len(ids):
            raise _not_recorded("this value")
        return known

    def check_artifact(self, reference: Reference, session: Session | None) -> None:
        """Raise AccessRefused unless an artifact may be read, wherever it was stored: one that allows it is enough."""
        prefix = (self._ports.tenant, reference.sha256)
        rows = self._ports.store.select(ARTIFACTS.name, "by_object", prefix, None, OBJECTS_MAX)
        error: AccessRefused | None = None
        for row in rows:
            for stored in self._ports.store.read(str(row["stream_id"]), int(row["sequence"] or 1) - 1, 1):
                event = self._ports.event(stored)
                if event.type not in (STORED, SPILLED) or not _names(event, reference):
                    continue
                try:
                    self._check(event, reference.klass, session)
                except AccessRefused as refusal:
                    error = refusal
                else:
                    return
        raise error or _not_recorded("this artifact")

    def _check(self, event: Event, klass: str, session: Session | None) -> None:
        request = self._request(event, klass, session)
        key = self._key(request.actor)
        decision: AccessDecision = drive(ask(self.authorizer, request, key), self._ports)
        if not decision.allowed:
            raise self._refused(request, decision)

    def _request(self, event: Event, klass: str, session: Session | None) -> AccessRequest:
        request = AccessRequest(
            "read",
            Actor("counterfoil", "system"),
            "code that reads in this process",
            tenant=self._ports.tenant,
            stream_id=event.stream_id,
            event_id=event.event_id,
            klass=klass,
            permission=event.data.get("permission"),
            principal=event.data.get("principal"),
        )
        scope = serving_scope()
        if session is not None:
            return replace(request, actor=session.actor, purpose=session.request.purpose)
        if scope is None:
            return request
        return replace(
            request,
            actor=Actor(scope.agent, "agent"),
            purpose=f"run {scope.run_id}",
            acts_for=principal_of(self._ports, scope.stream_id, scope.run_id),
        )

    def _key(self, actor: Actor) -> KeyMaterial:
        """The key that stands for the actor in the stream of access; a program has none of its own."""
        streams = self._handle.streams
        if actor.type not in access_events.PEOPLE:
            return self._ports.material(streams.id_of("config"))
        return self._ports.subject_key(streams.ensure("access"), actor.name)

    def _refused(self, request: AccessRequest, decision: AccessDecision) -> AccessRefused:
        """The error, recorded as far as this handle can write at all."""
        try:
            self._handle.check_writable()
        except (StoreReadOnly, KeyStoreMissing):
            return AccessRefused(
                f"to read this was refused by the rule {decision.rule}", action="read", rule=decision.rule
            )
        stream_id = self._handle.streams.ensure("access")
        person = request.actor.type in access_events.PEOPLE
        key = self._key(request.actor) if person else self._ports.material(stream_id)
        said = record(request, decision, stream_id=stream_id, key=key, detail={"of": "artifact"})
        return refused(request, drive(said, self._ports))


def _not_recorded(what: str) -> AccessRefused:
    return AccessRefused(
        f"nobody can say what permitted the operation that made {what}",
        hint="the events or rows that tell of it are not whole: see `counterfoil verify`",
        rule="not-recorded",
    )


def _names(event: Event, reference: Reference) -> bool:
    return any(member["sha256"] == reference.sha256 for member in event.header.artifact_refs)
