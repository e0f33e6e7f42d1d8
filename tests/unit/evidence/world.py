"""A ledger in memory with keys, for tests of verify that look at one sentence at a time."""

from __future__ import annotations

from msgspec.structs import replace

from counterfoil.adapters.memory import MemoryKeyStore, MemoryStore
from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Draft, Part, event_hash, prepare
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import make_genesis
from counterfoil.evidence.verify import verify
from counterfoil.keys.keyring import Keyring
from counterfoil.keys.wrapping import derive, unwrap, wrap
from counterfoil.store.unit import StreamAppend, Unit
from counterfoil.testing.manual import START_MS, ManualClock, SequentialIds

LEDGER = "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG"
ELSEWHERE = "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PH"
AGENT = {"type": "agent", "id": "shop-agent"}
KEK = "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK"


class Provider:
    """A key provider with one key-encryption key; ``held`` False takes it away."""

    def __init__(self):
        self.held = True
        self.where = "not_covered"

    def current(self):
        return KEK

    def wrap(self, kek_id, data_key):
        return wrap(bytes(32), data_key)

    def unwrap(self, kek_id, wrapped):
        from counterfoil.errors import KeyWithheld

        if not self.held:
            raise KeyWithheld(f"{kek_id} is not at hand")
        return unwrap(kek_id, bytes(32), wrapped)

    def derive(self, kek_id, purpose):
        return derive(bytes(32), purpose)

    def arrangement(self):
        return self.where


class World:
    """One ledger: append to it, damage it, verify it."""

    def __init__(self, content="sealed", tables=()):
        self.content = content
        self.ids = SequentialIds()
        self.clock = ManualClock()
        self.registry = Registry()
        self.registry.declare("order.noted", 1, {"line?": "n"})
        self.store = MemoryStore(LEDGER, tables, self.clock)
        self.keys = MemoryKeyStore()
        self.provider = Provider()
        self.writer = self.keyring()
        self.genesis = self.stream()

    def keyring(self):
        return Keyring(self.keys, self.provider, ManualClock(), self.ids, content=self.content)

    def stream(self, kind="conversation", ledger=LEDGER, tenant="default"):
        stream_id = self.ids.new("str")
        key = self.writer.new_stream_key(stream_id).key_id
        genesis = make_genesis(
            ledger=ledger, tenant=tenant, stream_id=stream_id, kind=kind, key=key, content=self.content
        )
        self.store.append([Unit((StreamAppend(stream_id, (), create=genesis),))]).result()
        return genesis

    def draft(self, event_type="order.noted", data=None, parts=(), **more):
        event_id = more.pop("event_id", None) or self.ids.new("evt")
        return Draft(event_id, event_type, time_text(START_MS), AGENT, data or {}, tuple(parts), **more)

    def append(self, *drafts, genesis=None):
        genesis = genesis or self.genesis
        material = self.writer.stream_material(genesis)
        events = tuple(prepare(genesis, material, draft, self.registry) for draft in drafts)
        outcome = self.store.append([Unit((StreamAppend(genesis.stream_id, events),))]).result()[0]
        self.clock.advance(3)
        return outcome.positions[-1]

    def note(self, text="noted", genesis=None, **more):
        return self.append(self.draft(parts=[Part({"text": text})], **more), genesis=genesis)

    def notes(self, count):
        for number in range(count):
            self.note(f"note {number}")

    # ---- damage ----

    def events(self, genesis=None):
        """The stored events of a stream, to be changed in place of the list."""
        return self.store._state.streams[(genesis or self.genesis).stream_id].events

    def change(self, sequence, /, genesis=None, **columns):
        events = self.events(genesis)
        events[sequence - 1] = replace(events[sequence - 1], **columns)

    def change_stream(self, stream=None, /, **columns):
        held = self.store._state.streams[(stream or self.genesis).stream_id]
        held.columns = replace(held.columns, **columns)

    def rewrite(self, sequence, old, new):
        """Change a header and hash it again."""
        header = self.events()[sequence - 1].header.replace(old, new)
        self.change(sequence, header=header, hash=event_hash(header))

    def relink(self, first):
        """Make every hash from ``first`` on again, as a writer that knew no better would have written it."""
        events = self.events()
        for sequence in range(first, len(events) + 1):
            before, event = events[sequence - 2], events[sequence - 1]
            at = event.header.index(b'"previous_event_hash":"') + 23
            header = event.header[:at] + before.hash.hex().encode() + event.header[at + 64 :]
            self.change(sequence, header=header, hash=event_hash(header))
        stream = self.store._state.streams[self.genesis.stream_id]
        stream.head = replace(stream.head, hash=events[-1].hash)

    # ---- looking ----

    def verify(self, features=(), **options):
        options.setdefault("registry", self.registry)
        keyring = options.pop("keyring", self.keyring())
        return verify(self.store, keyring, features, **options)

    def found(self, **options):
        return [
            (each.kind, each.sequence, each.through or each.sequence)
            for each in self.verify(**options).findings
        ]
