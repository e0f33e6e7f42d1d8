"""The ledger as an application opens it: runs, reading, reviews, recovery (DESIGN 11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from counterfoil.abc import ArtifactStore, Authorizer, Clock, Host, Ids, KeyProvider, Policy
from counterfoil.artifacts.given_paths import given_path
from counterfoil.client import reading, rebuilding
from counterfoil.client.clock import SystemClock
from counterfoil.client.composing import Features
from counterfoil.client.features import TABLES
from counterfoil.client.ids import UlidIds
from counterfoil.client.place import MEMORY, open_parts, place_of
from counterfoil.client.search_place import SearchPlace
from counterfoil.core.bounds import check_limit
from counterfoil.core.catalogue import Registry
from counterfoil.core.fields import FieldForm
from counterfoil.core.forms import is_label
from counterfoil.core.genesis import ContentMode
from counterfoil.core.ids import is_id
from counterfoil.core.several import several
from counterfoil.core.upcast import Upcast
from counterfoil.effects.rows import EFFECTS
from counterfoil.errors import (
    InvalidForm,
    RunNotFound,
)
from counterfoil.flow.event import Event
from counterfoil.flow.known import interpreted
from counterfoil.runtime import rows
from counterfoil.store.rows import Row

if TYPE_CHECKING:
    from counterfoil.client.migrating import Migration, Upgrading
    from counterfoil.client.reading import ConversationInfo
    from counterfoil.evidence.rebuild import Rebuilt
    from counterfoil.projections.declare import Projection
    from counterfoil.runtime.budgets.limits import Budget
    from counterfoil.runtime.events import WhileRunning, WhileSuspended
    from counterfoil.runtime.recover import RecoveryReport
    from counterfoil.runtime.run import Run

TAIL_STEP_S: Final = 0.2
"""How often a following tail looks for new events."""


def open(
    place: str | Path,
    *,
    tenant: str = "default",
    create: bool = True,
    read_only: bool = False,
    content: ContentMode | None = None,
    keys: KeyProvider | None = None,
    policy: Policy | None = None,
    authorizer: Authorizer | None = None,
    artifacts: str | Path | ArtifactStore | None = None,
    turns: bool = False,
    host: Host | None = None,
    search: SearchPlace = "on",
    migration: Migration | None = None,
    projections: Iterable[Projection] = (),
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> Ledger:
    """Open the ledger in a directory; one that is not there is made, unless ``create`` is False.

    ``content`` is ``sealed`` (encrypted, the default) or ``clear`` for a new ledger, and checked against an old one.
    ``policy`` judges every effect of this handle's runs, ``authorizer`` what is shown in :meth:`Ledger.reading` and
    found by :meth:`Ledger.search`. ``keys`` holds the key-encryption keys in place of files in ``kek/``. ``artifacts``
    says where artifacts lie if not in the ledger's directory: a directory, or a store. Without ``keys.db`` the ledger
    opens for reading headers only. ``turns`` keeps the head of each run's turn in the ledger (``turn.committed``).
    ``host`` lends capabilities to runs (:class:`counterfoil.abc.Host`). ``search`` is where the search index lies, if
    not beside the ledger; one that is there must be whole, unless search is ``off``. ``projections`` are declared as by
    :meth:`Ledger.project`. A runtime store of schema 1 that lies there is taken over (docs/migrating.md); ``migration``
    is told how it goes. ``":memory:"`` is a ledger that ends with its handle.

    >>> with counterfoil.open(":memory:") as ledger, ledger.run("greeter", conversation="hello") as run:
    ...     reply = run.step("greet", str.title, "good day")
    >>> reply
    'Good Day'
    """
    if not is_label(tenant):
        raise InvalidForm("tenant must be a label: 1 to 128 of A-Za-z0-9_.:/+-", argument="tenant")
    clock = clock or SystemClock()
    ids = ids or UlidIds()

    def upgrading() -> Upgrading:
        from counterfoil.client.migrating import Migration, Upgrading

        elsewhere = None if artifacts is None else place_of(artifacts, read_only=read_only)
        return Upgrading(tenant, content or "sealed", Registry(), migration or Migration(), elsewhere)

    if isinstance(artifacts, str | Path):  # refused before anything is made
        artifacts = given_path(artifacts, "artifacts")
    parts = open_parts(
        place,
        tables=TABLES,
        create=create,
        read_only=read_only,
        clock=clock,
        ids=ids,
        provider=keys,
        upgrading=upgrading,
    )
    if artifacts is not None:
        parts = replace(parts, artifacts=place_of(artifacts, read_only=parts.read_only))
    try:
        ledger = Ledger(parts, tenant=tenant, content=content, policy=policy, clock=clock, ids=ids, host=host)
        ledger.keeps_turns = turns
        ledger.authorizer = authorizer
        ledger.search_place = search
        ledger.check_search()
        for projection in projections:
            ledger.project(projection)
    except BaseException:
        parts.store.close()
        parts.key_store.close()
        raise
    return ledger


class Ledger(Features):
    """An open ledger, for one tenant. Thread-safe; not to be used after a fork.

    >>> with counterfoil.open(":memory:") as ledger:
    ...     with ledger.run("agent", conversation="case-8472", message="Where is my order?"):
    ...         pass
    ...     types = [event.type for event in ledger.events("case-8472")]
    >>> types
    ['conversation.opened', 'admission.accepted', 'run.started', 'run.finished']
    """

    # ---- runs ----

    def run(
        self,
        agent: str,
        *,
        conversation: str | None = None,
        message: Any = None,
        dedupe: str | None = None,
        agent_version: str | None = None,
        classification: str = "confidential",
        subject: str | None = None,
        principal: str | None = None,
        title: str | None = None,
        configuration: Mapping[str, Any] | None = None,
        while_running: WhileRunning | None = None,
        while_suspended: WhileSuspended | None = None,
        deadline_s: float | None = None,
        wait_s: float = 0.0,
        resume: str | None = None,
        admission: str | None = None,
        owner: str | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
    ) -> Run:
        """A run of this agent, to be used as ``with ledger.run(...) as run:`` or ``async with``.

        ``conversation`` is a name of your own or the ``str_…`` of one that exists; without it a new one is opened.
        ``dedupe`` makes one message one run: the same key again resumes it. ``wait_s`` waits in line when the
        conversation is taken. ``resume`` goes on with a run by its id, ``admission`` starts an input that was kept.
        ``budget`` limits ``tokens``, ``money`` with its ``currency``, ``calls`` and ``wall_s``; the agent's own applies where
        it says nothing, and a resumed run keeps what it had spent.
        Entering the block raises ``RunBusy``, ``RunWaiting``, ``AdmissionConflict``, ``AdmissionAbsorbed`` or
        ``AdmissionRejected`` as DESIGN 6 says.
        """
        from counterfoil.runtime.block import RunHost
        from counterfoil.runtime.run import Run
        from counterfoil.runtime.spec import make_spec

        self.check_writable()
        spec = make_spec(
            agent,
            message=message,
            configuration=configuration,
            budget=budget,
            conversation=conversation,
            dedupe=dedupe,
            agent_version=agent_version,
            classification=classification,
            subject=subject,
            principal=principal,
            title=title,
            while_running=while_running,
            while_suspended=while_suspended,
            wait_s=wait_s,
            deadline_s=deadline_s,
            owner=owner,
            run_id=resume,
            admission_id=admission,
            policy_revision=None if self.policy is None else self.policy.revision,
            place=None if self.place == MEMORY else self.place,
        )
        owner = owner or self.owner
        host = RunHost(
            self.ports,
            self.registry,
            self._heartbeat,
            owner,
            self.policy,
            self.keeps_turns,
            self.host,
            trees=self._trees,
            nursery=self.nursery(),
        )
        return Run(host, spec)

    def declare(
        self,
        event_type: str,
        version: int = 1,
        public: Mapping[str, str | FieldForm] | None = None,
        *,
        ignorable: bool = False,
    ) -> None:
        """Declare an event type of the application for ``run.record``; ``public`` names its open fields (FORMAT 7)."""
        self.registry.declare(event_type, version, public, ignorable)

    def upcast(self, event_type: str, from_version: int, step: Upcast) -> None:
        """Say how the payload of an old version reads in the next: ``step(data, content)`` gives both anew.

        ``content`` is None where it cannot be had. Applied by :meth:`interpret`; stored bytes never change.
        """
        self.upcasts.register(event_type, from_version, step)

    # ---- reading ----

    def conversations(self, after: str = "", limit: int = 100) -> list[ConversationInfo]:
        """A page of conversations in the order in which they were opened; ``after`` is the last stream id seen."""
        return reading.conversations(self.ports, after, limit)

    def stream_of(self, name: str) -> str:
        """Stream id of a conversation by its name or its own id. Raises ``StreamNotFound``."""
        return self.stream_named(name)

    def events(
        self,
        stream: str,
        after: int = 0,
        types: Iterable[str] | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Event]:
        """Events of a conversation, by name or stream id, in order; a page is in memory at a time.

        An event that cannot be read is handed out with ``fault`` set, and the next ones follow. ``types`` are found by going
        through the conversation, about 1.2 µs an event: seldom ones of a very long one take their time.
        """
        wanted = None if types is None else frozenset(several(types, "types"))
        return reading.stream_events(self.ports, self.stream_of(stream), after, wanted, run_id, limit)

    def interpret(self, stream: str, after: int = 0, run_id: str | None = None) -> Iterator[Event]:
        """As :meth:`events`, for folding or replaying them: what may be passed over is left out, old versions upcast.

        Raises ``UnknownEventType`` with type, version and sequence for any other event that this build does not know.
        """
        return interpreted(self.registry, self.events(stream, after, run_id=run_id), self.upcasts)

    def tail(
        self,
        stream: str,
        after: int | None = None,
        *,
        follow: bool = True,
        stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Event]:
        """Events after ``after`` (None: those to come), and with ``follow`` each new one until ``stop`` says so."""
        stream_id = self.stream_of(stream)
        if after is None:
            head = self.store.head(stream_id)
            after = 0 if head is None else head.sequence
        while not stop():
            for event in reading.stream_events(self.ports, stream_id, after, None, None, None):
                after = event.sequence
                yield event
            if not follow:
                return
            self.ports.sleep(TAIL_STEP_S)

    def runs(
        self, stream: str | None = None, state: str | None = None, limit: int | None = None
    ) -> list[Row]:
        """Rows of runs, oldest first: of one conversation, in one state (``running suspended finished``), or all."""
        if stream is not None and state is not None:
            return reading.table_rows(
                self.ports, rows.RUNS, "by_slot", (self.stream_of(stream), state), limit
            )
        if stream is not None:
            return reading.table_rows(self.ports, rows.RUNS, "by_stream", (self.stream_of(stream),), limit)
        if state is not None:
            return reading.table_rows(self.ports, rows.RUNS, "by_state", (self.tenant, state), limit)
        return reading.table_rows(self.ports, rows.RUNS, "by_tenant", (self.tenant,), limit)

    def run_row(self, run_id: str) -> Row:
        """The row of one run. Raises ``RunNotFound``."""
        row = self.store.get(rows.RUNS, (run_id,)) if is_id(run_id, "run") else None
        if row is None or row["tenant"] != self.tenant:
            raise RunNotFound(f"there is no run {run_id} in {self.place}", run_id=run_id)
        return row

    def effects(
        self,
        state: str | None = None,
        run_id: str | None = None,
        stream: str | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """Rows of effects: of a run, of a conversation, in one state, or all."""
        check_limit(limit)
        if run_id is not None:
            return reading.effects_of_run(self.ports, run_id, state, limit)
        if stream is not None:
            return reading.effects_of_stream(self.ports, self.stream_of(stream), state, limit)
        prefix = (self.tenant,) if state is None else (self.tenant, state)
        return reading.table_rows(self.ports, EFFECTS.name, "by_state", prefix, limit)

    # ---- derived rows ----

    def rebuild(self, progress: Callable[[int], None] | None = None) -> Rebuilt:
        """Make every derived row again from the events, as ``verify`` advises where rows differ from them.

        One transaction: other writers wait, and lists are never seen half made. Opening for writing does it by itself
        where a table is new, of another version or was dropped. ``progress`` is told the events looked at so far.
        Raises ``ContentUnavailable`` where lost rows follow from content that cannot be opened; what ``progress`` raises
        ends the rebuild and changes nothing.
        """
        self.check_writable()
        return rebuilding.rebuild(self.ports, self.content, progress)

    # ---- doubt ----

    def recover(self, *, only: Iterable[str] | None = None) -> RecoveryReport:
        """End the doubt of effects whose worker is gone, as each tool's rule says; what cannot be ended is named.

        Needs the tools' code: import it, or name its module as ``app`` in ``counterfoil.toml``.
        """
        self.check_writable()
        from counterfoil.effects.registry import find_tool
        from counterfoil.runtime.recover import recover

        report = recover(self.ports, self.owner, find_tool, only=only)
        report.children = self.recover_children(only)
        return report
