"""Schema 1 of ``ledger.db``: the normalized runtime store of ADR 0175, which had no events; read to be taken over.

Every statement that made it stands in FORMAT, appendix A. A file is taken for it only if it holds exactly these tables
with these columns; damaged rows are read as they lie.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from counterfoil.adapters.sqlite.connect import lenient_text
from counterfoil.errors import SchemaUnknown
from counterfoil.store.takeover import Cells, OldSize

RUNTIME_SCHEMA: Final = 1
"""What ``PRAGMA user_version`` says of a runtime store."""

RUNTIME_TABLES: Final[dict[str, str]] = {
    # One row a conversation, under the application's own id.
    "conversations": """
        CREATE TABLE conversations (
            conversation_id TEXT NOT NULL PRIMARY KEY,
            agent           TEXT NOT NULL,
            title           TEXT,
            state           TEXT NOT NULL DEFAULT 'open',
            metadata        TEXT,
            created_at      INTEGER NOT NULL,
            updated_at      INTEGER NOT NULL
        )""",
    # Where a conversation stands: its revision, the run in its slot, the operation it was in (ADR 0174).
    "heads": """
        CREATE TABLE heads (
            conversation_id TEXT NOT NULL PRIMARY KEY,
            revision        INTEGER NOT NULL,
            message_count   INTEGER NOT NULL,
            active_run_id   TEXT,
            fencing_token   INTEGER NOT NULL DEFAULT 0,
            last_operation  TEXT
        )""",
    # One row a run. `terminal` is NULL while it is open.
    "runs": """
        CREATE TABLE runs (
            run_id          TEXT NOT NULL PRIMARY KEY,
            conversation_id TEXT NOT NULL,
            admission_id    TEXT,
            agent           TEXT NOT NULL,
            terminal        TEXT,
            fencing_token   INTEGER NOT NULL DEFAULT 0,
            lease_owner     TEXT,
            lease_until     INTEGER,
            started_at      INTEGER NOT NULL,
            finished_at     INTEGER,
            output          TEXT
        )""",
    # One row an input. `payload` is JSON.
    "admissions": """
        CREATE TABLE admissions (
            admission_id    TEXT NOT NULL PRIMARY KEY,
            conversation_id TEXT NOT NULL,
            dedupe_key      TEXT,
            state           TEXT NOT NULL,
            run_id          TEXT,
            payload         TEXT,
            accepted_at     INTEGER NOT NULL
        )""",
    # The messages a model would be given next, in order. `body` is JSON.
    "active_messages": """
        CREATE TABLE active_messages (
            conversation_id TEXT NOT NULL,
            position        INTEGER NOT NULL,
            message_id      TEXT NOT NULL,
            role            TEXT NOT NULL,
            body            TEXT NOT NULL,
            created_at      INTEGER NOT NULL,
            PRIMARY KEY (conversation_id, position)
        )""",
}

RUNTIME_INDEXES: Final[dict[str, str]] = {
    "runs_by_conversation": "CREATE INDEX runs_by_conversation ON runs (conversation_id, started_at)",
    "admissions_by_conversation": (
        "CREATE INDEX admissions_by_conversation ON admissions (conversation_id, accepted_at)"
    ),
    "admissions_by_dedupe": (
        "CREATE UNIQUE INDEX admissions_by_dedupe ON admissions (conversation_id, dedupe_key)"
        " WHERE dedupe_key IS NOT NULL"
    ),
}


def make_runtime_store(connection: sqlite3.Connection) -> None:
    """Make an empty runtime store, as the builds before the ledger did; for tests, drills and the document."""
    for statement in (*RUNTIME_TABLES.values(), *RUNTIME_INDEXES.values()):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {RUNTIME_SCHEMA}")


def check_runtime_store(connection: sqlite3.Connection, path: Path) -> None:
    """Raise ``SchemaUnknown`` unless every table of schema 1 is there with its columns, and nothing besides."""
    wanted = _columns_of_schema()
    names = {
        str(name)
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view', 'trigger') AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        )
    }
    wrong = sorted(names ^ wanted.keys())
    wrong += [
        name
        for name in sorted(names & wanted.keys())
        if [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] != wanted[name]
    ]
    if wrong:
        raise SchemaUnknown(
            f"{path} says schema {RUNTIME_SCHEMA} but differs from it in {', '.join(wrong)}: "
            "it is half made, or another program's",
            hint="restore the last backup of the runtime store; docs/FORMAT.md, appendix A, has its tables",
            path=str(path),
            schema=RUNTIME_SCHEMA,
            missing=wrong,
        )


def _columns_of_schema() -> dict[str, list[str]]:
    probe = sqlite3.connect(":memory:")
    try:
        make_runtime_store(probe)
        return {
            name: [str(row[1]) for row in probe.execute(f"PRAGMA table_info({name})")]
            for name in RUNTIME_TABLES
        }
    finally:
        probe.close()


def drop_runtime_store(connection: sqlite3.Connection) -> None:
    """Remove the old tables, inside the caller's transaction; with ``secure_delete`` their bytes are overwritten."""
    for name in RUNTIME_TABLES:
        connection.execute(f"DROP TABLE {name}")


