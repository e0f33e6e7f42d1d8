"""A small ledger with every kind of part, and ways to change it behind the store's back."""

from __future__ import annotations

import copy
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
from counterfoil.adapters.sqlite.open import open_sqlite
from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Draft, Part, event_hash, prepare, read_header, splice
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import make_genesis
from counterfoil.evidence.verify import verify
from counterfoil.keys.file_provider import FileKeyProvider
from counterfoil.keys.keyring import Keyring
from counterfoil.store.rows import Column, Feature, Patch, Put, TableSpec
from counterfoil.store.unit import StreamAppend, Unit
from counterfoil.testing.manual import START_MS, ManualClock, SequentialIds

LEDGER = "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG"
AGENT = {"type": "agent", "id": "shop-agent"}
EVENTS = 8

ORDERS = TableSpec(
    "orders",
    (
        Column("order_id"),
        Column("stream_id"),
        Column("state"),
        Column("name_index"),
        Column("seq", "integer"),
    ),
    key=("order_id",),
)


def _rows(fact, index):
    if fact.event_type == "order.placed":
        row = {
            "order_id": fact.data["order"],
            "stream_id": fact.stream_id,
            "state": "placed",
            "seq": fact.sequence,
        }
        name = None if fact.content is None else index("order", fact.content["customer"])
        return [Put("orders", {**row, "name_index": name})]
    return [Patch("orders", (fact.data["order"],), {"state": "paid", "seq": fact.sequence})]


FEATURE = Feature("orders", (ORDERS,), frozenset({"order.placed", "order.paid"}), _rows)


def registry():
    known = Registry()
    known.declare("order.placed", 1, {"order": "label", "due?": "time"})
    known.declare("order.paid", 1, {"order": "label", "lines?": "n"})
    known.declare("order.noted", 1, {})
    return known


