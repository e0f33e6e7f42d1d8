"""What somebody writes by hand on the same engine: a chained INSERT, a head update, a row upsert, one COMMIT.

No sealing, no checks, no triggers, no ids, no locks between processes: the floor that the ledger is held against.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from counterfoil.adapters.sqlite.connect import AUTOCHECKPOINT_PAGES, CACHE_KIB
from counterfoil.bench.sample import Sample
from counterfoil.core.event import Prepared, splice
from counterfoil.effects.rows import EFFECTS
from counterfoil.store.rows import Put

RECORDED_AT: Final = "2026-09-01T14:31:08.518Z"
RECORDED_AT_MS: Final = 1_788_273_068_518

_COLUMNS: Final = [column.name for column in EFFECTS.columns]
_CHANGED: Final = [name for name in _COLUMNS if name not in EFFECTS.key]

TABLES: Final = (
    """CREATE TABLE event (position INTEGER PRIMARY KEY AUTOINCREMENT, stream INTEGER NOT NULL,
       seq INTEGER NOT NULL, event_id TEXT NOT NULL, event_type TEXT NOT NULL, run_id TEXT,
       recorded_at INTEGER NOT NULL, header BLOB NOT NULL, hash BLOB NOT NULL, content BLOB NOT NULL,
       UNIQUE (stream, seq), UNIQUE (stream, event_id)) STRICT""",
    "CREATE TABLE head (stream INTEGER PRIMARY KEY, seq INTEGER NOT NULL, hash BLOB NOT NULL) STRICT",
    f"CREATE TABLE effects ({', '.join(_COLUMNS)}, PRIMARY KEY ({', '.join(EFFECTS.key)}))",
    *(
        f"CREATE INDEX effects_{name} ON effects ({', '.join(columns)})"
        for name, columns in EFFECTS.indexes.items()
    ),
    "CREATE TABLE plain (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT",
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

    def append(self, items: Sequence[RawItem]) -> None:
        """One transaction: every event chained to the one before, the head moved once, the rows upserted."""
        execute = self.db.execute
        execute("BEGIN IMMEDIATE")
        for event, row in items:
            self._seq += 1
            header = splice(event, self._seq, RECORDED_AT, self._hash.hex())
            self._hash = hashlib.sha256(b"\x00" + header).digest()
            values = (
                self._seq,
                event.event_id,
                event.event_type,
                event.run_id,
                RECORDED_AT_MS,
                header,
                self._hash,
                event.records[0],
            )
            execute(ADD_EVENT, values)
            execute(UPSERT, row)
        execute(SET_HEAD, (self._seq, self._hash))
        execute("COMMIT")

    def insert_plain(self, body: bytes) -> None:
        """The least durable thing there is: one INSERT and its COMMIT."""
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("INSERT INTO plain (body) VALUES (?)", (body,))
        self.db.execute("COMMIT")

    def close(self) -> None:
        """Release the file."""
        self.db.close()


RawItem = tuple[Prepared, tuple[Any, ...]]
"""An event whose bytes were made before, and the parameters of its row."""


def raw_items(sample: Sample, count: int) -> list[RawItem]:
    """Events and rows ready to be written; making them is not what the raw loop is measured for."""
    return [(sample.prepared(draft), _params(row)) for draft, row in sample.described(count)]


def _params(row: Put) -> tuple[Any, ...]:
    cells = row.values
    plain = {"outcome_sequence": 1, "changed_at_ms": RECORDED_AT_MS}
    return tuple(plain.get(name, cells.get(name)) for name in _COLUMNS)
