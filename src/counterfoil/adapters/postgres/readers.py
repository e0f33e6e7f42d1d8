"""Connections that read: a bounded pool, each handed to one thread at a time, and reads that are asked again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import psycopg

from counterfoil.adapters.postgres.connect import BoundedConnection, Patience, close_quietly, connect
from counterfoil.adapters.postgres.faults import Verdict, translate, verdict
from counterfoil.adapters.postgres.place import PostgresPlace
from counterfoil.errors import AppendTimeout, StoreBusy, StoreClosed

PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 1.0

T = TypeVar("T")


class Readers:
    """Reading connections of one handle. ``writable`` demands a primary, so that reads are not behind."""

    def __init__(
        self,
        place: PostgresPlace,
        patience: Patience,
        *,
        writable: bool,
        connections_max: int,
        what: str = "store",
    ) -> None:
        self._place = place
        self._what = what
        self._patience = patience
        self._writable = writable
        self._room = threading.BoundedSemaphore(connections_max)
        self._max = connections_max
        self._lock = threading.Lock()
        self._idle: list[BoundedConnection] = []
        self._closed = threading.Event()

    def ask(self, question: Callable[[BoundedConnection], T]) -> T:
        """Answer a question that changes nothing; one whose connection was lost is asked again until the deadline."""
        give_up_at, pause_s = self._patience.call(), PAUSE_S
        while True:
            try:
                with self.lent(give_up_at) as connection:
                    return question(connection)
            except _Failed as failed:
                late = time.monotonic() + pause_s >= give_up_at or self._closed.is_set()
                if failed.verdict is Verdict.FINAL or late:
                    raise translate(failed.error, self._place.shown, "read") from failed.error
                # Idle connections were lost with this one.
                self.drop_idle()
                self._closed.wait(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def change(self, work: Callable[[BoundedConnection], T], sent: Callable[[], bool]) -> T:
        """Run a transaction that is safe to run again as long as its commit was not ``sent``.

        Raises AppendTimeout when it was and its answer was lost, and ``psycopg.IntegrityError`` as it is.
        """
        give_up_at, pause_s = self._patience.call(), PAUSE_S
        while True:
            try:
                with self.lent(give_up_at) as connection:
                    return work(connection)
            except _Failed as failed:
                if isinstance(failed.error, psycopg.IntegrityError):
                    raise failed.error from None
                told = translate(failed.error, self._place.shown, f"write to the {self._what} of")
                if failed.verdict is Verdict.LOST and sent():
                    raise AppendTimeout(
                        f"whether the {self._what} kept this cannot be told now: {told.message}",
                        place=self._place.shown,
                    ) from failed.error
                late = time.monotonic() + pause_s >= give_up_at or self._closed.is_set()
                if failed.verdict is Verdict.FINAL or late:
                    raise told from failed.error
                self.drop_idle()
                self._closed.wait(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)

    @contextmanager
    def translated(self) -> Iterator[BoundedConnection]:
        """A connection for this block alone, for reads that cannot be asked again; errors leave as ours."""
        try:
            with self.lent(self._patience.call()) as connection:
                yield connection
        except _Failed as failed:
            raise translate(failed.error, self._place.shown, "read") from failed.error

    @contextmanager
    def lent(self, give_up_at: float) -> Iterator[BoundedConnection]:
        """A connection for this block; one that met an error is not used again. Raises ``_Failed``."""
        if not self._room.acquire(timeout=max(0.0, give_up_at - time.monotonic())):
            raise StoreBusy(
                f"all {self._max} reading connections to {self._place.shown} were in use for {self._patience.wait_s:g} s",
                hint="end long reads, or open the ledger with more connections",
                place=self._place.shown,
            )
        connection: BoundedConnection | None = None
        try:
            connection = self._take(give_up_at)
            yield connection
            self._give(connection)
            connection = None
        except psycopg.Error as error:
            raise _Failed(error, verdict(error, connection)) from error
        finally:
            if connection is not None:
                close_quietly(connection)
            self._room.release()

    def _take(self, give_up_at: float) -> BoundedConnection:
        if self._closed.is_set():
            raise StoreClosed(f"the {self._what} is closed", hint="open the ledger again")
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = connect(
                self._place, give_up_at=give_up_at, writable=self._writable, patience=self._patience
            )
        connection.give_up_at = give_up_at
        return connection

    def _give(self, connection: BoundedConnection) -> None:
        with self._lock:
            if not self._closed.is_set() and not connection.closed:
                self._idle.append(connection)
                return
        close_quietly(connection)

    def drop_idle(self) -> None:
        """Close the idle ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            close_quietly(connection)

    def close(self) -> None:
        """Close the idle ones; those in use are closed when they come back."""
        self._closed.set()
        self.drop_idle()

    def abandon(self) -> list[BoundedConnection]:
        """After a fork: the connections that must neither be used nor closed in the child."""
        idle, self._idle = self._idle, []
        self._closed = threading.Event()
        self._closed.set()
        return idle


class _Failed(Exception):
    """A psycopg error with what it says of the connection it came from."""

    def __init__(self, error: psycopg.Error, what: Verdict) -> None:
        super().__init__(str(error))
        self.error = error
        self.verdict = what
