"""Schema 2 of ``ledger.db``: every table, index and trigger with the sentence that explains it.

Tables that are truth: ``stream`` (genesis), ``event``, ``event_content``. All others are derived or say what the
file is. Ids are text as FORMAT 1 writes them, so the file can be read with any SQLite tool; streams have an
internal number, because it stands in every index entry.
"""

from __future__ import annotations

from typing import Final

SCHEMA: Final = 2
APPLICATION_ID: Final = 0x43464C47
"""``CFLG`` in the file's header: what `file ledger.db` and our own open see before they read a table."""

PARTS_PER_EVENT: Final = 16
"""``event_content.slot`` is the event's position times this plus the part: one key, no second index."""

TABLES: Final[dict[str, str]] = {
    # What this file is: schema number, ledger id; and the last feed position that a purge has freed.
    "meta": "CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    # One row a stream. AUTOINCREMENT: a purged stream's number must never name another stream's events.
    "stream": """
        CREATE TABLE stream (
            number    INTEGER PRIMARY KEY AUTOINCREMENT,
            stream_id TEXT NOT NULL UNIQUE,
            tenant    TEXT NOT NULL,
            kind      TEXT NOT NULL,
            genesis   BLOB NOT NULL
        ) STRICT""",
    # One row an event. `position` is the feed's order. A purge must not reuse positions: AUTOINCREMENT would see to
    # that with one more page in every commit, so `removal.py` keeps a floor instead.
    # `header` begins with `{` when it is stored plain and with 0x01 in the form of `packing.py`.
    # All columns but `header` and `hash` are copies that verify compares.
    "event": """
        CREATE TABLE event (
            position    INTEGER PRIMARY KEY,
            stream      INTEGER NOT NULL,
            seq         INTEGER NOT NULL,
            event_id    TEXT NOT NULL,
            event_type  TEXT NOT NULL,
            run_id      TEXT,
            recorded_at INTEGER NOT NULL,
            header      BLOB NOT NULL,
            hash        BLOB NOT NULL,
            UNIQUE (stream, seq),
            UNIQUE (stream, event_id)
        ) STRICT""",
    # One row a sealed record, found by position and part.
    "event_content": "CREATE TABLE event_content (slot INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT",
    # Where each stream ends, and who may write for its run. Derived, except for token and lease, which are operational.
    "head": """
        CREATE TABLE head (
            stream      INTEGER PRIMARY KEY,
            seq         INTEGER NOT NULL,
            hash        BLOB NOT NULL,
            token       INTEGER NOT NULL DEFAULT 0,
            lease_owner TEXT,
            lease_until INTEGER
        ) STRICT""",
    # Where in a stream the run changes: with the start of the next row it bounds a stretch that holds events of
    # this run, and perhaps of none. Written once a run instead of once an event. Derived: `runs.py` makes it again.
    "run_span": """
        CREATE TABLE run_span (
            stream   INTEGER NOT NULL,
            from_seq INTEGER NOT NULL,
            run_id   TEXT NOT NULL,
            PRIMARY KEY (stream, from_seq)
        ) STRICT, WITHOUT ROWID""",
    # The newest checkpoint of each projection: an acceleration, never the record.
    "checkpoint": """
        CREATE TABLE checkpoint (
            stream         INTEGER NOT NULL,
            projection     TEXT NOT NULL,
            version        INTEGER NOT NULL,
            up_to_sequence INTEGER NOT NULL,
            commitment     TEXT NOT NULL,
            record         BLOB NOT NULL,
            PRIMARY KEY (stream, projection, version)
        ) STRICT""",
    # Which row tables exist, under which version of their declaration; `stale` until rows are rebuilt.
    "row_table": """
        CREATE TABLE row_table (
            name    TEXT NOT NULL PRIMARY KEY,
            version INTEGER NOT NULL,
            spec    TEXT NOT NULL,
            stale   INTEGER NOT NULL DEFAULT 0
        ) STRICT, WITHOUT ROWID""",
    # While its one row stands, guarded tables may be changed. The reference never resolves and is checked at
    # COMMIT, so no connection that enforces foreign keys (ours do) can leave a permit behind.
    "permit": """
        CREATE TABLE permit (
            id     INTEGER PRIMARY KEY CHECK (id = 1),
            ground TEXT NOT NULL CHECK (ground LIKE 'permit:%') REFERENCES meta (name) DEFERRABLE INITIALLY DEFERRED
        ) STRICT""",
}

INDEXES: Final[dict[str, str]] = {
    # Streams of one tenant in the order they were made.
    "stream_by_tenant": "CREATE INDEX stream_by_tenant ON stream (tenant, stream_id)",
    # A run is a filtered view of its conversation. UNIQUE, so that the planner need not sort.
    "run_span_by_run": "CREATE UNIQUE INDEX run_span_by_run ON run_span (stream, run_id, from_seq)",
}

_NO_PERMIT: Final = "NOT EXISTS (SELECT 1 FROM permit)"
_GUARDED: Final = {"event": "events", "event_content": "records", "stream": "streams"}

# A replacing INSERT deletes without firing delete triggers unless `recursive_triggers` is on, which another
# program's connection will not have set. These conditions see the row it would replace.
_REPLACES: Final = {
    "event": """NEW.seq <= (SELECT seq FROM head WHERE stream = NEW.stream)
        OR EXISTS (SELECT 1 FROM event WHERE stream = NEW.stream AND event_id = NEW.event_id)
        OR EXISTS (SELECT 1 FROM event WHERE position = NEW.position)""",
    "event_content": "EXISTS (SELECT 1 FROM event_content WHERE slot = NEW.slot)",
    "stream": "EXISTS (SELECT 1 FROM stream WHERE stream_id = NEW.stream_id OR number = NEW.number)",
}


def _triggers() -> dict[str, str]:
    made = {}
    for table, things in _GUARDED.items():
        for verb, done in (("UPDATE", "changed"), ("DELETE", "deleted")):
            name = f"{table}_{verb.lower()}"
            made[name] = (
                f"CREATE TRIGGER {name} BEFORE {verb} ON {table} WHEN {_NO_PERMIT} "
                f"BEGIN SELECT RAISE(ABORT, 'counterfoil: {things} are never {done}'); END"
            )
        made[f"{table}_insert"] = (
            f"CREATE TRIGGER {table}_insert BEFORE INSERT ON {table} WHEN {_REPLACES[table]} "
            f"BEGIN SELECT RAISE(ABORT, 'counterfoil: {things} are never replaced'); END"
        )
    return made


TRIGGERS: Final = _triggers()
"""UPDATE, DELETE and replacing INSERT are refused on the tables that are truth (DESIGN 4)."""
