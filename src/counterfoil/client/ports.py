"""The ledger behind the flows: seals drafts, derives their rows, appends, reads and opens content."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from counterfoil.abc import ArtifactStore, Clock, Ids
from counterfoil.artifacts.vault import Vault
from counterfoil.client.adopting import Adoptions
from counterfoil.client.deriving import rows_by_type, stand_ins_by_type
from counterfoil.client.lightly import light_events
from counterfoil.client.lookback import LookBack
from counterfoil.client.opening import open_content, unreadable
from counterfoil.client.putting import put_artifact
from counterfoil.core.artifact import Reference
from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Draft, Header, SpillDue, prepare, read_header
from counterfoil.core.genesis import ContentMode, Genesis, make_genesis, parse_genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import (
    AccessRefused,
    AppendTimeout,
    CounterfoilError,
    InputError,
    InvalidUnit,
    KeyMissing,
    StreamNotFound,
    WrongSequence,
)
from counterfoil.flow.calls import off_the_loop
from counterfoil.flow.event import Event
from counterfoil.flow.loops import to_thread
from counterfoil.flow.requests import (
    ClaimSpec,
    Entry,
    Events,
    EventsById,
    HeadOf,
    PutArtifact,
    Query,
    RowOf,
    Rows,
    Stored,
    UnitDraft,
)
from counterfoil.keys.keyring import Keyring
from counterfoil.store.aio import AsyncAppender
from counterfoil.store.contract import Store
from counterfoil.store.facts import recorded_fact, resolved
from counterfoil.store.rows import Fact, Feature, RecordedAtOf, RowChange, SequenceOf
from counterfoil.store.unit import (
    ANY,
    Claimed,
    Lease,
    Outcome,
    Receipt,
    Refusal,
    StoredEvent,
    StreamAppend,
    Unit,
    at,
)

if TYPE_CHECKING:
    from counterfoil.access.session import Session
    from counterfoil.client.gating import Gate
    from counterfoil.projections.keeper import Keeper

APPEND_DEADLINE_S = 60.0
"""Longest wait for one append; after it the outcome is unknown until the same ids are sent again."""

PAGE_EVENTS = 500

WITHOUT_KEY = frozenset({"effect.settled"})
"""What may be recorded without content where the stream's key is gone: how an effect ended must not depend on it."""

REMOTE_ENGINES = frozenset({"postgresql"})
"""Engines that answer over a network: an event loop does not wait for them."""

ADOPTION_TRIES = 5
"""How often an append to a foreign stream is made again because another one adopted it first, or added to it."""

GENESES_KEPT_MAX = 4096
"""Parsed genesis texts kept at once; beyond it the cache starts anew."""


