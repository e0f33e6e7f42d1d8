"""Worlds of the crash matrix on one ledger of a server: emptied for each point, its handles kept open."""

from __future__ import annotations

import psycopg
from msgspec.structs import replace

from counterfoil.adapters.postgres.heads import HeadMemory
from counterfoil.client.features import TABLES
from counterfoil.client.ledger import Ledger
from counterfoil.client.place import open_parts
from counterfoil.testing.crash import Life, MortalStore, World
from counterfoil.testing.manual import ManualClock, SequentialIds
from tests.servers.fixtures import schema_for

KEPT = ("meta", "row_table")
"""What says which ledger, key store and tables these are; every other table is emptied."""


class _Latest:
    """The clock of the world that is played now, for handles that outlive it."""

    def __init__(self):
        self.world = None

    def now_ms(self):
        return self.world.clock.now_ms() if self.world else 0

    def __getattr__(self, name):
        return getattr(self.world.clock, name)


class ReusedLedger:
    """A ledger in one schema, with a handle for the worker that dies and one for those that come after it."""

    def __init__(self, cluster, directory):
        schema = schema_for(directory)
        place = cluster.url(schema=schema, kek=str(directory / "kek"))
        self._latest = _Latest()
        self.handles = [
            open_parts(
                place,
                tables=TABLES,
                create=True,
                read_only=False,
                clock=self._latest,
                ids=SequentialIds(schema),
            )
            for _ in range(2)
        ]
        self._connection = psycopg.connect(cluster.url(), autocommit=True)
        # Triggers refuse to delete events, and foreign keys ask for an order; neither is looked at in this role.
        self._connection.execute("SET session_replication_role = replica")
        told = self._connection.execute(
            "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname = ANY(%s) AND tablename <> ALL(%s)",
            ([schema, f"{schema}_keys"], list(KEPT)),
        )
        self._tables = [name for (name,) in told]

    def begin(self):
        """Empty it whole, with what the emptied worlds before have left behind."""
        self._connection.execute(f"TRUNCATE {', '.join(self._tables)}")

    def world(self):
        """An empty world."""
        self._connection.execute("; ".join(f"DELETE FROM {name}" for name in self._tables))
        for parts in self.handles:
            # Streams of the same ids come again, with other keys.
            parts.store._engine._heads = HeadMemory()
        made = _ReusedWorld(self.handles)
        self._latest.world = made
        return made

    def close(self):
        """Release the handles."""
        self._connection.close()
        for parts in self.handles:
            parts.store.close()
            parts.key_store.close()


class _ReusedWorld(World):
    """A world on handles that are open already; the first worker has the first of them to itself."""

    def __init__(self, handles):
        self.clock, self.ids = ManualClock(), SequentialIds()
        self._handles = handles

    def open(self, life=None):
        parts = self._handles[0 if life is not None else 1]
        mortal = MortalStore(parts.store, life or Life())
        return Ledger(
            replace(parts, store=mortal), tenant="default", content=None, clock=self.clock, ids=self.ids
        )

    def close(self):
        """Nothing: the handles go on to the next world."""
