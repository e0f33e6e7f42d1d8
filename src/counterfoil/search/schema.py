"""The file ``search.db``: its tables, how they are made, and what refuses a file that is not whole.

Everything in it is derived from the ledger and holds plain words, so it lies beside the data in a file of its own, of
mode 0600, is never part of a backup or an archive, and may be deleted at any time.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from counterfoil.errors import SearchUnavailable, SearchUnusable

SCHEMA: Final = 1
APPLICATION_ID: Final = 0x43465352
"""``CFSR`` in the file's header."""

HASH_BYTES: Final = 16 * 1024 * 1024
"""Memory in which FTS5 gathers words before it writes them."""

TABLES: Final[dict[str, str]] = {
    # Which ledger this follows.
    "meta": "CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    # How far each tenant's feed was followed, and the last event taken in: one that the ledger does not hold means
    # that the ledger was put back to an older state.
    "follow": """
        CREATE TABLE follow (
            tenant      TEXT NOT NULL PRIMARY KEY,
            cursor      BLOB NOT NULL,
            stream_id   TEXT NOT NULL,
            event_id    TEXT NOT NULL,
            recorded_at INTEGER NOT NULL,
            events      INTEGER NOT NULL,
            caught_up   INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID""",
    # One row a conversation: the last sequence taken in, and how many of its parts an answer cannot rest on.
    "stream": """
        CREATE TABLE stream (
            number    INTEGER PRIMARY KEY AUTOINCREMENT,
            stream_id TEXT NOT NULL UNIQUE,
            tenant    TEXT NOT NULL,
            seq       INTEGER NOT NULL,
            cut       INTEGER NOT NULL DEFAULT 0,
            unread    INTEGER NOT NULL DEFAULT 0,
            holes     INTEGER NOT NULL DEFAULT 0
        ) STRICT""",
    # One row a part of an event, under the number of its row of words. Key None: the stream's own.
    "doc": """
        CREATE TABLE doc (
            id     INTEGER PRIMARY KEY AUTOINCREMENT,
            stream INTEGER NOT NULL,
            seq    INTEGER NOT NULL,
            part   INTEGER NOT NULL,
            key_id TEXT,
            UNIQUE (stream, seq, part)
        ) STRICT""",
    # Streams and keys that were erased: what another process read before that is not put in any more.
    "erased": "CREATE TABLE erased (id TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID",
    # Folded text. Case is folded already; a candidate is always compared as a whole, so no places are kept.
    "words": (
        "CREATE VIRTUAL TABLE words USING fts5"
        "(body, tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0)"
    ),
    # The trigrams that occur: one or two characters are looked for as the beginnings of trigrams.
    "term": "CREATE VIRTUAL TABLE term USING fts5vocab(words, 'row')",
}

INDEXES: Final[dict[str, str]] = {
    "stream_by_tenant": "CREATE INDEX stream_by_tenant ON stream (tenant)",
    "doc_by_key": "CREATE INDEX doc_by_key ON doc (key_id) WHERE key_id IS NOT NULL",
}

GAPS: Final = ("cut", "unread", "holes")
"""What an answer cannot rest on, by the column that counts it."""

ADDED: Final[dict[str, str]] = {
    # Few conversations lack anything: whether one of a tenant does is known without reading the others.
    f"stream_{gap}": f"CREATE INDEX IF NOT EXISTS stream_{gap} ON stream (tenant) WHERE {gap} > 0"
    for gap in GAPS
}
"""Indexes that a file of an earlier build lacks: they are made where it is opened."""


def check_fts5() -> None:
    """Raise ``SearchUnavailable`` where this Python's SQLite has no FTS5 with trigrams."""
    probe = sqlite3.connect(":memory:")
    try:
        probe.execute(TABLES["words"])
    except sqlite3.OperationalError as error:
        raise SearchUnavailable(
            f"search needs SQLite with FTS5 and its trigram tokenizer; this is SQLite {sqlite3.sqlite_version}: {error}",
            sqlite=sqlite3.sqlite_version,
        ) from error
    finally:
        probe.close()


def make(connection: sqlite3.Connection, ledger_id: str) -> None:
    """Make every table in an empty database, inside the caller's transaction."""
    for statement in (*TABLES.values(), *INDEXES.values(), *ADDED.values()):
        connection.execute(statement)
    connection.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (HASH_BYTES,))
    connection.execute("INSERT INTO meta (name, value) VALUES ('ledger_id', ?)", (ledger_id,))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def drop(connection: sqlite3.Connection) -> None:
    """Remove every table but the list of what was erased, inside the caller's transaction."""
    for name in ("term", "words", "doc", "stream", "follow", "meta"):
        connection.execute(f"DROP TABLE IF EXISTS {name}")


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file was made a moment ago and holds nothing."""
    return connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchone() is None


def check(connection: sqlite3.Connection, path: str, ledger_id: str) -> None:
    """Raise ``SearchUnusable`` unless the file is a whole search index of this ledger; what an earlier build lacked is added."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise unusable(path, "unknown", "is not a search index of Counterfoil")
    if version > SCHEMA:
        raise unusable(path, "newer", f"has search schema {version}, and this version knows {SCHEMA}")
    if version != SCHEMA:
        raise unusable(path, "unknown", f"has search schema {version}, which this version does not know")
    present = {str(name): str(sql) for name, sql in connection.execute("SELECT name, sql FROM sqlite_master")}
    missing = sorted(name for name in (*TABLES, *INDEXES) if name not in present)
    if missing:
        raise unusable(path, "partial", f"lacks {', '.join(missing)}: it is half made")
    if present["words"] != TABLES["words"]:
        raise unusable(path, "unknown", "holds words in a form that this version does not know")
    row = connection.execute("SELECT value FROM meta WHERE name = 'ledger_id'").fetchone()
    if row is None or row[0] != ledger_id:
        raise unusable(path, "foreign", "belongs to another ledger")
    for name, statement in ADDED.items():
        if name not in present:
            connection.execute(statement)


def unusable(path: str, reason: str, said: str) -> SearchUnusable:
    """The error for a file that cannot be searched."""
    return SearchUnusable(f"{path} {said}", path=path, reason=reason)