class RuntimeStore:
    """Implements :class:`counterfoil.store.takeover.OldStore` on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def conversations(self) -> Iterator[str | bytes]:
        """See the protocol."""
        union = " UNION ".join(f"SELECT conversation_id FROM {name}" for name in RUNTIME_TABLES)
        for row in self._rows(f"SELECT conversation_id FROM ({union}) ORDER BY 1"):
            if row["conversation_id"] is not None:
                yield row["conversation_id"]

    def conversation(self, conversation: str | bytes) -> Cells | None:
        """See the protocol."""
        return self._first("SELECT * FROM conversations WHERE conversation_id = ?", conversation)

    def head(self, conversation: str | bytes) -> Cells | None:
        """See the protocol."""
        return self._first("SELECT * FROM heads WHERE conversation_id = ?", conversation)

    def runs(self, conversation: str | bytes) -> Iterator[Cells]:
        """See the protocol."""
        return self._of("SELECT * FROM runs WHERE {here} ORDER BY started_at, run_id", conversation)

    def admissions(self, conversation: str | bytes) -> Iterator[Cells]:
        """See the protocol."""
        return self._of(
            "SELECT * FROM admissions WHERE {here} ORDER BY accepted_at, admission_id", conversation
        )

    def messages(self, conversation: str | bytes) -> Iterator[Cells]:
        """See the protocol."""
        return self._of("SELECT * FROM active_messages WHERE {here} ORDER BY position", conversation)

    def size(self, conversation: str | bytes) -> OldSize:
        """See the protocol."""
        (messages,) = self._of(
            "SELECT count(*) n, total(length(CAST(body AS BLOB))) b FROM active_messages WHERE {here}",
            conversation,
        )
        (runs,) = self._of("SELECT count(*) n FROM runs WHERE {here}", conversation)
        return OldSize(messages["n"], int(messages["b"]), runs["n"])

    def _of(self, sql: str, conversation: str | bytes) -> Iterator[Cells]:
        return self._rows(sql.format(here=_here(conversation)), conversation)

    def _first(self, sql: str, conversation: str | bytes) -> Cells | None:
        sql = sql.replace("conversation_id = ?", _here(conversation))
        return next(self._rows(sql, conversation), None)

    def _rows(self, sql: str, *params: Any) -> Iterator[Cells]:
        cursor = self._connection.execute(sql, params)
        names = [column[0] for column in cursor.description]
        before = self._connection.text_factory
        while True:
            # Set for each fetch: other statements run between two rows of a generator.
            self._connection.text_factory = lenient_text
            try:
                row = cursor.fetchone()
            finally:
                self._connection.text_factory = before
            if row is None:
                return
            yield dict(zip(names, row, strict=True))


def _here(conversation: str | bytes) -> str:
    # Text that is no UTF-8 is handed out as bytes, and compares with no text.
    return "conversation_id = ?" if isinstance(conversation, str) else "CAST(conversation_id AS BLOB) = ?"
