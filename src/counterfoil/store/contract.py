"""The store contract: about a dozen methods, synchronous, thread-safe, bound to no event loop.

One shipped suite, ``counterfoil.testing.StoreContract``, runs on every adapter; the memory adapter is its oracle.

Guarantees (DESIGN 2 and 4):

* **Durability.** On a durable adapter a :class:`~counterfoil.store.unit.Receipt` means the unit is on disk (fsync).
* **Atomicity.** A unit is recorded whole or not at all, whatever number of streams and rows it touches.
* **Order.** Sequences of a stream are 1, 2, 3, … without gap or fork for any number of threads and processes.
* **Idempotence.** The same events again return their original positions; an append whose answer was lost may be
  sent again with the same ids and lands once.
* **Honesty.** An I/O error or lost connection during commit is an unknown outcome: the adapter drops its handle,
  looks the events up by id and only then answers.
* **Deadlines.** No call blocks for ever; each names the error it gives up with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Protocol

from counterfoil.store.loading import LoadItem, UnitOf
from counterfoil.store.rows import Key, Row, RowChange
from counterfoil.store.standing import Standing
from counterfoil.store.unit import (
    Capabilities,
    Checkpoint,
    Claimed,
    FeedPage,
    Head,
    Lease,
    Outcome,
    Receipt,
    StoredEvent,
    StoredStream,
    Stray,
    Unit,
)


class Reader(Protocol):
    """Reading, from the store itself (each call sees the newest state) or from one consistent snapshot."""

    def head(self, stream_id: str) -> Head | None:
        """The stream's head with its lease state, or None if there is no such stream."""
        ...

    def stream(self, stream_id: str) -> StoredStream | None:
        """Genesis and columns of one stream, or None."""
        ...

    def streams(self, tenant: str | None = None, after: str = "", limit: int = 100) -> list[StoredStream]:
        """Streams by id (creation order), all tenants if None, those after ``after``."""
        ...

    def read(
        self,
        stream_id: str,
        after: int = 0,
        limit: int = 500,
        types: frozenset[str] | None = None,
        run_id: str | None = None,
        content: bool = True,
        headers: bool = True,
    ) -> list[StoredEvent]:
        """Events with a sequence above ``after`` in order, filtered by type and run; bounded by ``limit``.

        ``content=False`` leaves the records out (cheaper; ``content`` is then empty), ``headers=False`` the headers.
        """
        ...

    def find(self, stream_id: str, event_ids: Sequence[str]) -> list[StoredEvent]:
        """Those of these events that the stream holds, in order."""
        ...

    def get(self, table: str, key: Key) -> Row | None:
        """One row with all columns and ``row_version``, or None."""
        ...

    def select(
        self,
        table: str,
        index: str | None = None,
        prefix: Key = (),
        after: Key | None = None,
        limit: int = 100,
        descending: bool = False,
    ) -> list[Row]:
        """Rows in the order of ``index`` (the key if None) whose first columns equal ``prefix``, after ``after``.

        ``after`` holds the index columns followed by the key columns of the last row seen. A cell of None comes
        before every other; text is in the order of its code points. An undeclared table or index is ``InvalidUnit``.
        """
        ...

    def count(self, table: str, index: str, prefix: Key, most: int) -> int:
        """How many rows of ``index`` begin with ``prefix``, counted up to ``most``: cheaper than to select them."""
        ...

    def feed(self, cursor: bytes = b"", limit: int = 500) -> FeedPage:
        """The next events over all streams; resuming with the page's cursor loses nothing."""
        ...

    def recent(self, limit: int = 20) -> FeedPage:
        """The last events of the feed, at most ``limit``, in its order; the cursor goes on after them."""
        ...

    def checkpoint(self, stream_id: str, projection: str, version: int) -> Checkpoint | None:
        """The saved checkpoint that reaches furthest, or None."""
        ...

    def strays(self, limit: int = 100) -> list[Stray]:
        """Rows of the truth tables that belong to no stream or event."""
        ...