class TamperCase:
    """Two conversations and the tenant's configuration stream; the first conversation has 8 events."""

    def __init__(self, directory: Path, *, content: str = "sealed", seed: int = 0) -> None:
        self.content = content
        self.seed = seed
        self.ledger = LEDGER if seed == 0 else LEDGER[:-1] + str(seed)
        self.ids = SequentialIds(seed)
        self.clock = ManualClock()
        self.registry = registry()
        self._open(directory, create=True)
        self.config = self.new_stream("system/config")
        self.writer.index_key(self.config.stream_id)
        self.genesis = self.new_stream("conversation")
        self.other = self.new_stream("conversation")
        self.fill()

    def copied(self, directory: Path) -> TamperCase:
        """The same ledger in another directory; this one must be closed."""
        shutil.copytree(self.directory, directory)
        made = copy.copy(self)
        made._open(directory, create=False)
        return made

    def _open(self, directory, *, create):
        self.directory = directory
        self.provider = FileKeyProvider(directory / "kek", SequentialIds(f"kek {self.seed}"))
        self.store = open_sqlite(
            directory, tables=FEATURE.tables, create=create, ledger_id=self.ledger, clock=self.clock
        )
        self.keys = SqliteKeyStore(directory / "keys.db", create=create)
        self.writer = self.keyring()
        self.raw = self._behind("ledger.db")
        self.raw_keys = self._behind("keys.db")

    def close(self):
        self.raw.close()
        self.raw_keys.close()
        self.store.close()
        self.keys.close()

    # ---- making it ----

    def keyring(self):
        ids = SequentialIds(f"{self.ledger} {self.content} {self.directory}")
        return Keyring(self.keys, self.provider, ManualClock(), ids, content=self.content)

    def new_stream(self, kind):
        stream_id = self.ids.new("str")
        key = self.writer.new_stream_key(stream_id).key_id
        genesis = make_genesis(
            ledger=self.ledger,
            tenant="default",
            stream_id=stream_id,
            kind=kind,
            key=key,
            content=self.content,
        )
        self.append(genesis, create=True)
        return genesis

    def append(self, genesis, *drafts, create=False, rows=()):
        material = self.writer.stream_material(genesis)
        events = tuple(prepare(genesis, material, draft, self.registry) for draft in drafts)
        part = StreamAppend(genesis.stream_id, events, create=genesis if create else None)
        outcome = self.store.append([Unit((part,), tuple(rows))]).result()[0]
        self.clock.advance(7)
        return outcome

    def draft(self, event_type="order.noted", data=None, parts=(), **more):
        number = len(parts)
        return Draft(
            event_id=self.ids.new("evt"),
            event_type=event_type,
            occurred_at=time_text(START_MS + number),
            actor=AGENT,
            data=data or {},
            parts=parts,
            **more,
        )

    def fill(self):
        run = self.ids.new("run")
        person = self.writer.subject_key(self.genesis.stream_id, "customer-7")
        index = self.writer.index
        named = self.draft(
            "order.placed",
            {"order": "o-1", "due": time_text(START_MS)},
            (Part({"customer": "Ann"}),),
            run_id=run,
        )
        row = {
            "order_id": "o-1",
            "stream_id": self.genesis.stream_id,
            "state": "paid",
            "name_index": index("order", "Ann"),
            "seq": 3,
        }
        self.append(self.genesis, named, rows=[Put("orders", row)])
        self.append(self.genesis, self.draft(parts=(Part({"text": "said twice, " * 400}),), run_id=run))
        self.append(self.genesis, self.draft("order.paid", {"order": "o-1"}, run_id=run, attempt=1))
        two = (Part({"said": {"$part": 1}}), Part({"name": "Ann"}, person, "personal"))
        self.append(self.genesis, self.draft(parts=two, trace_id="0af7651916cd43dd8448eb211c80319c"))
        for number in range(5, EVENTS + 1):
            self.append(self.genesis, self.draft(parts=(Part({"n": number}),), step_id=self.ids.new("stp")))
        for number in range(3):
            self.append(self.other, self.draft(parts=(Part({"other": number}),)))

    # ---- behind its back ----

    def _behind(self, name):
        connection = sqlite3.connect(self.directory / name, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        return connection

    def without_indexes(self, table):
        """Make a table anew without the constraints that keep doubles out."""
        columns = [row[1] for row in self.raw.execute(f"PRAGMA table_info({table})")]
        self.raw.execute(f"CREATE TABLE loose ({', '.join(columns)})")
        self.raw.execute(f"INSERT INTO loose SELECT * FROM {table}")
        self.raw.execute(f"DROP TABLE {table}")
        self.raw.execute(f"ALTER TABLE loose RENAME TO {table}")

    @contextmanager
    def changed(self, connection, table, column, rowid, value, key="rowid") -> Iterator[None]:
        """One cell changed for the block, and put back."""
        ((before,),) = connection.execute(
            f"SELECT {column} FROM {table} WHERE {key} = ?", (rowid,)
        ).fetchall()
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (value, rowid))
        back = value if column == key else rowid
        try:
            yield
        finally:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (before, back))

    def number(self, genesis=None):
        stream_id = (genesis or self.genesis).stream_id
        return self.raw.execute("SELECT number FROM stream WHERE stream_id = ?", (stream_id,)).fetchone()[0]

    def position(self, sequence, genesis=None):
        found = self.raw.execute(
            "SELECT position FROM event WHERE stream = ? AND seq = ?", (self.number(genesis), sequence)
        )
        return found.fetchone()[0]

    def rehash(self, sequence, header):
        """Put a header in place with a hash that fits it, as somebody who knows the format would."""
        self.raw.execute(
            "UPDATE event SET header = ?, hash = ? WHERE position = ?",
            (header, event_hash(header), self.position(sequence)),
        )

    def forged(self, sequence, *, previous=None, genesis=None):
        """A valid event of this stream that nobody appended, as (columns, records), linked to the event before."""
        genesis = genesis or self.genesis
        made = prepare(
            genesis,
            self.writer.stream_material(genesis),
            self.draft(parts=(Part({"forged": sequence}),)),
            self.registry,
        )
        if previous is None:
            previous = self.raw.execute(
                "SELECT hash FROM event WHERE stream = ? AND seq = ?", (self.number(genesis), sequence - 1)
            ).fetchone()[0]
        header = splice(made, sequence, time_text(self.clock.now_ms()), previous.hex())
        read = read_header(header)
        columns = (
            read.event_id,
            read.event_type,
            read.run_id,
            self.clock.now_ms(),
            header,
            event_hash(header),
        )
        return columns, made.records

    def insert(self, sequence, columns, records=()):
        cursor = self.raw.execute(
            "INSERT INTO event (stream, seq, event_id, event_type, run_id, recorded_at, header, hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (self.number(), sequence, *columns),
        )
        for part, record in enumerate(records):
            self.raw.execute(
                "INSERT INTO event_content VALUES (?, ?)", (cursor.lastrowid * 16 + part, record)
            )

    # ---- looking ----

    def verify(self, **options):
        options.setdefault("registry", self.registry)
        return verify(self.store, options.pop("keyring", self.keyring()), (FEATURE,), **options)

    def found(self, **options):
        """Kinds and sequences, as verify names them."""
        report = self.verify(**options)
        return [(each.kind, each.sequence, each.through or each.sequence) for each in report.findings]
