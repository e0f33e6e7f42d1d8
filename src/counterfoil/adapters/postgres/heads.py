"""Stream heads as a transaction moves them, and what a handle remembers of them between transactions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from counterfoil.store.rows import Key, Row
from counterfoil.store.unit import Head, Lease

CACHED_MAX: Final = 10_000
CONTENDED_APPENDS: Final = 16
"""After a conflict so many appends to the stream take the head's row lock before the quick way is tried again."""


class HeadState(Struct):
    """One stream's head and lease inside a transaction; ``genesis`` is its stored text, ``fresh`` if it is new here.

    ``leased_anew`` once token or lease have changed: only some roles may do that (``adapters.postgres.roles``).
    """

    stream_id: str
    tenant: str
    genesis: bytes
    seq: int
    hash: bytes
    token: int = 0
    owner: str | None = None
    until: int | None = None
    fresh: bool = False
    leased_anew: bool = False

    def lease(self) -> Lease | None:
        """The lease as stored, also when it has expired."""
        if self.owner is None or self.until is None:
            return None
        return Lease(self.stream_id, self.token, self.owner, self.until)

    def head(self) -> Head:
        """As the contract shows it."""
        return Head(self.stream_id, self.seq, self.hash, self.token, self.lease())


class KnownHead(Struct):
    """Where this handle last saw a stream end: good for a try, since the statement compares it with the head row."""

    seq: int
    hash: bytes
    tenant: str
    genesis: bytes
    token: int
    contended: int = 0

    def state(self, stream_id: str) -> HeadState:
        """As a transaction moves it. Who has the lease is not remembered: no unit is refused on a memory."""
        return HeadState(stream_id, self.tenant, self.genesis, self.seq, self.hash, self.token)


class HeadMemory:
    """Known heads by stream id, and known rows by table and key. Touched by whoever writes, one at a time."""

    def __init__(self) -> None:
        self._heads: dict[str, KnownHead] = {}
        self._rows: dict[tuple[str, Key], Row] = {}

    def get(self, stream_id: str) -> KnownHead | None:
        """The head if the quick way is worth a try, else None."""
        known = self._heads.get(stream_id)
        if known is None:
            return None
        if known.contended:
            known.contended -= 1
            return None
        return known

    def keep(self, head: HeadState) -> None:
        """Remember what a commit has made."""
        known = self._heads.get(head.stream_id)
        if known is not None:
            known.seq, known.hash, known.token = head.seq, head.hash, head.token
            return
        if len(self._heads) >= CACHED_MAX:
            self._heads.clear()
        self._heads[head.stream_id] = KnownHead(head.seq, head.hash, head.tenant, head.genesis, head.token)

    def move(self, stream_id: str, seq: int, digest: bytes) -> None:
        """Remember where a known head has gone."""
        known = self._heads[stream_id]
        known.seq, known.hash = seq, digest

    def row(self, table: str, key: Key) -> Row | None:
        """The row as this handle last wrote or saw it, or None."""
        return self._rows.get((table, key))

    def keep_row(self, table: str, key: Key, row: Row | None) -> None:
        """Remember what a commit has left of a row; None when it is not there."""
        if row is None:
            self._rows.pop((table, key), None)
            return
        if len(self._rows) >= CACHED_MAX:
            self._rows.clear()
        self._rows[table, key] = row

    def forget_rows(self, keys: Iterable[tuple[str, Key]]) -> None:
        """Others have changed one of these."""
        for name, key in keys:
            self._rows.pop((name, key), None)

    def contend(self, stream_id: str) -> None:
        """Somebody else writes to this stream: lock its head for a while."""
        known = self._heads.get(stream_id)
        if known is not None:
            known.contended = CONTENDED_APPENDS

    def forget(self, stream_id: str) -> None:
        """The stream is gone, or what was remembered is doubtful."""
        self._heads.pop(stream_id, None)
