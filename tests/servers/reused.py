"""Ledgers on a server that are emptied and used again: making one takes ten times as long, and each leaves its files.

Worlds of the crash matrix lie on one ledger, whose handles stay open. Tests of the contract open theirs themselves.
"""

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


LARGE_BYTES = 65_536
"""Rows of a table above that are not deleted one by one."""

LOCK_S = 10
"""A test that has left a lock behind has not left its ledger in order."""


class Emptying:
    """Empties ledgers of a server behind the store's back, whatever guards their rows."""

    def __init__(self, cluster):
        self._connection = psycopg.connect(cluster.url(), autocommit=True)
        # Triggers refuse to delete events, and foreign keys ask for an order; neither is looked at in this role.
        self._connection.execute("SET session_replication_role = replica")
        self._connection.execute(f"SET lock_timeout = '{LOCK_S}s'")

    def tables(self, schema):
        """Every table of the ledger and of its key store that is emptied, with its schema."""
        told = self._connection.execute(
            "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname = ANY(%s) AND tablename <> ALL(%s)",
            ([schema, f"{schema}_keys"], list(KEPT)),
        )
        return [name for (name,) in told]

    def shape(self, schema):
        """What a ledger says of itself and its tables, and what the server says of these; empty without a ledger."""
        if not self._connection.execute("SELECT to_regclass(%s)", (f"{schema}.meta",)).fetchone()[0]:
            return []
        said = [
            self._connection.execute(f"SELECT t::text FROM {schema}.{name} t").fetchall() for name in KEPT
        ]
        known = self._connection.execute(
            "SELECT c.relname, c.relnatts, c.relhastriggers, c.relrowsecurity FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY(%s)",
            ([schema, f"{schema}_keys"],),
        )
        return [*map(sorted, said), sorted(known)]

    def declared(self, schema):
        """The names and versions of a ledger's row tables; a test may have carried them over to others."""
        return set(self._connection.execute(f"SELECT name, version FROM {schema}.row_table").fetchall())

    def truncate(self, tables):
        """Empty these whole, with what the deleted rows before have left behind."""
        self._connection.execute(f"TRUNCATE {', '.join(tables)}")

    def delete(self, tables):
        """Empty these; takes little where there is little."""
        filled = self._filled(tables)
        if filled:
            self._connection.execute("; ".join(f"DELETE FROM {name}" for name in filled))

    def empty(self, tables):
        """Empty these, however much they hold."""
        large = self._connection.execute(
            "SELECT FROM unnest(%s::text[]) name WHERE pg_relation_size(name::regclass) > %s LIMIT 1",
            (tables, LARGE_BYTES),
        ).fetchone()
        if large is None:
            self.delete(tables)
        else:
            # All of them: one that another refers to cannot be truncated without it.
            self.truncate(tables)

    def _filled(self, tables):
        """Which of these hold rows: a test fills a few of fifty, and to empty one takes ten times as long as to look."""
        each = ", ".join(f"EXISTS (SELECT FROM {name})" for name in tables)
        told = self._connection.execute(f"SELECT {each}").fetchone()
        return [name for name, filled in zip(tables, told, strict=True) if filled]

    def close(self):
        """Release the connection."""
        self._connection.close()


class SpareLedgers:
    """Schemas of one server whose ledgers tests of one kind have made and left: the next test finds one emptied.

    ``tables`` are those that a ledger of that kind declares.
    """

    def __init__(self, cluster, tables):
        self._emptying = Emptying(cluster)
        self._declared = {(spec.name, spec.version) for spec in tables}
        self._spare = []
        self._known = {}

    def take(self, directory):
        """The schema for a test: an empty ledger's, or one named after the directory in which there is nothing yet."""
        return self._spare.pop() if self._spare else schema_for(directory)

    def give_back(self, schema):
        """Empty a ledger that a test has closed. One that is not of this kind, or no longer as made, is left alone."""
        shape = self._emptying.shape(schema)
        if not shape or self._emptying.declared(schema) != self._declared:
            return
        if schema not in self._known:
            self._known[schema] = self._emptying.tables(schema), shape
        tables, made = self._known[schema]
        if shape == made:
            self._emptying.empty(tables)
            self._spare.append(schema)

    def close(self):
        """Release the connection."""
        self._emptying.close()


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
        self._emptying = Emptying(cluster)
        self._tables = self._emptying.tables(schema)

    def begin(self):
        """Empty it, with what the emptied worlds before have left behind where that is much."""
        self._emptying.empty(self._tables)

    def world(self):
        """An empty world."""
        self._emptying.delete(self._tables)
        for parts in self.handles:
            # Streams of the same ids come again, with other keys.
            parts.store._engine._heads = HeadMemory()
        made = _ReusedWorld(self.handles)
        self._latest.world = made
        return made

    def close(self):
        """Release the handles."""
        self._emptying.close()
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
