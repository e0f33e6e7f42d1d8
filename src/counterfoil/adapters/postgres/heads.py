"""Stream heads as a transaction moves them, and what a handle remembers of them between transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from counterfoil.store.unit import Head, Lease

CACHED_MAX: Final = 10_000
CONTENDED_APPENDS: Final = 16
"""After a conflict so many appends to the stream take the head's row lock before the quick way is tried again."""


@dataclass(slots=True)
class HeadState:
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


@dataclass(slots=True)
class KnownHead:
    """Where this handle last saw a stream end: good for a try, since the statement compares it with the head row."""

    seq: int
    hash: bytes
    contended: int = 0


class HeadMemory:
    """Known heads by stream id. Touched by whoever writes, one at a time."""

    def __init__(self) -> None:
        self._heads: dict[str, KnownHead] = {}

    def get(self, stream_id: str) -> KnownHead | None:
        """The head if the quick way is worth a try, else None."""
        known = self._heads.get(stream_id)
        if known is None:
            return None
        if known.contended:
            known.contended -= 1
            return None
        return known

    def keep(self, stream_id: str, seq: int, digest: bytes) -> None:
        """Remember what a commit has made."""
        known = self._heads.get(stream_id)
        if known is not None:
            known.seq, known.hash = seq, digest
            return
        if len(self._heads) >= CACHED_MAX:
            self._heads.clear()
        self._heads[stream_id] = KnownHead(seq, digest)

    def contend(self, stream_id: str) -> None:
        """Somebody else writes to this stream: lock its head for a while."""
        known = self._heads.get(stream_id)
        if known is not None:
            known.contended = CONTENDED_APPENDS

    def forget(self, stream_id: str) -> None:
        """The stream is gone, or what was remembered is doubtful."""
        self._heads.pop(stream_id, None)
