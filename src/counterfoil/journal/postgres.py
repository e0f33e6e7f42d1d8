"""The journal in PostgreSQL: append-only by trigger, several writers at once, waits bounded."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure, UniqueViolation

from counterfoil.errors import StoreClosed
from counterfoil.journal.sql import Cursor, Run, SqlJournal
from counterfoil.store.forks import minds_forks

CONNECT_S: Final = 5
ANSWER_MS: Final = 5_000
"""How long one statement may take. Turns do not wait for it: they hand their events to a queue."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS turn_journal_event (
    tenant text NOT NULL,
    turn_id text NOT NULL,
    agent_id text NOT NULL,
    seq integer NOT NULL CHECK (seq >= 0),
    type text NOT NULL,
    payload_hash text,
    summary text NOT NULL,
    prev_hash text NOT NULL,
    hash text NOT NULL,
    created_at_ms bigint NOT NULL,
    session_hash text,
    PRIMARY KEY (turn_id, seq)
);
CREATE INDEX IF NOT EXISTS turn_journal_session
    ON turn_journal_event (tenant, agent_id, session_hash, created_at_ms);
CREATE INDEX IF NOT EXISTS turn_journal_time ON turn_journal_event (created_at_ms);
CREATE OR REPLACE FUNCTION turn_journal_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('counterfoil.journal_removal', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'turn_journal_event is append-only' USING ERRCODE = 'restrict_violation';
END $$;
CREATE OR REPLACE TRIGGER turn_journal_no_change BEFORE UPDATE OR DELETE ON turn_journal_event
    FOR EACH ROW EXECUTE FUNCTION turn_journal_refuse();
CREATE OR REPLACE TRIGGER turn_journal_no_truncate BEFORE TRUNCATE ON turn_journal_event
    FOR EACH STATEMENT EXECUTE FUNCTION turn_journal_refuse();
"""
"""The setting is made for one transaction by a removal, so that nothing is deleted by accident."""

_MAKING: Final = "SELECT pg_advisory_xact_lock(7238917445301)"
"""Two processes that make the table at once would trip over each other."""


class PostgresJournal(SqlJournal):
    """A journal in a database that ``conninfo`` names, in its search path. Connects when it is first needed."""

    def __init__(self, conninfo: str, *, create: bool = True) -> None:
        self._conninfo = conninfo
        self._create = create
        self._lock = threading.RLock()
        self._opened: tuple[int, psycopg.Connection[tuple[Any, ...]]] | None = None
        self._closed = False
        minds_forks(self)

    @contextmanager
    def transaction(self, *, removes: bool = False) -> Iterator[Run]:
        """See the contract."""
        with self._lock, self._connection().transaction():
            run = self._run()
            if removes:
                run("SELECT set_config('counterfoil.journal_removal', 'on', true)")
            yield run

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """See the contract."""
        with self._lock, self._connection().transaction():
            yield self._run()

    def lost_race(self, error: BaseException) -> bool:
        """See the contract."""
        return isinstance(error, UniqueViolation | SerializationFailure | DeadlockDetected)

    def close(self) -> None:
        """See the contract."""
        with self._lock:
            self._closed = True
            if self._opened is not None and self._opened[0] == os.getpid():
                self._opened[1].close()
            self._opened = None

    def before_fork(self, timeout_s: float) -> None:
        """See :class:`~counterfoil.store.forks.Forked`: a session stays the parent's, and the child opens its own."""

    def after_fork(self, *, in_child: bool) -> None:
        """See :class:`~counterfoil.store.forks.Forked`."""
        if in_child:
            self._lock = threading.RLock()

    def _run(self) -> Run:
        connection = self._connection()

        def run(statement: str, parameters: Sequence[Any] = (), /) -> Cursor:
            return connection.execute(_written(statement), parameters)

        return run

    def _connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._closed:
            raise StoreClosed("the journal is closed")
        opened = self._opened
        if opened is None or opened[0] != os.getpid() or opened[1].closed:
            # A connection that broke, or that crossed a fork, is left alone and a new one opened.
            opened = self._opened = (os.getpid(), self._open())
        return opened[1]

    def _open(self) -> psycopg.Connection[tuple[Any, ...]]:
        connection = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=CONNECT_S)
        try:
            connection.execute("SELECT set_config('statement_timeout', %s, false)", (str(ANSWER_MS),))
            if self._create:
                with connection.transaction():
                    connection.execute(_MAKING)
                    connection.execute(SCHEMA)
        except BaseException:
            connection.close()
            raise
        self._create = False
        return connection


@lru_cache(maxsize=64)
def _written(statement: str) -> bytes:
    """The statement with parameters as this driver writes them; none of ours holds a ``?`` or ``%`` otherwise."""
    return statement.replace("?", "%s").encode()
