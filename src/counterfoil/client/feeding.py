"""A projection over all conversations of a tenant: it follows the feed and keeps its place in it (DESIGN 4, 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.client.ports import LedgerPorts
from counterfoil.client.projector import Projector, View
from counterfoil.core.catalogue import Registry
from counterfoil.core.upcast import Upcasts
from counterfoil.errors import AccessError, ContentTooLarge, CounterfoilError, InternalError
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.projections import events
from counterfoil.projections.checkpoint import Kept, Refused, judged, sealed
from counterfoil.projections.declare import Projection
from counterfoil.projections.fold import Folding, Stop
from counterfoil.store.unit import StoredEvent

PAGE_EVENTS: Final = 500
SAVED_EVERY: Final = 5_000
"""Events after which the place in the feed is saved, so that a first fold of a long ledger may be interrupted."""


class Follower:
    """Projections of one tenant over its whole feed. Their checkpoints lie in the tenant's ``system/config`` stream."""

    def __init__(
        self, ports: LedgerPorts, registry: Registry, upcasts: Upcasts, home: str, projector: Projector
    ) -> None:
        self._ports = ports
        self._registry = registry
        self._upcasts = upcasts
        self._home = home
        self._projector = projector

    def view(self, projection: Projection, *, afresh: bool = False) -> View:
        """The state over everything that the feed shows now; saved where the handle can write."""
        refused: list[Refused] = []
        kept = None if afresh or self._ports.narrowed else self._kept(projection, refused)
        work = _Following(self._ports, Folding(projection, self._registry, self._upcasts, kept), kept)
        for _ in work.pages():
            if work.since >= SAVED_EVERY:
                self._save(projection, work)
        encoded = work.folding.encoded()
        view = View(
            projection.name,
            projection.version,
            None,
            work.seen,
            work.seen,
            0 if kept is None else kept.events,
            work.folding.stop,
            refused,
            work.notice,
            encoded,
            projection,
        )
        self._record(projection, refused)
        if work.since:
            self._save(projection, work)
        return view

    def _kept(self, projection: Projection, refused: list[Refused]) -> Kept | None:
        head = self._ports.store.head(self._home)
        found = self._ports.store.checkpoint(self._home, projection.name, projection.version)
        if found is None or head is None:
            return None
        try:
            genesis, material = self._ports.genesis(self._home), self._ports.material(self._home)
            answer = judged(genesis, material, projection, found, head.sequence)
        except AccessError:
            return None
        if isinstance(answer, Kept) and not answer.cursor:
            answer = Refused(
                found.version, found.up_to_sequence, "unsupported", "it names no place in the feed"
            )
        if isinstance(answer, Refused):
            refused.append(answer)
            return None
        return answer

    def _record(self, projection: Projection, refused: list[Refused]) -> None:
        if not refused or not self._projector.writable:
            return
        ports, now = self._ports, self._ports.now_ms()
        drafts = tuple(
            [
                events.rejected(
                    ports.new_id("evt"),
                    now,
                    projection.name,
                    one.version,
                    one.sequence,
                    one.cause,
                    one.detail,
                )
                for one in refused
            ]
        )
        ports.append(UnitDraft((Entry(self._home, drafts),)))

    def _save(self, projection: Projection, work: _Following) -> None:
        """Save the state with its place in the feed; one that cannot be kept is folded again the next time."""
        encoded = work.folding.encoded()
        head = self._ports.store.head(self._home)
        if encoded is None or head is None or not self._projector.writable or self._ports.narrowed:
            return
        try:
            genesis, material = self._ports.genesis(self._home), self._ports.material(self._home)
            kept = Kept(head.sequence, encoded, work.cursor, work.seen)
            self._ports.store.save_checkpoint(sealed(genesis, material, projection, kept))
        except (AccessError, ContentTooLarge):
            return
        work.since = 0


class _Following:
    """One fold along the feed."""

    def __init__(self, ports: LedgerPorts, folding: Folding, kept: Kept | None) -> None:
        self.folding: Folding = folding
        self.cursor: bytes = b"" if kept is None else kept.cursor
        self.since = 0
        self.seen = 0 if kept is None else kept.events
        self.notice = ""
        self._ports = ports
        self._last: dict[str, int] = {}

    def pages(self) -> Iterator[None]:
        """Page by page, until the feed shows nothing more or the fold stops."""
        while self.folding.stop is None:
            page = self._ports.store.feed(self.cursor, PAGE_EVENTS)
            for stored in page.events:
                if not self._take(stored):
                    return
            self.cursor, self.notice = page.cursor, page.lag
            self.since += len(page.events)
            yield
            if page.caught_up:
                return

    def _take(self, stored: StoredEvent) -> bool:
        stream_id = stored.stream_id
        try:
            if not self._ports.owns(stream_id):
                return True
            event: Event = self._ports.event(stored)
            self._check_order(stored)
        except CounterfoilError as error:
            self.folding.stop = Stop(stream_id, stored.sequence, str(stored.event_type), error)
            return False
        self.seen += 1
        return self.folding.take(event)

    def _check_order(self, stored: StoredEvent) -> None:
        """A feed that leaves an event of a stream out is never folded as if it were whole."""
        last = self._last.get(stored.stream_id)
        if last is not None and stored.sequence != last + 1:
            raise InternalError(f"the feed goes from event {last} of {stored.stream_id} to {stored.sequence}")
        self._last[stored.stream_id] = stored.sequence
