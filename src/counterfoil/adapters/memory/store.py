"""MemoryStore: the whole store contract under one lock, simple enough to be right by reading it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from msgspec.structs import replace

from counterfoil.abc.time import Clock
from counterfoil.adapters.memory import tables as rows_
from counterfoil.adapters.memory.appending import check_unit, load, plan, record
from counterfoil.adapters.memory.state import StateReader, empty_state
from counterfoil.adapters.memory.tables import Table
from counterfoil.errors import (
    CounterfoilError,
    Fenced,
    HandleForked,
    InvalidUnit,
    LeaseHeld,
    StreamNotFound,
)
from counterfoil.store.contract import Reader
from counterfoil.store.loading import LoadItem, UnitOf
from counterfoil.store.rows import RowChange, TableSpec, check_beside
from counterfoil.store.standing import Standing, refusal
from counterfoil.store.unit import (
    Capabilities,
    Checkpoint,
    Claimed,
    Head,
    Lease,
    Outcome,
    Receipt,
    Refusal,
    Unit,
)


class MemoryStore(StateReader):
    """A ledger's storage that lives as long as the object; the oracle of ``counterfoil.testing.StoreContract``.

    One lock serialises everything, so each method is one transaction, and futures are resolved when ``append``
    returns. ``clock`` dates events and leases.
    """

    def __init__(self, ledger_id: str, tables: Sequence[TableSpec], clock: Clock) -> None:
        super().__init__(empty_state({spec.name: Table(spec) for spec in tables}))
        self._ledger_id = ledger_id
        self._clock = clock
        self._pid = os.getpid()
        self._standing: Standing = "open"
        self._despite: Standing | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Nothing outlives the process and nothing is shared with another."""
        return Capabilities(durable=False, shared=False, engine="memory")

    @property
    def ledger_id(self) -> str:
        """See ``Store.ledger_id``."""
        return self._ledger_id

    def now_ms(self) -> int:
        """See ``Store.now_ms``."""
        return self._clock.now_ms()

    def append(self, units: Sequence[Unit]) -> Future[list[Outcome]]:
        """See ``Store.append``. The future is resolved already."""
        future: Future[list[Outcome]] = Future()
        future.set_running_or_notify_cancel()
        try:
            with self._lock:
                self._check_usable()
                outcomes = [self._append_one(unit) for unit in units]
        except CounterfoilError as error:
            future.set_exception(error)
        else:
            future.set_result(outcomes)
        return future

    def claim(
        self, stream_id: str, owner: str, ttl_ms: int, expect_token: int, unit: Unit | None = None
    ) -> Claimed:
        """See ``Store.claim``."""
        with self._lock:
            self._check_usable()
            if unit is not None:
                check_unit(self._state, unit)
            now = self._clock.now_ms()
            head = self._claimable_head(stream_id, unit)
            if head.token != expect_token:
                raise _fenced(head, expect_token)
            if head.lease is not None and now < head.lease.expires_at_ms:
                raise LeaseHeld(
                    f"stream {stream_id} is leased until {head.lease.expires_at_ms} ms",
                    hint="wait until it is released or expires, then look again",
                    lease=head.lease,
                )
            lease = Lease(stream_id, expect_token + 1, owner, now + ttl_ms)
            planned = None if unit is None else plan(self._state, unit, now, {stream_id: lease.token})
            receipt = None if planned is None else record(self._state, planned)
            stream = self._state.streams[stream_id]
            stream.head = replace(stream.head, token=lease.token, lease=lease)
            return Claimed(lease, receipt)

    def renew(self, lease: Lease, ttl_ms: int) -> Lease:
        """See ``Store.renew``."""
        with self._lock:
            self._check_usable()
            head = self._head_of(lease.stream_id)
            if head.token != lease.token or head.lease is None:
                raise _fenced(head, lease.token)
            expires_at_ms = max(head.lease.expires_at_ms, self._clock.now_ms() + ttl_ms)
            renewed = replace(head.lease, expires_at_ms=expires_at_ms)
            self._state.streams[lease.stream_id].head = replace(head, lease=renewed)
            return renewed

    def release(self, lease: Lease) -> None:
        """See ``Store.release``."""
        with self._lock:
            self._check_usable()
            stream = self._state.streams.get(lease.stream_id)
            if stream is not None and stream.head.token == lease.token:
                stream.head = replace(stream.head, lease=None)

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """See ``Store.save_checkpoint``."""
        with self._lock:
            self._check_usable()
            head = self._head_of(checkpoint.stream_id)
            if not 0 <= checkpoint.up_to_sequence <= head.sequence:
                raise InvalidUnit(
                    f"a checkpoint of {checkpoint.projection} claims sequence {checkpoint.up_to_sequence} "
                    f"of {checkpoint.stream_id}, whose head is {head.sequence}",
                    hint="fold what the ledger holds, then save",
                    head=head,
                )
            key = (checkpoint.stream_id, checkpoint.projection, checkpoint.version)
            saved = self._state.checkpoints.setdefault(key, {})
            for ahead in [sequence for sequence in saved if sequence > head.sequence]:
                del saved[ahead]
            saved[checkpoint.up_to_sequence] = checkpoint

    def rebuild_rows(self, stream_id: str | None, changes: Iterable[RowChange]) -> None:
        """See ``Store.rebuild_rows``."""
        wanted = list(changes)
        with self._lock:
            self._check_usable()
            for change in wanted:
                rows_.check_change(self._state.tables, change, frozenset())
                check_beside(self._state.tables[change.table].spec, change, ())
            for table in self._state.tables.values():
                if table.spec.truth:
                    continue
                keys = list(table.rows) if stream_id is None else rows_.rows_of_stream(table, stream_id)
                for key in keys:
                    del table.rows[key]
            rows_.apply(self._state.tables, wanted, rows_.resolver({}))

    def load(self, items: Iterable[LoadItem], unit: UnitOf | None = None) -> Receipt | None:
        """See ``Store.load``. A copy of everything is worked on, and takes the place of what was there."""
        with self._lock:
            self._check_usable()
            state = self._state.copy()
            load(state, items)
            last, receipt = None if unit is None else unit(), None
            if last is not None:
                check_unit(state, last)
                receipt = record(state, plan(state, last, self._clock.now_ms(), {}))
            self._state = state
        return receipt

    def standing(self) -> Standing:
        """See ``Store.standing``."""
        with self._lock:
            self._check_open()
            return self._standing

    def stand(self, standing: Standing, unit: Unit | None = None) -> Receipt | None:
        """See ``Store.stand``."""
        with self._lock:
            before, self._standing = self._standing, "open"
            try:
                self._check_usable()
                receipt = None
                if unit is not None:
                    check_unit(self._state, unit)
                    receipt = record(self._state, plan(self._state, unit, self._clock.now_ms(), {}))
            except BaseException:
                self._standing = before
                raise
            self._standing = standing
            return receipt

    def despite(self, standing: Standing) -> None:
        """See ``Store.despite``."""
        self._despite = standing

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """See ``Store.snapshot``. The view is a copy of every list and table, made on entering."""
        with self._lock:
            self._check_open()
            view = StateReader(self._state.copy())
        yield view

    def close(self) -> None:
        """See ``Store.close``."""
        with self._lock:
            self._closed = True

    def _check_usable(self) -> None:
        self._check_open()
        if os.getpid() != self._pid:
            raise HandleForked(
                "this memory store belongs to the parent process, which would not see what is written"
            )
        refused = None if self._standing == self._despite else refusal(self._standing, "the ledger")
        if refused is not None:
            raise refused

    def _append_one(self, unit: Unit) -> Outcome:
        try:
            check_unit(self._state, unit)
            return record(self._state, plan(self._state, unit, self._clock.now_ms(), {}))
        except CounterfoilError as error:
            return Refusal(error)

    def _head_of(self, stream_id: str) -> Head:
        stream = self._state.streams.get(stream_id)
        if stream is None:
            raise StreamNotFound(f"there is no stream {stream_id}", stream_id=stream_id)
        return stream.head

    def _claimable_head(self, stream_id: str, unit: Unit | None) -> Head:
        creating = () if unit is None else unit.streams
        if stream_id not in self._state.streams:
            for part in creating:
                if part.stream_id == stream_id and part.create is not None:
                    return Head(stream_id, 0, part.create.hash)
        return self._head_of(stream_id)


def _fenced(head: Head, token: int) -> Fenced:
    return Fenced(
        f"token {token} of stream {head.stream_id} is stale: the newest is {head.token}",
        hint="somebody else has claimed it, or the lease was released; look again before you decide",
        stream_id=head.stream_id,
        token=head.token,
        lease=head.lease,
    )
