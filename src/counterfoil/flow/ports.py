"""What the drivers need from the ledger to answer a flow's requests; ``client`` implements it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from counterfoil.core.artifact import Reference
from counterfoil.core.genesis import Genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.flow.requests import ClaimSpec, PutArtifact, Query, Stored, UnitDraft
from counterfoil.store.rows import RowChange
from counterfoil.store.unit import Claimed, Lease, Receipt


class Ports(Protocol):
    """Appending, reading, ids and time, once for threads and once for tasks.

    ``append`` seals the drafts (FORMAT 6), derives their rows, appends and waits for durability; a refusal is
    raised. Cancelling an awaiting task never cancels an append that was handed over.
    """

    @property
    def tenant(self) -> str:
        """The tenant all streams of these ports belong to."""
        ...

    def append(self, unit: UnitDraft, claim: ClaimSpec | None = None) -> Receipt | Claimed:
        """Record a unit and wait until it is durable."""
        ...

    async def aappend(self, unit: UnitDraft, claim: ClaimSpec | None = None) -> Receipt | Claimed:
        """As :meth:`append`, for tasks."""
        ...

    def read(self, query: Query) -> Any:
        """Answer a query (see each query for its answer)."""
        ...

    async def aread(self, query: Query) -> Any:
        """As :meth:`read`, for tasks."""
        ...

    def put_artifact(self, request: PutArtifact) -> Stored:
        """Store an artifact's bytes; durable when this returns, and not yet named by any event."""
        ...

    def artifact_pieces(self, reference: Reference) -> Iterator[bytes]:
        """The plain bytes of an artifact piece by piece, checked (FORMAT 10)."""
        ...

    def keep_row(self, stream_id: str, change: RowChange) -> None:
        """Change a row that outlived every stream it belonged to; ``stream_id`` is one that was purged."""
        ...

    def now_ms(self) -> int:
        """The store's clock."""
        ...

    def new_id(self, prefix: str) -> str:
        """A new id."""
        ...

    def random_bits(self, bits: int) -> int:
        """Random bits for jitter."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait on the injected clock."""
        ...

    async def asleep(self, seconds: float) -> None:
        """Wait on the injected clock, for tasks."""
        ...

    def renew(self, lease: Lease, ttl_ms: int) -> Lease:
        """Extend a lease; raises ``Fenced`` when it was taken over."""
        ...

    def release(self, lease: Lease) -> None:
        """Give a lease up."""
        ...

    def genesis(self, stream_id: str) -> Genesis:
        """Genesis of an existing stream (cached)."""
        ...

    def owns(self, stream_id: str) -> bool:
        """Whether the stream belongs to this tenant here, whoever its genesis names (FORMAT 14).

        Raises :class:`counterfoil.errors.StreamNotFound`.
        """
        ...

    def looks_back(self) -> bool:
        """Whether this ledger was restored from a backup, so that an effect may have been sent in the lost stretch."""
        ...

    def new_genesis(self, kind: str) -> Genesis:
        """Genesis of a stream that does not exist yet (``conversation``, ``system/…``); its key is durable."""
        ...

    def subject_key(self, stream_id: str, subject: str) -> KeyMaterial:
        """The key of one person in one stream, made and linked if new (FORMAT 3, 12)."""
        ...

    def stream_material(self, genesis: Genesis) -> KeyMaterial:
        """The stream key's material of a stream that may not exist yet."""
        ...

    def material(self, stream_id: str) -> KeyMaterial:
        """The stream key's material, for keyed digests and tags (cached)."""
        ...

    def key_material(self, key_id: str) -> KeyMaterial:
        """The material of a key by its id, as headers name it (cached)."""
        ...

    def is_home(self, stream_id: str) -> bool:
        """Whether a stream belongs to this ledger: what another one recorded does until this one appends to it."""
        ...

    def index(self, purpose: str, text: str) -> str:
        """The tenant's index value of a text from outside (FORMAT 3); stands only in rows."""
        ...
