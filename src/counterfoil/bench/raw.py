"""What somebody writes by hand on the same engine: a chained INSERT, a head update, a row upsert, then COMMIT.

The same full event, encoded without a check, its content encrypted under a key that is at hand, in tables without
triggers, by the only writer there is: the floor that the ledger is held against.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from counterfoil.adapters.sqlite.connect import AUTOCHECKPOINT_PAGES, CACHE_KIB
from counterfoil.bench.sample import Sample
from counterfoil.core.event import Draft
from counterfoil.core.header import CTX
from counterfoil.effects.rows import EFFECTS
from counterfoil.store.rows import Put

RECORDED_AT: Final = "2026-09-01T14:31:08.518Z"
RECORDED_AT_MS: Final = 1_788_273_068_518
NONCE_BYTES: Final = 12

_COLUMNS: Final = [column.name for column in EFFECTS.columns]
_CHANGED: Final = [name for name in _COLUMNS if name not in EFFECTS.key]

TABLES: Final = (
    """CREATE TABLE event (position INTEGER PRIMARY KEY, stream INTEGER NOT NULL,
       seq INTEGER NOT NULL, event_id TEXT NOT NULL, event_type TEXT NOT NULL, run_id TEXT,
       recorded_at INTEGER NOT NULL, header BLOB NOT NULL, hash BLOB NOT NULL, content BLOB NOT NULL,
       UNIQUE (stream, seq), UNIQUE (stream, event_id)) STRICT""",
    "CREATE TABLE head (stream INTEGER PRIMARY KEY, seq INTEGER NOT NULL, hash BLOB NOT NULL) STRICT",
    f"CREATE TABLE effects ({', '.join(_COLUMNS)}, PRIMARY KEY ({', '.join(EFFECTS.key)}))",
    *(
        f"CREATE INDEX effects_{name} ON effects ({', '.join(columns)})"
        for name, columns in EFFECTS.indexes.items()
    ),
    "CREATE TABLE plain (id TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT",
    "INSERT INTO head VALUES (1, 0, zeroblob(32))",
)
ADD_EVENT: Final = (
    "INSERT INTO event (stream, seq, event_id, event_type, run_id, recorded_at, header, hash, content)"
    " VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)"
)
SET_HEAD: Final = "UPDATE head SET seq = ?, hash = ? WHERE stream = 1"
UPSERT: Final = (
    f"INSERT INTO effects ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - our names
    f" ON CONFLICT ({', '.join(EFFECTS.key)}) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _CHANGED)
)


class RawChain:
    """One database written by hand, with the ledger's own settings (WAL, FULL, the same cache and checkpoint)."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "raw.db"
        self.db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        for setting in (
            "journal_mode = WAL",
            "synchronous = FULL",
            f"wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}",
            f"cache_size = -{CACHE_KIB}",
        ):
            self.db.execute(f"PRAGMA {setting}")
        for statement in TABLES:
            self.db.execute(statement)
        self._seq, self._hash = 0, bytes(32)
        self._stream_id = Sample().stream_id
        self._cipher = AESGCM(bytes(32))

    def append(self, items: Sequence[RawItem]) -> None:
        """One transaction; each event is encoded, sealed, chained to the one before, inserted, head and row written."""
        execute, encrypt = self.db.execute, self._cipher.encrypt
        execute("BEGIN IMMEDIATE")
        for draft, row in items:
            self._seq += 1
            nonce = os.urandom(NONCE_BYTES)
            content = nonce + encrypt(nonce, orjson.dumps(draft.parts[0].value), draft.event_id.encode())
            header = orjson.dumps(
                raw_header(draft, content, self._stream_id, self._seq, self._hash),
                option=orjson.OPT_SORT_KEYS,
            )
            self._hash = hashlib.sha256(header).digest()
            values = (
                self._seq,
                draft.event_id,
                draft.event_type,
                draft.run_id,
                RECORDED_AT_MS,
                header,
                self._hash,
                content,
            )
            execute(ADD_EVENT, values)
            execute(SET_HEAD, (self._seq, self._hash))
            execute(UPSERT, row)
        execute("COMMIT")

    def insert_plain(self, id: str, body: bytes) -> None:
        """A log line that is durable: one INSERT and its COMMIT."""
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("INSERT INTO plain (id, body) VALUES (?, ?)", (id, body))
        self.db.execute("COMMIT")

    def close(self) -> None:
        """Release the file."""
        self.db.close()


def raw_header(draft: Draft, content: bytes, stream_id: str, seq: int, tip: bytes) -> dict[str, Any]:
    """The members of our header, with the digest of the sealed content in both places."""
    digest = hashlib.sha256(content).hexdigest()
    return {
        "actor": draft.actor,
        "attempt": draft.attempt,
        "causation_event_id": draft.causation_event_id,
        "content": [{"commitment": digest, "sha256": digest}],
        "ctx": CTX,
        "data": draft.data,
        "event_id": draft.event_id,
        "event_schema_version": draft.event_schema_version,
        "event_type": draft.event_type,
        "occurred_at": draft.occurred_at,
        "previous_event_hash": tip.hex(),
        "recorded_at": RECORDED_AT,
        "run_id": draft.run_id,
        "stream_id": stream_id,
        "stream_sequence": seq,
    }


RawItem = tuple[Draft, tuple[Any, ...]]
"""An event as its caller describes it, and the parameters of its row."""


def raw_items(sample: Sample, count: int) -> list[RawItem]:
    """So many events, for one turn of the raw loop."""
    return [(draft, _params(row)) for draft, row in sample.described(count)]


def _params(row: Put) -> tuple[Any, ...]:
    cells = row.values
    plain = {"outcome_sequence": 1, "changed_at_ms": RECORDED_AT_MS}
    return tuple(plain.get(name, cells.get(name)) for name in _COLUMNS)
