"""Stream heads as the writer knows them, kept between transactions while nobody else has written."""

from __future__ import annotations

import sqlite3
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.adapters.sqlite.connect import fetch
from counterfoil.adapters.sqlite.runs import LAST_RUN
from counterfoil.adapters.sqlite.schema import PARTS_PER_EVENT
from counterfoil.core.genesis import genesis_hash
from counterfoil.errors import ChainBroken
from counterfoil.store.unit import Head, Lease

CACHED_MAX: Final = 10_000

# The head row beside what the event table says: the row is a copy, and an append onto a wrong copy would fork.
LOAD: Final = f"""
    SELECT s.number, s.genesis, h.seq, h.hash, h.token, h.lease_owner, h.lease_until,
           (SELECT max(seq) FROM event WHERE stream = s.number),
           (SELECT hash FROM event WHERE stream = s.number ORDER BY seq DESC LIMIT 1), {LAST_RUN}
    FROM stream s LEFT JOIN head h ON h.stream = s.number
    WHERE s.stream_id = ?"""

POSITION_FLOOR: Final = "position_floor"
"""The row of ``meta`` that holds the highest feed position in use when a stream was last removed."""

# Records are looked at too: one whose event somebody has deleted still stands in its place. Those in the upper half
# of the integers were put there to stop us, and their places are never reached.
LAST_POSITION: Final = f"""
    SELECT max(coalesce((SELECT max(position) FROM event), 0),
               coalesce((SELECT max(slot) FROM event_content WHERE slot < 1 << 62), 0) / {PARTS_PER_EVENT},
               coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = '{POSITION_FLOOR}'), 0))"""


class HeadState(Struct):
    """One stream's head, lease and internal number; ``genesis`` is its stored text."""

    stream_id: str
    number: int
    genesis: bytes
    seq: int
    hash: bytes
    token: int = 0
    owner: str | None = None
    until: int | None = None
    run_id: str | None = None
    """The run of the last event that has one."""

    def copy(self) -> HeadState:
        """The same in an object of its own, for a transaction that may yet fail."""
        return replace(self)

    def lease(self) -> Lease | None:
        """The lease as stored, also when it has expired."""
        if self.owner is None or self.until is None:
            return None
        return Lease(self.stream_id, self.token, self.owner, self.until)

    def head(self) -> Head:
        """As the contract shows it."""
        return Head(self.stream_id, self.seq, self.hash, self.token, self.lease())


class HeadCache:
    """Heads by stream id, and the feed position that comes next; void as soon as another connection commits."""

    def __init__(self) -> None:
        self._heads: dict[str, HeadState] = {}
        self._data_version = -1
        self._schema_version = -1
        self._next_position: int | None = None

    def clear(self) -> None:
        """Forget everything: the connection is a new one, or the last transaction ended badly."""
        self._heads.clear()
        self._data_version = self._schema_version = -1
        self._next_position = None

    def refresh(self, cursor: sqlite3.Cursor) -> bool:
        """Inside a write transaction: forget what others may have changed. Whether the schema has changed."""
        version = cursor.execute("PRAGMA data_version").fetchone()[0]
        if version == self._data_version:
            return False
        self._data_version = version
        self._heads.clear()
        self._next_position = None
        schema = cursor.execute("PRAGMA schema_version").fetchone()[0]
        changed: bool = schema != self._schema_version
        self._schema_version = schema
        return changed

    def get(self, connection: sqlite3.Connection, stream_id: str) -> HeadState | None:
        """The head, from memory or the database, or None. Raises ChainBroken when its copies disagree."""
        known = self._heads.get(stream_id)
        if known is None:
            known = _load(connection, stream_id)
            if known is not None:
                self.keep([known])
        return known

    def keep(self, heads: list[HeadState]) -> None:
        """Remember what a commit has made."""
        if len(self._heads) + len(heads) > CACHED_MAX:
            self._heads.clear()
        for head in heads:
            self._heads[head.stream_id] = head

    def forget(self, stream_id: str) -> None:
        """Drop one head; it is read again when it is needed."""
        self._heads.pop(stream_id, None)

    def next_position(self, connection: sqlite3.Connection) -> int:
        """The feed position of the next event; never one that was used before, even if its event was purged."""
        if self._next_position is None:
            self._next_position = int(fetch(connection, LAST_POSITION)[0][0]) + 1
        return self._next_position

    def advance(self, next_position: int) -> None:
        """Remember where the feed stands after a commit."""
        self._next_position = next_position


def _load(connection: sqlite3.Connection, stream_id: str) -> HeadState | None:
    rows = fetch(connection, LOAD, (stream_id,))
    if not rows:
        return None
    number, genesis, seq, stored_hash, token, owner, until, last_seq, last_hash, run_id = rows[0]
    last = (last_seq, last_hash) if last_seq is not None else (0, genesis_hash(bytes(genesis)))
    if (seq, stored_hash) != last:
        raise ChainBroken(
            f"the head row of {stream_id} says sequence {seq}, its events say {last[0]}, or their hashes differ; "
            "nothing is appended to it",
            stream_id=stream_id,
            sequence=seq,
        )
    return HeadState(stream_id, number, genesis, seq, stored_hash, token, owner, until, run_id)
