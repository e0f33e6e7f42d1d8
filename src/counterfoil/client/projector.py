"""The projector of one handle: folds what is asked for, keeps checkpoints as runs go on, and never hurts a run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, field

from counterfoil.client.ports import LedgerPorts
from counterfoil.core import canonical
from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Draft
from counterfoil.core.upcast import Upcasts
from counterfoil.errors import (
    AccessError,
    ContentTooLarge,
    ContentUnavailable,
    CounterfoilError,
    InvalidForm,
    ProjectionStopped,
    StreamNotFound,
)
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Entry, Events, UnitDraft
from counterfoil.projections import events
from counterfoil.projections.checkpoint import Kept, Refused, judged, judged_content, sealed, state_digest
from counterfoil.projections.declare import OWN_TYPES, Projection
from counterfoil.projections.fold import Folding, Stop

EVENTS_KEPT: Final = 1000
"""Events of runs in one conversation after which its projections are checkpointed (DESIGN 6)."""

STREAMS_COUNTED_MAX: Final = 10_000
"""Conversations whose events are counted at once; beyond it counting starts anew."""

log: logging.Logger = logging.getLogger("counterfoil.projections")

Due = tuple[str, str | None]
"""A conversation whose projections are to be checkpointed, and the run that is the occasion."""


class View(Struct):
    """A projection as it was folded just now. ``refused`` are checkpoints that were found and not used.

    ``began_at`` is the sequence of the checkpoint that the fold began from, 0 for the first event. Over a tenant all
    three count its events in the feed, and ``notice`` says where the feed is behind by itself.
    """

    name: str
    version: int
    conversation: str | None
    up_to_sequence: int
    head_sequence: int
    began_at: int = 0
    stopped: Stop | None = None
    refused: list[Refused] = field(default_factory=list)
    notice: str = ""
    encoded: bytes | None = None
    projection: Projection | None = None

    @property
    def lag(self) -> int:
        """Events of the conversation that are not in the state; 0 unless its fold has stopped."""
        return max(0, self.head_sequence - self.up_to_sequence)

    @property
    def state(self) -> Any:
        """The state as of :attr:`up_to_sequence`, a new one each time. Raises ``ProjectionStopped``."""
        if self.encoded is None or self.projection is None:
            raise self.error()
        return self.projection.decoded(self.encoded)

    def error(self) -> ProjectionStopped:
        """Why there is no state."""
        stop = self.stopped
        told = ProjectionStopped(
            f"projection {self.name} version {self.version} has stopped: {stop.why if stop else 'no state'}",
            projection=self.name,
            version=self.version,
            stream_id=self.conversation or (stop.stream_id if stop else ""),
            sequence=stop.sequence if stop else self.up_to_sequence,
            event_type=stop.event_type if stop else "",
        )
        if stop is not None:
            told.__cause__ = stop.error
        return told


class _Begun(Struct):
    """A fold with where it began."""

    folding: Folding
    at: int
    refused: list[Refused]


class Projector:
    """The projections of one handle. Thread-safe; declaring is for start-up."""

    def __init__(self, ports: LedgerPorts, registry: Registry, upcasts: Upcasts, *, writable: bool) -> None:
        self.projections: dict[str, Projection] = {}
        self.writable: bool = writable
        self._ports = ports
        self._registry = registry
        self._upcasts = upcasts
        self._counted: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, projection: Projection) -> None:
        """Declare one. Raises InvalidForm for another under the same name."""
        known = self.projections.setdefault(projection.name, projection)
        if known != projection:
            raise InvalidForm(
                f"the projection {projection.name} is declared already, in another way",
                hint="one program has one declaration of a projection",
                argument="projection",
            )

    def named(self, name: str) -> Projection:
        """The declared projection of this name. Raises InvalidForm."""
        found = self.projections.get(name)
        if found is None:
            known = ", ".join(sorted(self.projections)) or "none"
            raise InvalidForm(
                f"no projection {name!r} is declared; there are: {known}",
                hint="counterfoil.open(…, projections=[…]) or ledger.project(…)",
                argument="name",
            )
        return found

    # ---- as runs go on -----------------------------------------------------------------------------------------------

    def due(self, unit: UnitDraft) -> list[Due]:
        """What is to be checkpointed once this unit is recorded: runs that end, and every 1,000 events of runs."""
        if not self.projections or self._ports.narrowed:
            # What was folded of the part that somebody may see is nobody else's state.
            return []
        found: list[Due] = []
        for entry in unit.entries:
            of_runs = [draft for draft in entry.drafts if draft.run_id and draft.event_type not in OWN_TYPES]
            if not of_runs:
                continue
            ends = any(draft.event_type == "run.finished" for draft in of_runs)
            if self._count(entry.stream_id, len(of_runs)) >= EVENTS_KEPT or ends:
                found.append((entry.stream_id, of_runs[-1].run_id))
        return found

    def _count(self, stream_id: str, more: int) -> int:
        with self._lock:
            if len(self._counted) >= STREAMS_COUNTED_MAX:
                self._counted.clear()
            count = self._counted[stream_id] = self._counted.get(stream_id, 0) + more
            return count

    def keep(self, due: Sequence[Due]) -> None:
        """Checkpoint these conversations. What goes wrong is logged and hurts nobody: a checkpoint only accelerates."""
        for stream_id, run_id in due:
            with self._lock:
                self._counted.pop(stream_id, None)
            try:
                self.checkpoint(stream_id, run_id)
            except Exception as error:  # noqa: BLE001 - what was appended is recorded, whatever becomes of what only accelerates
                told = error.code if isinstance(error, CounterfoilError) else type(error).__name__
                log.error("projections of %s were not checkpointed: %s", stream_id, told)  # noqa: TRY400 - a trace could show content

    def checkpoint(self, stream_id: str, run_id: str | None = None) -> list[View]:
        """Fold every projection over conversations up to the head of this one, and keep what was folded."""
        wanted = [one for one in self.projections.values() if one.over == "conversation"]
        if not wanted:
            return []
        views, drafts = self._fold(stream_id, wanted, run_id)
        self._keep(stream_id, drafts, views)
        for view in views:
            if view.stopped is not None:
                log.error("projection %s of %s has stopped: %s", view.name, stream_id, view.stopped.why)
        return views

    # ---- one conversation --------------------------------------------------------------------------------------------

    def view(self, projection: Projection, stream_id: str, *, afresh: bool = False) -> View:
        """One projection of one conversation, folded up to its head; ``afresh`` from the first event, and kept."""
        views, drafts = self._fold(stream_id, [projection], None, afresh=afresh)
        if self.writable and not self._ports.narrowed and (afresh or views[0].refused):
            self._keep(stream_id, drafts, views)
        return views[0]

    def view_at(self, projection: Projection, stream_id: str, sequence: int) -> View:
        """As of this sequence: from the furthest checkpoint that the ledger holds before it; nothing is recorded."""
        begun = _Begun(Folding(projection, self._registry, self._upcasts, None), 0, [])
        narrowed = self._ports.narrowed
        kept = None if narrowed else self._recorded(projection, stream_id, sequence, begun.refused)
        if kept is not None:
            begun = _Begun(
                Folding(projection, self._registry, self._upcasts, kept), kept.sequence, begun.refused
            )
        self._run(stream_id, [begun], sequence)
        return self._told(begun, stream_id, sequence)

    def _fold(
        self, stream_id: str, wanted: Sequence[Projection], run_id: str | None, *, afresh: bool = False
    ) -> tuple[list[View], list[Draft]]:
        """The views, and the events that say what was kept and what was not used."""
        head = self._head(stream_id)
        begun = [self._begin(projection, stream_id, head, afresh=afresh) for projection in wanted]
        self._run(stream_id, begun, head)
        views = [self._told(one, stream_id, head) for one in begun]
        return views, [draft for view in views for draft in self._drafts(stream_id, view, run_id)]

    def _run(self, stream_id: str, begun: Sequence[_Begun], head: int) -> None:
        """Read once for all of them; one that stops leaves the others going."""
        after = min(one.folding.sequence for one in begun)
        for event in self._events(stream_id, after, head):
            going = [one.folding for one in begun if one.folding.stop is None]
            if not going:
                return
            for folding in going:
                if event.sequence > folding.sequence:
                    folding.take(event)

    def _events(self, stream_id: str, after: int, head: int) -> Iterator[Event]:
        if after < head:
            yield from self._ports.events(Events(stream_id, after, limit=head - after))

    def _begin(self, projection: Projection, stream_id: str, head: int, *, afresh: bool) -> _Begun:
        refused: list[Refused] = []
        kept = None if afresh else self._kept(projection, stream_id, head, refused)
        folding = Folding(projection, self._registry, self._upcasts, kept)
        return _Begun(folding, 0 if kept is None else kept.sequence, refused)

    def _kept(self, projection: Projection, stream_id: str, head: int, refused: list[Refused]) -> Kept | None:
        """The checkpoint to begin from: the table's, which is a cache, or else the one that the ledger recorded."""
        if self._ports.narrowed:
            # A checkpoint was made of everything, whoever may see it.
            return None
        found = self._ports.store.checkpoint(stream_id, projection.name, projection.version)
        if found is None:
            return self._recorded(projection, stream_id, head, refused)
        try:
            genesis = self._ports.genesis(stream_id)
            answer = judged(genesis, self._ports.material(stream_id), projection, found, head)
        except AccessError:
            # Without its key nothing can be opened: the events are folded, with markers for their content.
            return None
        return self._used(answer, refused)

    def _recorded(
        self, projection: Projection, stream_id: str, head: int, refused: list[Refused]
    ) -> Kept | None:
        """The furthest state that a ``checkpoint.created`` at or before ``head`` holds, of this projection's version."""
        newest: Event | None = None
        for event in self._ports.events(Events(stream_id, types=frozenset({"checkpoint.created"}))):
            if event.sequence > head:
                break
            if event.data["projection"] == projection.name and event.data["up_to_sequence"] <= head:
                newest = event
        if newest is None:
            return None
        version, sequence = newest.data["version"], newest.data["up_to_sequence"]
        if version != projection.version:
            older = version < projection.version
            what = f"it is of version {version}, and the projection is of version {projection.version}"
            refused.append(Refused(version, sequence, "migration" if older else "unsupported", what))
            return None
        try:
            content = newest.content
            material = self._ports.material(stream_id)
        except ContentUnavailable as error:
            # Erased or withheld, it went with what it was folded from, and the event says so itself.
            state = error.fields.get("state")
            if state in {"missing", "damaged"}:
                refused.append(Refused(version, sequence, "damaged", f"its content is {state}"))
            return None
        except AccessError:
            return None
        answer = judged_content(material, projection, newest.data, content, newest.sequence - 1)
        return self._used(answer, refused)

    def _used(self, answer: Kept | Refused, refused: list[Refused]) -> Kept | None:
        if isinstance(answer, Refused):
            refused.append(answer)
            return None
        return answer

    def _told(self, begun: _Begun, stream_id: str, head: int) -> View:
        folding = begun.folding
        encoded = folding.encoded()
        return View(
            folding.projection.name,
            folding.projection.version,
            stream_id,
            folding.sequence,
            head,
            begun.at,
            folding.stop,
            begun.refused,
            encoded=encoded,
            projection=folding.projection,
        )

    def _drafts(self, stream_id: str, view: View, run_id: str | None) -> Iterator[Draft]:
        ports, now = self._ports, self._ports.now_ms()
        for one in view.refused:
            yield events.rejected(
                ports.new_id("evt"), now, view.name, one.version, one.sequence, one.cause, one.detail
            )
        if view.encoded is None or (view.up_to_sequence <= view.began_at and not view.refused):
            return
        try:
            material = ports.material(stream_id)
        except AccessError:
            return
        digest = state_digest(material, view.name, view.version, view.up_to_sequence, view.encoded)
        state = canonical.decode(view.encoded)
        yield events.created(
            ports.new_id("evt"), now, view.name, view.version, view.up_to_sequence, digest, state, run_id
        )

    def _keep(self, stream_id: str, drafts: Sequence[Draft], views: Sequence[View]) -> None:
        """Record what was kept and what was not used, then fill the table, which is only a cache."""
        if not drafts:
            return
        self._ports.append(UnitDraft((Entry(stream_id, tuple(drafts)),)))
        for view in views:
            if view.encoded is not None and view.projection is not None:
                self._save(view.projection, stream_id, Kept(view.up_to_sequence, view.encoded))

    def _save(self, projection: Projection, stream_id: str, kept: Kept) -> None:
        try:
            genesis, material = self._ports.genesis(stream_id), self._ports.material(stream_id)
            self._ports.store.save_checkpoint(sealed(genesis, material, projection, kept))
        except ContentTooLarge:
            # Over 4 MiB: the event has it as an artifact, and reading takes it from there.
            log.info("a checkpoint of %s is too large for the table", projection.name)

    def _head(self, stream_id: str) -> int:
        head = self._ports.store.head(stream_id)
        if head is None:
            raise StreamNotFound(f"there is no stream {stream_id}", stream_id=stream_id)
        return head.sequence
