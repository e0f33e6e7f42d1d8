"""Every sqlite3 error as one of ours, at the adapter's edge, each with its way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterfoil.errors import (
    CounterfoilError,
    InternalError,
    LedgerNotFound,
    SchemaUnknown,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreIO,
    StoreReadOnly,
)

UNDECODABLE = "Could not decode to UTF-8"

_HINTS = {
    "not_a_database": "if it is a ledger, its first page is damaged: restore the last backup",
    "io": "see the system's log for the device, then send the same events with the same ids again",
    "moved": "put the ledger's files back, then open it again",
    "read_only": "give this user write permission on the directory, or open with read_only=True",
    "schema": "restore the last backup; the tables were changed by another program",
}


def primary_code(error: sqlite3.Error) -> int:
    """The primary result code; 0 when the error did not come from SQLite itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def extended_name(error: sqlite3.Error) -> str:
    """The extended result code by name, such as ``SQLITE_IOERR_FSYNC``."""
    return str(getattr(error, "sqlite_errorname", "") or type(error).__name__)


def is_undecodable(error: sqlite3.Error) -> bool:
    """Whether a text column holds bytes that are no UTF-8; only somebody behind our back writes such."""
    return UNDECODABLE in str(error)


def translate(error: sqlite3.Error, path: Path, doing: str, damaged: str | None = None) -> CounterfoilError:
    """Our error for one of sqlite3; ``doing`` completes "cannot … PATH", ``damaged`` is the way out of a damaged file."""
    name = extended_name(error)
    said = f"cannot {doing} {path}: {error} [{name}]"
    fields = {"path": str(path), "sqlite": name}
    match primary_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(said, **fields)
        case sqlite3.SQLITE_FULL:
            return StoreFull(said, **fields)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return _read_only(said, path, fields)
        case sqlite3.SQLITE_CORRUPT:
            return StoreCorrupt(said, hint=damaged, **fields)
        case sqlite3.SQLITE_NOTADB:
            return StoreCorrupt(said, hint=damaged or _HINTS["not_a_database"], **fields)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM | sqlite3.SQLITE_PROTOCOL:
            return StoreIO(said, hint=_HINTS["io"], **fields)
        case sqlite3.SQLITE_CANTOPEN:
            return _cannot_open(said, path, fields)
        case sqlite3.SQLITE_ERROR if str(error).startswith("no such"):
            return SchemaUnknown(said, hint=_HINTS["schema"], **fields)
        case _:
            return InternalError(said, **fields)


def _read_only(said: str, path: Path, fields: dict[str, str]) -> CounterfoilError:
    if fields["sqlite"] == "SQLITE_READONLY_DBMOVED":
        gone = f"{path} was deleted, moved or replaced while it was open"
        return StoreIO(gone, hint=_HINTS["moved"], **fields)
    return StoreReadOnly(said, hint=_HINTS["read_only"], **fields)


def _cannot_open(said: str, path: Path, fields: dict[str, str]) -> CounterfoilError:
    if not path.exists():
        return LedgerNotFound(said, **fields)
    return StoreReadOnly(said, hint=_HINTS["read_only"], **fields)


@contextmanager
def translated(path: Path, doing: str, damaged: str | None = None) -> Iterator[None]:
    """Run a block whose sqlite3 errors leave as ours; see :func:`translate`."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path, doing, damaged) from error
