"""Connections to ``ledger.db`` and their settings."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from counterfoil.adapters.sqlite.faults import is_undecodable
from counterfoil.errors import HandleForked, SchemaUnknown, StoreIO

SQLITE_MIN: Final = (3, 37)
"""STRICT tables came with 3.37."""
AUTOCHECKPOINT_PAGES: Final = 1000
"""A longer log doubles a lone commit and triples its p99 (DESIGN 4)."""
WAL_BYTES_KEPT: Final = 64 * 1024 * 1024
"""A log that a long reader made grow is cut back to this when it starts again."""
CACHE_KIB: Final = 16 * 1024
STATEMENTS_CACHED: Final = 256

Params = tuple[Any, ...]


def check_library() -> None:
    """Refuse a SQLite that lacks what the schema uses."""
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        raise SchemaUnknown(
            f"SQLite {sqlite3.sqlite_version} is too old: the ledger's tables need {'.'.join(map(str, SQLITE_MIN))}",
            hint="use a Python built with a newer SQLite",
        )


def connect(
    path: Path,
    mode: str,
    busy_s: float,
    *,
    immutable: bool = False,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    """A connection in autocommit, usable from any thread (one at a time). ``mode`` is rwc, rw or ro.

    Raises sqlite3 errors as they are; the caller knows what it was doing. Raises ``HandleForked`` where
    :func:`forked_at_work` said so.
    """
    if _AT_WORK and _file(path) in _AT_WORK:
        raise HandleForked(
            f"{path} was being read or written when process {os.getpid()} was forked, and cannot be opened safely in it",
            hint="fork while nobody uses the ledger, or start the process with the spawn method",
            path=str(path),
        )
    uri = f"file:{quote(str(path.resolve()))}?mode={mode}" + ("&immutable=1" if immutable else "")
    return sqlite3.connect(
        uri,
        uri=True,
        timeout=busy_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_CACHED,
        factory=factory,
    )


_AT_WORK: Final[set[tuple[int, int]]] = set()


def forked_at_work(path: Path) -> None:
    """In the child of a fork: this file was open, so SQLite takes the parent's locks on it for its own here."""
    if (file := _file(path)) is not None:
        _AT_WORK.add(file)


def _file(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def prepare_writer(connection: sqlite3.Connection) -> None:
    """Settings of the one connection that writes; each is a requirement of DESIGN 4."""
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreIO(
            f"the file system refuses a write-ahead log (SQLite stays in mode {mode})",
            hint="use a local disk whose file system supports shared memory maps",
        )
    for setting in (
        "synchronous = FULL",
        f"wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}",
        f"journal_size_limit = {WAL_BYTES_KEPT}",
        "recursive_triggers = ON",
        "foreign_keys = ON",
        "fullfsync = ON",  # macOS: a plain fsync does not reach the disk there
        "checkpoint_fullfsync = ON",
        "trusted_schema = OFF",
        f"cache_size = -{CACHE_KIB}",
    ):
        connection.execute(f"PRAGMA {setting}")


def prepare_reader(connection: sqlite3.Connection) -> None:
    """Settings of a connection that reads."""
    for setting in ("query_only = ON", "trusted_schema = OFF", f"cache_size = -{CACHE_KIB}"):
        connection.execute(f"PRAGMA {setting}")


def lenient_text(raw: bytes) -> str | bytes:
    """Text where it is text; the raw bytes where somebody wrote something else, for verify to name."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def fetch(connection: sqlite3.Connection, sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
    """All rows, columns as they lie in the store even when they are not what we wrote."""
    try:
        return connection.execute(sql, params).fetchall()
    except sqlite3.OperationalError as error:
        if not is_undecodable(error):
            raise
    connection.text_factory = lenient_text
    try:
        return connection.execute(sql, params).fetchall()
    finally:
        connection.text_factory = str


def close_quietly(connection: sqlite3.Connection) -> None:
    """Close a connection that may be beyond help: nothing it says now changes what is on disk."""
    with contextlib.suppress(sqlite3.Error):
        connection.close()
