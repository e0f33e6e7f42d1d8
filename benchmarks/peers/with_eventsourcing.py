"""The library ``eventsourcing``: an aggregate takes an event of 1 KB, and the application saves it.

``with_eventsourcing.py DIRECTORY`` uses SQLite, ``with_eventsourcing.py postgresql://…`` PostgreSQL, both as the library
sets them up; ``--functions`` has it record through its function on the server.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from turns import payload, postgres_settings, serve, sqlite_settings

TASKS = 64
WRITERS = 8

_numbers = itertools.count(1)


class Refunds(Aggregate):
    """What happened to somebody's refunds."""

    @event("Observed")
    def observe(self, said: dict) -> None:
        """An event that changes nothing else, so that only recording it takes time."""


class Peer:
    """One application on one database."""

    def __init__(self, place: str, *, functions: bool) -> None:
        self.application = Application(env=environment(place, functions=functions))
        self.aggregates = [Refunds() for _ in range(TASKS)]
        self.application.save(*self.aggregates)

    def record(self, aggregate: Refunds) -> None:
        """One event, durable when this returns."""
        aggregate.observe(payload(next(_numbers)))
        self.application.save(aggregate)

    def lone(self, items: int) -> None:
        """One caller."""
        for _ in range(items):
            self.record(self.aggregates[0])

    def writers(self, items: int) -> None:
        """Eight threads, each with an aggregate of its own."""
        with ThreadPoolExecutor(WRITERS) as threads:
            list(threads.map(lambda number: self._some(number, items // WRITERS), range(WRITERS)))

    def tasks(self, items: int) -> None:
        """64 tasks of one event loop. The library blocks, so each save goes to asyncio's own threads."""

        async def caller(number: int) -> None:
            for _ in range(items // TASKS):
                await asyncio.to_thread(self.record, self.aggregates[number])

        async def all_callers() -> None:
            await asyncio.gather(*(caller(number) for number in range(TASKS)))

        asyncio.run(all_callers())

    def _some(self, number: int, items: int) -> None:
        for _ in range(items):
            self.record(self.aggregates[number])

    def durable(self) -> dict[str, object]:
        """Asked on one of the library's own connections."""
        store = self.application.factory.datastore
        if hasattr(store, "schema"):

            def value(sql: str) -> object:
                with store.get_connection() as connection:
                    return next(iter(connection.execute(sql).fetchone().values()))

            return postgres_settings(value)

        def setting(sql: str) -> object:
            with store.transaction(commit=False) as cursor:
                cursor.execute(sql)
                return next(iter(cursor.fetchone()))

        return sqlite_settings(setting)


def environment(place: str, *, functions: bool) -> dict[str, str]:
    """The library's settings, its own defaults but for where to connect and a connection for each writer."""
    if "://" not in place:
        return {
            "PERSISTENCE_MODULE": "eventsourcing.sqlite",
            "SQLITE_DBNAME": str(Path(place) / "eventsourcing.db"),
        }
    url = urlsplit(place)
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_HOST": url.hostname or "",
        "POSTGRES_PORT": str(url.port or 5432),
        "POSTGRES_USER": url.username or "",
        "POSTGRES_PASSWORD": url.password or "none asked for",
        "POSTGRES_DBNAME": url.path.strip("/"),
        "POSTGRES_POOL_SIZE": str(WRITERS),
        "POSTGRES_ENABLE_DB_FUNCTIONS": "y" if functions else "n",
    }


if __name__ == "__main__":
    peer = Peer(sys.argv[1], functions="--functions" in sys.argv[2:])
    works = {"lone": peer.lone, "writers": peer.writers, "tasks": peer.tasks}
    serve("eventsourcing", peer.durable(), works)
