"""The projections of a ledger: declaring, reading as of now and as of any sequence, and folding anew (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterfoil.client.feeding import Follower
from counterfoil.client.handle import Handle
from counterfoil.client.projector import Projector, View
from counterfoil.errors import InvalidForm, StreamNotFound
from counterfoil.projections.declare import Projection
from counterfoil.projections.rows import CREATED, PROJECTIONS, REJECTED
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 200


class Projecting(Handle):
    """State that an application folds from events."""

    _projector: Projector | None = None

    def project(self, projection: Projection) -> Projection:
        """Declare a projection on this handle; from now on its checkpoints are kept as runs go on.

        Saying the same again is allowed; another one under the same name raises ``InvalidForm``.
        """
        self.projector.add(projection)
        return projection

    @property
    def projector(self) -> Projector:
        """What folds this handle's projections."""
        if self._projector is None:
            self._projector = Projector(self.ports, self.registry, self.upcasts, writable=not self.read_only)
            self.ports.keeper = self._projector if self._projector.writable else None
        return self._projector

    def projection(self, name: str, conversation: str | None = None) -> View:
        """A declared projection, folded up to the head of a conversation, or over the tenant's feed.

        It begins from the last checkpoint; one that is damaged, unsupported, of an older version or ahead of the ledger
        is not used, the state is folded anew and ``checkpoint.rejected`` says so. A fold that failed has no state:
        ``view.state`` raises ``ProjectionStopped``, and everything else goes on.
        """
        return self._view(name, conversation, afresh=False)

    def rebuild_projection(self, name: str, conversation: str | None = None) -> View:
        """As :meth:`projection`, folded from the first event, and kept as a new checkpoint."""
        self.check_writable()
        return self._view(name, conversation, afresh=True)

    def projection_rows(self, conversation: str | None = None) -> Iterator[dict[str, Any]]:
        """How far projections are kept, from rows: by conversation, whoever declared them.

        Each has ``projection version up_to_sequence head_sequence lag stream_id at_ms``, and where a checkpoint was not
        used since then ``rejected`` with its cause.
        """
        index: str | None = "by_tenant"
        prefix: Key = (self.tenant,)
        if conversation is not None:
            index, prefix = None, (self._projected(conversation),)
        created: dict[tuple[str, str], Row] = {}
        rejected: dict[tuple[str, str], Row] = {}
        after: Key | None = None
        while page := self.store.select(PROJECTIONS.name, index, prefix, after, PAGE_ROWS):
            for row in page:
                kept = created if row["state"] == CREATED else rejected
                kept[str(row["stream_id"]), str(row["projection"])] = row
            last = page[-1]
            after = (
                PROJECTIONS.place_in(index, last) if index else tuple(last[name] for name in PROJECTIONS.key)
            )
        for place in sorted({*created, *rejected}):
            yield self._status(place, created.get(place), rejected.get(place))

    def _status(self, place: tuple[str, str], created: Row | None, rejected: Row | None) -> dict[str, Any]:
        stream_id, name = place
        head = self.store.head(stream_id)
        reached = int(created["up_to_sequence"] or 0) if created else 0
        found = created or rejected or {}
        newer = rejected is not None and (created is None or _sequence(rejected) > _sequence(created))
        return {
            "projection": name,
            "stream_id": stream_id,
            "version": found.get("version"),
            "up_to_sequence": reached,
            "head_sequence": head.sequence if head else 0,
            "lag": max(0, (head.sequence if head else 0) - reached),
            "at_ms": found.get("at_ms"),
            "state": REJECTED if newer else CREATED,
            "rejected": None if rejected is None else str(rejected["cause"]),
        }

    def _view(self, name: str, conversation: str | None, *, afresh: bool) -> View:
        projection = self.projector.named(name)
        if projection.over == "tenant":
            if conversation is not None:
                raise InvalidForm(
                    f"{name} is over the tenant, not over a conversation", argument="conversation"
                )
            home = self.streams.id_of("config")
            follower = Follower(self.ports, self.registry, self.upcasts, home, self.projector)
            return follower.view(projection, afresh=afresh)
        if conversation is None:
            raise InvalidForm(f"{name} is over a conversation: name one", argument="conversation")
        return self.projector.view(projection, self._projected(conversation), afresh=afresh)

    def _projected(self, name: str) -> str:
        found = self._find(name)
        if found is None:
            raise StreamNotFound(
                f"there is no conversation {name!r} for tenant {self.tenant} in {self.place}",
                hint="`counterfoil ls` lists them",
            )
        return found


def _sequence(row: Row) -> int:
    sequence = row["sequence"]
    return sequence if isinstance(sequence, int) else 0
