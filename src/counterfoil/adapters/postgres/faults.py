"""Every psycopg error as one of ours, at the adapter's edge: what it means, whether to try again, the way out."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

import psycopg

from counterfoil.errors import (
    CounterfoilError,
    InternalError,
    InvalidForm,
    LedgerNotFound,
    NotPermitted,
    SchemaUnknown,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreIO,
    StoreReadOnly,
)


class DeadlinePassed(psycopg.OperationalError):
    """The client's own deadline: a frozen server acknowledges every packet and never answers (INFRA 3)."""


class Verdict(Enum):
    """What to do about an error before anybody is told."""

    LOST = "the connection is of no use any more: connect again"
    AGAIN = "the transaction lost a race: run it again"
    FINAL = "it would fail again"


# 25006: a proxy has led us to a replica, or the leader was demoted under us (INFRA 5). 25P03: we slept in a transaction.
# 57P01-57P03: the server is being stopped, has crashed or is starting. 53300: no connection is free. 08: the connection.
# 26000, 42P05: a pooler led us to another server process than the one a statement was prepared in. 0A000: a table was made
# over since its statement was prepared.
_LOST: Final = frozenset(
    {"0A000", "25006", "25P03", "26000", "42P05", "57P01", "57P02", "57P03", "57P05", "53300"}
)
# 40001, 40P01: serialization, deadlock. 55P03: a lock was not given in time. 23505: somebody inserted the row we saw
# absent. 23P01 and 23503 do not exist here: no exclusion constraint, no foreign key on the way of an append.
_AGAIN: Final = frozenset({"40001", "40P01", "55P03", "23505", "55006"})

_HINTS: Final = {
    "lost": "see whether the server runs and can be reached; then send the same events with the same ids again",
    "read_only": "connect to the primary: target_session_attrs=read-write finds it among several hosts",
    "grant": "ask the ledger's owner for the role that may do this; `counterfoil init PLACE --roles` prints them",
    "schema": "make the ledger with `counterfoil init PLACE`, or name its schema: ?schema=NAME",
    "database": "create the database first",
    "connections": "give the server more connections, or put a pooler in transaction mode before it",
    "value": "a text or number was given that the database cannot hold",
    "login": "see user, password and pg_hba.conf",
}


def verdict(error: psycopg.Error, connection: psycopg.Connection[tuple[object, ...]] | None) -> Verdict:
    """What an error says of the connection and the transaction it came from."""
    state = error.sqlstate or ""
    if state in _AGAIN:
        return Verdict.AGAIN
    if state in _LOST or state.startswith("08"):
        return Verdict.LOST
    if connection is None:
        final = _meaning(error, state)[0] in (NotPermitted, LedgerNotFound)
        return Verdict.FINAL if final else Verdict.LOST
    return Verdict.LOST if connection.closed or connection.broken else Verdict.FINAL


def translate(error: psycopg.Error, place: str, doing: str) -> CounterfoilError:
    """Our error for one of psycopg; ``doing`` completes "cannot … PLACE"."""
    state = error.sqlstate or ""
    said = f"cannot {doing} {place}: {_first_line(error)}" + (f" [{state}]" if state else "")
    kind, hint = _meaning(error, state)
    return kind(said, hint=_HINTS.get(hint), place=place, sqlstate=state)


_BY_STATE: Final[dict[str, tuple[type[CounterfoilError], str]]] = {
    "25006": (StoreReadOnly, "read_only"),
    "42501": (NotPermitted, "grant"),
    "42P01": (SchemaUnknown, "schema"),
    "42703": (SchemaUnknown, "schema"),
    "42883": (SchemaUnknown, "schema"),
    "3F000": (SchemaUnknown, "schema"),
    "3D000": (LedgerNotFound, "database"),
    "53100": (StoreFull, ""),
    "53200": (StoreFull, ""),
    "53300": (StoreBusy, "connections"),
    "23505": (StoreBusy, ""),
    "XX001": (StoreCorrupt, ""),
    "XX002": (StoreCorrupt, ""),
}
_BY_CLASS: Final[dict[str, tuple[type[CounterfoilError], str]]] = {
    "08": (StoreIO, "lost"),
    "22": (InvalidForm, "value"),
    "25": (StoreIO, "lost"),
    "28": (NotPermitted, "login"),
    "40": (StoreBusy, ""),
    "55": (StoreBusy, ""),
    "57": (StoreIO, "lost"),
    "58": (StoreIO, "lost"),
}
# While a connection is made the server's SQLSTATE does not come through, only its words.
_BY_WORDS: Final[tuple[tuple[str, tuple[type[CounterfoilError], str]], ...]] = (
    (r"authentication|no password|pg_hba\.conf|role .* does not exist", (NotPermitted, "login")),
    (r"permission denied", (NotPermitted, "grant")),
    (r"database .* does not exist", (LedgerNotFound, "database")),
    (r"too many (clients|connections)|connection slots|no more connections", (StoreBusy, "connections")),
    (r"read-only", (StoreReadOnly, "read_only")),
)


def _meaning(error: psycopg.Error, state: str) -> tuple[type[CounterfoilError], str]:
    found = _BY_STATE.get(state) or _BY_CLASS.get(state[:2])
    if found is not None:
        return found
    if isinstance(error, psycopg.DataError):
        return InvalidForm, "value"
    if not state and isinstance(error, psycopg.OperationalError):
        text = str(error)
        return next((what for words, what in _BY_WORDS if re.search(words, text)), (StoreIO, "lost"))
    return InternalError, ""


def _first_line(error: psycopg.Error) -> str:
    # What follows the first line may quote the values of a row, and an error text holds none (FORMAT 11).
    return str(error).strip().split("\n", 1)[0] or type(error).__name__