class Store(Reader, Protocol):
    """A ledger's storage."""

    @property
    def capabilities(self) -> Capabilities:
        """What this adapter keeps."""
        ...

    @property
    def ledger_id(self) -> str:
        """The ledger's own id (``ldg_…``), fixed when it was made."""
        ...

    def now_ms(self) -> int:
        """The store's clock, which dates ``recorded_at`` and leases."""
        ...

    def append(self, units: Sequence[Unit]) -> Future[list[Outcome]]:
        """Record independent units in one commit; a refused unit leaves the others standing.

        The future holds one outcome for each unit in order. It fails with a :class:`counterfoil.errors.StoreError`
        only when nothing can be said of any unit; after ``AppendTimeout`` send the same ids again.
        """
        ...

    def claim(
        self, stream_id: str, owner: str, ttl_ms: int, expect_token: int, unit: Unit | None = None
    ) -> Claimed:
        """Take the lease if the token equals ``expect_token`` and it is free or expired; the new token is one more.

        ``unit`` (whose own token checks see the new token) is recorded in the same transaction and may create the
        stream; a unit that is refused leaves the lease and the token as they were. A lease expires at
        ``expires_at_ms``: it is held before and free from then on, also for the owner who had it.
        Raises ``Fenced`` (token moved on; looked at first), ``LeaseHeld``, ``StreamNotFound`` or what refuses the unit.
        """
        ...

    def renew(self, lease: Lease, ttl_ms: int) -> Lease:
        """Extend to now + ``ttl_ms`` (never shortens), also when it has expired and nobody has claimed since.

        Raises ``Fenced`` if the token is no longer the newest or its lease was released: a late heartbeat takes
        nothing back.
        """
        ...

    def release(self, lease: Lease) -> None:
        """Give the lease up; nothing happens if it is no longer held or its stream is gone. The token stays."""
        ...

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint. One that claims a sequence beyond the head is refused with ``InvalidUnit``.

        Raises ``StreamNotFound`` if there is no such stream.
        """
        ...

    def rebuild_rows(self, stream_id: str | None, changes: Iterable[RowChange]) -> None:
        """Replace all derived rows of a stream (None: of all tables) by ``changes``, in one transaction.

        A stream's rows are those whose ``stream_column`` names it. ``changes`` hold no ``SequenceOf``. Tables of
        ``truth`` are left as they are, and a change of one is ``InvalidUnit``.
        What they raise reaches the caller as it is, and then every row stays as it was.
        """
        ...

    def load(self, items: Iterable[LoadItem], unit: UnitOf | None = None) -> Receipt | None:
        """Take in streams with the bytes that they were recorded with, in one transaction, and answer for ``unit``.

        Items are taken as they come, so memory stays bounded; rows among them are changed in order. ``unit`` is asked
        for at the end and recorded with the rest. Other writers wait. What ``items`` or ``unit`` raise reaches the
        caller as it is, and then nothing is recorded; so it is when the unit is refused. Raises ``StreamExists``,
        ``WrongSequence`` or ``InvalidUnit``.
        """
        ...

    def standing(self) -> Standing:
        """Whether the ledger is open to appends, a copy under way, moved, or restored and not yet accepted."""
        ...

    def stand(self, standing: Standing, unit: Unit | None = None) -> Receipt | None:
        """Set the standing and record ``unit`` in the same transaction; possible in any standing.

        From then on every other handle is refused what it would write, with ``CopyUnfinished``, ``LedgerMoved`` or
        ``LossNotAccepted``. Raises what refuses the unit; then the standing is as it was.
        """
        ...

    def despite(self, standing: Standing) -> None:
        """Let this handle alone write while the ledger stands so: for whoever copies or restores it."""
        ...

    def snapshot(self) -> AbstractContextManager[Reader]:
        """One consistent view for many reads."""
        ...

    def close(self) -> None:
        """Finish queued appends and release every handle; idempotent. Later calls raise ``StoreClosed``."""
        ...
