"""Connections with a deadline on every wait, usable behind a pooler in transaction mode."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

from counterfoil.adapters.postgres.arrays import register_arrays
from counterfoil.adapters.postgres.faults import DeadlinePassed
from counterfoil.adapters.postgres.place import ANSWER_S, WAIT_S, PostgresPlace

CONNECT_S_MIN: Final = 2
"""libpq takes a shorter connect_timeout for this."""
KEEPALIVE_S: Final = 10
LONG_S: Final = 3600.0

BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Locks come first and each statement must see what was committed before it, whatever a login's default is. Whether it
may write stays the server's decision: a demoted or quiesced one says no (25006)."""

T = TypeVar("T")
Params = Sequence[Any] | Mapping[str, Any]


class Patience(Struct, frozen=True):
    """How long to wait: ``wait_s`` for a whole call with all its tries, ``answer_s`` for one answer of the server."""

    wait_s: float = WAIT_S
    answer_s: float = ANSWER_S

    def call(self) -> float:
        """The end of a call that begins now (``time.monotonic``)."""
        return time.monotonic() + self.wait_s

    def long(self) -> float:
        """The end of a call that handles everything a ledger holds: it may go on as long as there are answers."""
        return time.monotonic() + LONG_S


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose every wait ends after ``answer_s``, and by ``give_up_at`` (``time.monotonic``) at the latest.

    A connection that ran into its deadline is closed: an answer that comes later must not be taken for another's.
    """

    answer_s: float = ANSWER_S
    give_up_at: float = math.inf
    kept_cursor: psycopg.Cursor[tuple[Any, ...]] | None = None
    may_prepare: ClassVar[bool] = True
    """Whether statements may be prepared where nothing stands before the server; no longer once that has failed."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """See ``psycopg.Connection.wait``. Raises :class:`DeadlinePassed`."""
        try:
            until = min(self.give_up_at, time.monotonic() + self.answer_s)
            return super().wait(_until(gen, until), *args, **options)
        except DeadlinePassed:
            self.pgconn.finish()
            raise
        except _NOT_PREPARED:
            BoundedConnection.may_prepare = False
            self.pgconn.finish()
            raise


PREPARE_THRESHOLD: Final = 5
"""A statement is prepared when it is sent for the sixth time: parsing and planning it takes as long as a small insert."""

_NOT_PREPARED: Final = (
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
)

PATIENT: Final = Patience()


def _until(gen: Generator[Any, Any, T], give_up_at: float) -> Generator[Any, Any, T]:
    """The same generator, ended by an error at the first wake-up after the deadline (one each 0.1 s)."""
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and time.monotonic() >= give_up_at:
                raise DeadlinePassed("the server did not answer within the deadline")
            state = gen.send(ready)
    except StopIteration as end:
        answer: T = end.value
        return answer


def connect(
    place: PostgresPlace, *, give_up_at: float, writable: bool, patience: Patience = PATIENT
) -> BoundedConnection:
    """A new connection in autocommit. Raises psycopg errors as they are; the caller knows what it was doing.

    Nothing here outlives a transaction on the server: no session settings, no locks, no LISTEN, and named statements
    only where no pooler can give each transaction another server connection (INFRA 4).
    """
    left_s = max(CONNECT_S_MIN, min(patience.answer_s, give_up_at - time.monotonic()))
    options: dict[str, Any] = {
        "connect_timeout": math.ceil(left_s),
        "application_name": "counterfoil",
        "keepalives_idle": KEEPALIVE_S,
        "client_encoding": "UTF8",
    }
    if writable:
        # Also behind a proxy, which may lead the first connection to a replica (INFRA 5).
        options["target_session_attrs"] = "read-write"
    given = conninfo_to_dict(place.conninfo)
    if "connect_timeout" in given:
        options["connect_timeout"] = min(
            options["connect_timeout"], int(given["connect_timeout"] or 0) or math.inf
        )
    options = {
        name: value for name, value in options.items() if name not in given or name == "connect_timeout"
    }
    connection = BoundedConnection.connect(place.conninfo, autocommit=True, prepare_threshold=None, **options)
    register_arrays(connection)
    connection.answer_s, connection.give_up_at = patience.answer_s, give_up_at
    if BoundedConnection.may_prepare and _is_direct(connection):
        connection.prepare_threshold = PREPARE_THRESHOLD
    return connection


def _is_direct(connection: BoundedConnection) -> bool:
    """Whether the process that greeted us is the one that answers: a pooler greets with a number of its own."""
    ((pid,),) = connection.execute(b"SELECT pg_backend_pid()").fetchall()
    return bool(pid == connection.info.backend_pid)


def run(connection: BoundedConnection, sql: str, params: Params = ()) -> psycopg.Cursor[tuple[Any, ...]]:
    """Send one statement; rows come in binary form. In a pipeline the answer is there after its end."""
    return connection.cursor(binary=True).execute(sql.encode(), params or None)


def ask(connection: BoundedConnection, sql: str, params: Params) -> list[tuple[Any, ...]]:
    """All rows of one statement outside a pipeline, by the one cursor that the connection keeps for this."""
    cursor = connection.kept_cursor
    if cursor is None:
        cursor = connection.kept_cursor = connection.cursor(binary=True)
    return cursor.execute(sql.encode(), params).fetchall()


def fetch(connection: BoundedConnection, sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
    """All rows of one statement."""
    return run(connection, sql, params).fetchall()


def run_all(connection: BoundedConnection, statements: Sequence[str]) -> None:
    """Send statements without parameters in one go, inside the caller's transaction."""
    connection.cursor().execute(";\n".join(statements).encode())


def close_quietly(connection: BoundedConnection) -> None:
    """Close a connection that may be beyond help; never waits for the server."""
    with contextlib.suppress(psycopg.Error):
        connection.close()
