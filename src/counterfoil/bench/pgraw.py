"""What somebody writes by hand on PostgreSQL: the raw loop of :mod:`counterfoil.bench.raw` in a server's tables.

One connection, prepared statements, and everything of one transaction in one round trip.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any, Final

import orjson
import psycopg
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from counterfoil.bench.raw import NONCE_BYTES, RECORDED_AT_MS, RawItem, raw_header
from counterfoil.bench.sample import Sample
from counterfoil.effects.rows import EFFECTS

_TYPES: Final = {"text": "text", "integer": "bigint", "blob": "bytea"}
_COLUMNS: Final = [column.name for column in EFFECTS.columns]
_CHANGED: Final = [name for name in _COLUMNS if name not in EFFECTS.key]

TABLES: Final = (
    """CREATE TABLE event (stream_id text NOT NULL, seq bigint NOT NULL, event_id text NOT NULL,
       event_type text NOT NULL, run_id text, recorded_at bigint NOT NULL, header bytea NOT NULL, hash bytea NOT NULL,
       content bytea NOT NULL, PRIMARY KEY (stream_id, seq), UNIQUE (stream_id, event_id))""",
    "CREATE TABLE head (stream_id text PRIMARY KEY, seq bigint NOT NULL, hash bytea NOT NULL) WITH (fillfactor = 50)",
    f"CREATE TABLE effects ({', '.join(f'{c.name} {_TYPES[c.type]}' for c in EFFECTS.columns)},"
    f" PRIMARY KEY ({', '.join(EFFECTS.key)}))",
    *(
        f"CREATE INDEX effects_{name} ON effects ({', '.join(columns)})"
        for name, columns in EFFECTS.indexes.items()
    ),
    "CREATE TABLE plain (id text PRIMARY KEY, body bytea NOT NULL)",
)
ADD_EVENT: Final = (
    b"INSERT INTO event (stream_id, seq, event_id, event_type, run_id, recorded_at, header, hash, content)"
    b" VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
SET_HEAD: Final = b"UPDATE head SET seq = %s, hash = %s WHERE stream_id = %s"
UPSERT: Final = (
    f"INSERT INTO effects ({', '.join(_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_COLUMNS))})"  # noqa: S608 - our names
    f" ON CONFLICT ({', '.join(EFFECTS.key)}) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _CHANGED)
).encode()
INSERT_PLAIN: Final = b"INSERT INTO plain (id, body) VALUES (%s, %s)"


class PgRawChain:
    """One database written by hand through one connection."""

    def __init__(self, url: str) -> None:
        self.db = psycopg.connect(url, autocommit=True, prepare_threshold=1)
        for statement in TABLES:
            self.db.execute(statement.encode())
        self._seq, self._hash = 0, bytes(32)
        self._stream_id = Sample().stream_id
        self.db.execute("INSERT INTO head VALUES (%s, 0, %s)", (self._stream_id, self._hash))
        self._cipher = AESGCM(bytes(32))

    def append(self, items: Sequence[RawItem], *, rows: bool = True) -> None:
        """One transaction in one round trip: events encoded, sealed, chained and inserted, the head moved, rows written."""
        with self.db.pipeline(), self.db.transaction():
            execute = self.db.execute
            for item in items:
                execute(ADD_EVENT, self._event(item))
                if rows:
                    execute(UPSERT, item[1])
            execute(SET_HEAD, (self._seq, self._hash, self._stream_id))

    def insert_plain(self, id: str, body: bytes) -> None:
        """A log line that is durable: one INSERT and its COMMIT."""
        self.db.execute(INSERT_PLAIN, (id, body))

    def close(self) -> None:
        """Release the connection."""
        self.db.close()

    def _event(self, item: RawItem) -> tuple[Any, ...]:
        draft, _ = item
        self._seq += 1
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, orjson.dumps(draft.parts[0].value), draft.event_id.encode())
        content = nonce + sealed
        told = raw_header(draft, content, self._stream_id, self._seq, self._hash)
        header = orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
        self._hash = hashlib.sha256(header).digest()
        where = (self._stream_id, self._seq, draft.event_id, draft.event_type, draft.run_id)
        return (*where, RECORDED_AT_MS, header, self._hash, content)