class LedgerPorts:
    """Implements :class:`counterfoil.flow.ports.Ports` over a store and a keyring. Thread-safe.

    ``session`` is the read session that content is shown in where none is named; without one and with a reason in
    ``withheld`` none is shown. Both are for programs that serve one person, such as the command line.
    """

    def __init__(
        self,
        store: Store,
        keyring: Keyring,
        *,
        tenant: str,
        features: Sequence[Feature],
        registry: Registry,
        clock: Clock,
        ids: Ids,
        content: ContentMode = "sealed",
        artifacts: ArtifactStore | None = None,
        config_stream_id: str = "",
    ) -> None:
        self.store = store
        self.keyring = keyring
        self.registry = registry
        self.clock = clock
        self.ids = ids
        self._tenant = tenant
        self._content: ContentMode = content
        self._genesis: dict[str, Genesis] = {}
        self._tenants: dict[str, str] = {}
        self._rows_of = rows_by_type(features)
        self._stands_in_of = stand_ins_by_type(features)
        self._appender = AsyncAppender(store)
        self.vault: Vault = Vault(artifacts, keyring.material)
        self.gate: Gate | None = None
        self.session: Session | None = None
        self.withheld: str = ""
        self._config_stream_id = config_stream_id
        self._adoptions = Adoptions(self)
        self.keeper: Keeper | None = None
        """Who makes checkpoints of what was appended; None where nobody has declared a projection."""
        self._look_back = LookBack(config_stream_id)
        self._remote = store.capabilities.engine in REMOTE_ENGINES

    @property
    def tenant(self) -> str:
        """The tenant these ports work for."""
        return self._tenant

    # ---- writing ----

    def append(self, unit: UnitDraft, claim: ClaimSpec | None = None) -> Receipt | Claimed:
        """Seal, derive rows, append and wait; a refusal is raised. Raises ``AppendTimeout`` after 60 s."""
        receipt = self._recorded(unit, claim)
        if self.keeper is not None and (due := self.keeper.due(unit)):
            self.keeper.keep(due)
        return receipt

    def _recorded(self, unit: UnitDraft, claim: ClaimSpec | None) -> Receipt | Claimed:
        for _ in range(ADOPTION_TRIES):
            try:
                return self._append(unit, claim)
            except WrongSequence:
                if not self._adoptions.race(unit):
                    raise
        return self._append(unit, claim)

    def _append(self, unit: UnitDraft, claim: ClaimSpec | None) -> Receipt | Claimed:
        objects: list[bytes] = []
        ready = self._ready(unit, objects)
        if objects:
            self.vault.put_objects(objects)
        if claim is not None:
            return self._claim(ready, claim)
        future = self.store.append([ready])
        try:
            (outcome,) = future.result(APPEND_DEADLINE_S)
        except FutureTimeout:
            raise AppendTimeout(f"the append was not answered within {APPEND_DEADLINE_S:g} s") from None
        return _receipt(outcome)

    async def aappend(self, unit: UnitDraft, claim: ClaimSpec | None = None) -> Receipt | Claimed:
        """As :meth:`append`; callers of one event-loop iteration share a commit."""
        receipt = await self._arecorded(unit, claim)
        if self.keeper is not None and (due := self.keeper.due(unit)):
            await off_the_loop(self.keeper.keep, due)
        return receipt

    async def _arecorded(self, unit: UnitDraft, claim: ClaimSpec | None) -> Receipt | Claimed:
        for _ in range(ADOPTION_TRIES):
            try:
                return await self._aappend(unit, claim)
            except WrongSequence:
                if not self._adoptions.race(unit):
                    raise
        return await self._aappend(unit, claim)

    async def _aappend(self, unit: UnitDraft, claim: ClaimSpec | None) -> Receipt | Claimed:
        objects: list[bytes] = []
        try:
            ready = self._ready(unit, objects, asking=not self._remote)
        except SpillDue:
            ready = await to_thread(self._ready, unit, objects)
        if objects:
            await to_thread(self.vault.put_objects, objects)
        if claim is not None:
            return await off_the_loop(self._claim, ready, claim)
        (outcome,) = await self._appender.append([ready])
        return _receipt(outcome)

    def ready(self, unit: UnitDraft) -> Unit:
        """The unit as a store takes it, for whoever records it together with something else."""
        objects: list[bytes] = []
        made = self._ready(unit, objects)
        if objects:
            self.vault.put_objects(objects)
        return made

    def has_rows(self, event_type: str) -> bool:
        """Whether rows follow from events of this type."""
        return event_type in self._rows_of

    def rows(self, tenant: str, header: Header, content: Mapping[str, Any] | None) -> list[RowChange]:
        """The rows that follow from a recorded event; what cannot be made for want of content is left out."""
        fact, changes = recorded_fact(tenant, header, content), list[RowChange]()
        for derive in self._rows_of.get(header.event_type, ()):
            # As when rows are made again: one event that makes none leaves the others theirs.
            with suppress(CounterfoilError, LookupError, TypeError, ValueError):
                changes += list(derive(fact, self.index))
        return changes

    def _ready(self, unit: UnitDraft, objects: list[bytes], *, asking: bool = True) -> Unit:
        """The unit as the store takes it: drafts sealed, rows derived. Nothing is written.

        ``objects`` takes the artifacts that must be stored before it. What an operation was permitted by is asked of
        the store; where it is not to be asked here, SpillDue is raised instead.
        """
        rows: list[RowChange] = []
        streams = tuple([self._ready_entry(entry, rows, objects, asking) for entry in unit.entries])
        return Unit(streams, (*rows, *unit.beside), unit.guards)

    def _ready_entry(
        self, entry: Entry, rows: list[RowChange], objects: list[bytes], asking: bool
    ) -> StreamAppend:
        genesis = entry.create or self.genesis(entry.stream_id)
        drafts = entry.drafts
        try:
            material: KeyMaterial | None = self.keyring.stream_material(genesis)
        except KeyMissing:
            if any(draft.parts or draft.event_type not in WITHOUT_KEY for draft in drafts):
                raise
            material = None
        try:
            prepared = tuple(
                [prepare(genesis, material, draft, self.registry, spill=True) for draft in drafts]
            )
        except SpillDue:
            if not asking:
                raise
            assert material is not None, "only content moves to artifacts"
            from counterfoil.client.spilling import spilled

            drafts = spilled(self, genesis, material, drafts, objects)
            prepared = tuple([prepare(genesis, material, draft, self.registry) for draft in drafts])
        for draft in drafts:
            rows_of = self._rows_of.get(draft.event_type)
            if rows_of is not None:
                fact = self._fact(entry.stream_id, draft)
                for derive in rows_of:
                    rows += derive(fact, self.index)
        expected = entry.expected
        if drafts and entry.create is None and (due := self._adoptions.due(genesis)) is not None:
            adoption, sequence = due
            prepared = (prepare(genesis, None, adoption, self.registry), *prepared)
            expected = at(sequence) if expected is ANY else expected
        return StreamAppend(entry.stream_id, prepared, expected, entry.token, entry.create)

    def stands_in(self, stream_id: str, draft: Draft) -> dict[str, str]:
        """What rows need of content that moves to artifacts; it stays in the event."""
        found: dict[str, str] = {}
        for give in self._stands_in_of.get(draft.event_type, ()):
            found |= give(self._fact(stream_id, draft), self.index)
        return found

    def _fact(self, stream_id: str, draft: Draft) -> Fact:
        return Fact(
            tenant=self._tenant,
            stream_id=stream_id,
            event_id=draft.event_id,
            event_type=draft.event_type,
            data=draft.data,
            content=resolved([part.value for part in draft.parts]),
            sequence=SequenceOf(draft.event_id),
            recorded_at_ms=RecordedAtOf(draft.event_id),
            occurred_at=draft.occurred_at,
            actor=draft.actor,
            run_id=draft.run_id,
            step_id=draft.step_id,
            attempt=draft.attempt,
            causation_event_id=draft.causation_event_id,
            hint=draft.hint,
            artifact_refs=draft.artifact_refs,
        )

    def _claim(self, unit: Unit, claim: ClaimSpec) -> Claimed:
        return self.store.claim(claim.stream_id, claim.owner, claim.ttl_ms, claim.expect_token, unit)

    # ---- reading ----

    def read(self, query: Query) -> Any:
        """Answer one query of ``flow.requests``."""
        match query:
            case RowOf():
                return self.store.get(query.table, query.key)
            case Rows():
                return self.store.select(query.table, query.index, query.prefix, query.after, query.limit)
            case HeadOf():
                return self.store.head(query.stream_id)
            case Events():
                return list(self.events(query))
            case EventsById():
                return [self._named(stored) for stored in self.store.find(query.stream_id, query.event_ids)]
            case _:
                assert_never(query)

    async def aread(self, query: Query) -> Any:
        """As :meth:`read`. An embedded store answers in microseconds, so the loop is not left for it; a server's is."""
        if self._remote:
            return await to_thread(self.read, query)
        return self.read(query)

    def events(self, query: Events) -> Iterator[Event]:
        """The events of a query, page by page; content opens when looked at."""
        # Over a network each look would make whoever looks wait, perhaps an event loop; and a session looks at each event.
        if query.lightly and not self._remote and self.session is None:
            yield from light_events(self, query)
            return
        after, left = query.after, query.limit
        while left is None or left > 0:
            want = PAGE_EVENTS if left is None else min(PAGE_EVENTS, left)
            page = self.store.read(query.stream_id, after, want, query.types, query.run_id)
            yield from map(self._named, page)
            if len(page) < want:
                return
            after = page[-1].sequence
            left = None if left is None else left - len(page)

    def _named(self, stored: StoredEvent) -> Event:
        """As :meth:`event`, for code that goes by what is recorded: what cannot be read is refused by its place."""
        try:
            return self.event(stored)
        except InputError as error:
            raise unreadable(stored, error) from error

    def event(self, stored: StoredEvent, session: Session | None = None) -> Event:
        """A stored event as readers see it; in a ``session``, as far as that was allowed."""
        header = read_header(stored.header)
        opener = partial(open_content, self, stored, header, session or self.session)
        return Event(stored.stream_id, stored.sequence, stored.recorded_at_ms, header, stored.hash, opener)

    @property
    def narrowed(self) -> bool:
        """Whether content is shown in a session alone, or not at all: then nothing is kept of what was made of it."""
        return self.session is not None or bool(self.withheld)

    def hidden(self, klass: str, stream_id: str | None = None) -> str | None:
        """Why what belongs to no single event is not shown; None if it is. See ``Session.withholds_whole``."""
        if self.session is None:
            return self.withheld or None
        return self.session.withholds_whole(klass, stream_id)

    def genesis(self, stream_id: str) -> Genesis:
        """Genesis of a stream. Raises :class:`counterfoil.errors.StreamNotFound`."""
        found = self._genesis.get(stream_id)
        if found is None:
            stored = self.store.stream(stream_id)
            if stored is None:
                raise StreamNotFound(
                    f"no stream {stream_id} in ledger {self.store.ledger_id}", stream_id=stream_id
                )
            if len(self._genesis) >= GENESES_KEPT_MAX:
                self._genesis.clear()
            found = self._genesis[stream_id] = parse_genesis(stored.genesis)
            if stored.tenant != found.tenant:
                self._tenants[stream_id] = stored.tenant
        return found

    def looks_back(self) -> bool:
        """See :class:`counterfoil.flow.ports.Ports`."""
        return self._look_back.due(self)

    def owns(self, stream_id: str) -> bool:
        """See :class:`counterfoil.flow.ports.Ports`."""
        return self._tenants.get(stream_id, self.genesis(stream_id).tenant) == self._tenant

    def stream_material(self, genesis: Genesis) -> KeyMaterial:
        """The stream key's material of a stream that may not exist yet."""
        return self.keyring.stream_material(genesis)

    def material(self, stream_id: str) -> KeyMaterial:
        """The stream key's material."""
        return self.keyring.stream_material(self.genesis(stream_id))

    def new_genesis(self, kind: str) -> Genesis:
        """Genesis of a stream that does not exist yet; its key is durable when this returns (FORMAT 3)."""
        stream_id = self.ids.new("str")
        key = self.keyring.new_stream_key(stream_id)
        return make_genesis(
            ledger=self.store.ledger_id,
            tenant=self._tenant,
            stream_id=stream_id,
            kind=kind,
            key=key.key_id,
            content=self._content,
        )

    def subject_key(self, stream_id: str, subject: str) -> KeyMaterial:
        """The key of one person in one stream, made and linked if new."""
        return self.keyring.subject_key(stream_id, subject)

    def key_material(self, key_id: str) -> KeyMaterial:
        """The material of a key by its id. Raises ``KeyMissing`` or ``KeyWithheld``."""
        return self.keyring.material(key_id)

    def is_home(self, stream_id: str) -> bool:
        """Whether appending here needs no adoption first (FORMAT 14)."""
        return self._adoptions.due(self.genesis(stream_id)) is None

    def index(self, purpose: str, text: str) -> str:
        """The tenant's index value of a text from outside (FORMAT 3)."""
        return self.keyring.index(purpose, text)

    # ---- artifacts ----

    def put_artifact(self, request: PutArtifact) -> Stored:
        """Store an artifact's bytes under the key that its class asks for (FORMAT 10)."""
        return put_artifact(self, request, self._config_stream_id)

    def artifact_pieces(self, reference: Reference, session: Session | None = None) -> Iterator[bytes]:
        """The plain bytes of an artifact, checked piece by piece; refused where whoever reads it may not."""
        session = session or self.session
        why = self.hidden(reference.klass) if session is None else session.withholds_whole(reference.klass)
        if why is not None:
            rule = "access-required" if session is None else "class"
            raise AccessRefused(f"artifact {reference.sha256[:12]}… is withheld: {why}", rule=rule)
        if self.gate is not None:
            self.gate.check_artifact(reference, session)
        yield from self.vault.pieces(reference)

    def keep_row(self, stream_id: str, change: RowChange) -> None:
        """Change a row that outlived every stream it belonged to: no event is left that it could follow from."""
        if self.store.stream(stream_id) is not None:
            raise InvalidUnit(
                f"{stream_id} is there, so its rows follow from its events", stream_id=stream_id
            )
        self.store.rebuild_rows(stream_id, [change])

    # ---- time, ids, leases ----

    def now_ms(self) -> int:
        """The store's clock."""
        return self.store.now_ms()

    def new_id(self, prefix: str) -> str:
        """A new id."""
        return self.ids.new(prefix)

    def random_bits(self, bits: int) -> int:
        """Random bits for jitter."""
        return secrets.randbits(bits)

    def sleep(self, seconds: float) -> None:
        """Wait on the injected clock."""
        self.clock.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait on the injected clock, for tasks."""
        await self.clock.asleep(seconds)

    def renew(self, lease: Lease, ttl_ms: int) -> Lease:
        """Extend a lease; raises ``Fenced`` when it was taken over."""
        return self.store.renew(lease, ttl_ms)

    def release(self, lease: Lease) -> None:
        """Give a lease up."""
        self.store.release(lease)


def _receipt(outcome: Outcome) -> Receipt:
    if isinstance(outcome, Refusal):
        raise outcome.error
    return outcome
