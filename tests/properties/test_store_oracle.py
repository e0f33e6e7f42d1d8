"""SQLite against its oracle: the same random calls get the same answers from memory and leave the same ledger."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from counterfoil.adapters.memory import MemoryStore
from counterfoil.adapters.sqlite.open import open_sqlite
from counterfoil.errors import CounterfoilError
from counterfoil.store.rows import Absent, Patch, Put, RecordedAtOf, Remove, RowIs, SequenceOf
from counterfoil.store.unit import ANY, NONE, Checkpoint, Lease, Refusal, Unit, at
from counterfoil.testing import ManualClock, SequentialIds
from counterfoil.testing.contract.case import PARCEL, SAMPLE_TABLES, SHELF
from counterfoil.testing.events import SAMPLE_LEDGER, SampleStream

STEPS = 120
SEEDS = range(12)
STATES = ("packed", "sent", "lost")
COMPARED = (
    "head",
    "lease",
    "token",
    "row",
    "table",
    "key",
    "members",
    "present",
    "missing",
    "stream_id",
    "sequence",
)


class Chance:
    """Draws units and calls, mostly sound ones, from a small world so that they meet each other often."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ids = SequentialIds(seed)
        self.streams = [SampleStream(self.ids, tenant=tenant) for tenant in ("a", "a", "b", "b")]
        self.events = []
        self.units = []
        self.leases = []

    def some(self, share):
        return self.random.random() < share

    def pick(self, *choices):
        return self.random.choice(choices)

    def event(self, stream):
        mine = [event for event in self.events if event.stream_id == stream.stream_id]
        if mine and self.some(0.08):
            return self.random.choice(mine)
        old_id = self.random.choice(mine).event_id if mine and self.some(0.04) else None
        text = self.pick("x", "y" * 3000, "z\x00")
        event = stream.event(
            text, event_id=old_id, event_type=self.pick("sample.a", "sample.b"), run_id=self.run_id()
        )
        self.events.append(event)
        return event

    def run_id(self):
        return self.pick(None, "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR", "run_01J9ZC3Y3V7W2R5T8QK4M6N0PT")

    def part(self, stream, heads):
        head = heads[stream.stream_id]
        events = [self.event(stream) for _ in range(self.pick(0, 1, 1, 1, 2, 3))]
        expected, token = ANY, None
        if self.some(0.3):
            expected = self.pick(NONE, at(0), at(head.sequence if head else 0), at(3))
        if self.some(0.3):
            token = self.pick(0, 1, head.token if head else 0)
        return stream.adding(
            *events, expected=expected, token=token, create=self.some(0.5 if head is None else 0.1)
        )

    def key(self):
        return (self.pick("p1", "p2", "p3", "p4"),)

    def shelf_key(self):
        return (self.pick("east", "west"), self.random.randrange(-2, 3))

    def change(self, event_ids):
        late = self.pick(SequenceOf, RecordedAtOf)(self.random.choice(event_ids)) if event_ids else 5
        stream_id = self.random.choice(self.streams).stream_id
        return self.pick(
            Put(
                PARCEL.name,
                {
                    "parcel_id": self.key()[0],
                    "stream_id": stream_id,
                    "state": self.pick(*STATES),
                    "weight": self.random.randrange(-3, 4),
                    "place": self.pick(None, "", "a", "é", "\U00010000"),
                    "due_ms": self.pick(None, late, 0, -1),
                    "mark": self.pick(None, b"", b"\x00\xff"),
                },
            ),
            Patch(PARCEL.name, self.key(), {"state": self.pick(*STATES), "opened_sequence": late}),
            Patch(PARCEL.name, self.key(), {"weight": 9}, only_in=frozenset({self.pick(*STATES)})),
            Remove(PARCEL.name, self.key()),
            Put(
                SHELF.name,
                dict(zip(("hall", "number"), self.shelf_key(), strict=True)) | {"note": self.pick(None, "n")},
            ),
            Remove(SHELF.name, self.shelf_key()),
            *([Put(PARCEL.name, {"parcel_id": "p1"}), Remove("undeclared", ())] if self.some(0.1) else []),
        )

    def guard(self):
        states = frozenset(self.random.sample(STATES, self.random.randrange(3)))
        return self.pick(
            Absent(PARCEL.name, self.key()),
            Absent(SHELF.name, self.shelf_key()),
            RowIs(PARCEL.name, self.key(), states, self.pick(None, None, 1, 2)),
        )

    def unit(self, heads):
        if self.units and self.some(0.08):
            return self.random.choice(self.units)
        streams = self.random.sample(self.streams, self.pick(1, 1, 1, 2, 3))
        parts = tuple(self.part(stream, heads) for stream in streams)
        event_ids = [event.event_id for part in parts for event in part.events]
        rows = tuple(self.change(event_ids) for _ in range(self.pick(0, 0, 1, 2, 4)))
        guards = tuple(self.guard() for _ in range(self.pick(0, 0, 0, 1, 2)))
        unit = Unit(parts, rows, guards)
        self.units.append(unit)
        return unit

    def lease(self, heads):
        held = [head.lease for head in heads.values() if head is not None and head.lease is not None]
        made_up = Lease(self.random.choice(self.streams).stream_id, self.random.randrange(3), "made up", 0)
        return self.random.choice([*held, *self.leases[-3:], made_up])

    def call(self, heads):
        """One call, as a function of a store."""
        stream = self.random.choice(self.streams)
        kind = self.random.random()
        if kind < 0.6:
            units = [self.unit(heads) for _ in range(self.pick(1, 1, 2, 4))]
            return lambda store: store.append(units).result(60)
        if kind < 0.75:
            unit = self.unit(heads) if self.some(0.6) else None
            head = heads[stream.stream_id]
            token = self.pick(0, head.token if head else 0, head.token if head else 1)
            owner = self.pick("ann", "bob")
            return lambda store: store.claim(stream.stream_id, owner, 1000, token, unit)
        lease = self.lease(heads)
        if kind < 0.82:
            ttl_ms = self.pick(1, 500, 3000)
            return lambda store: store.renew(lease, ttl_ms)
        if kind < 0.88:
            return lambda store: store.release(lease)
        if kind < 0.94:
            checkpoint = Checkpoint(
                stream.stream_id, "totals", 1, self.random.randrange(5), "0" * 64, self.pick(b"1", b"2")
            )
            return lambda store: store.save_checkpoint(checkpoint)
        changes = [self.change([]) for _ in range(3)]
        which = self.pick(None, stream.stream_id)
        return lambda store: store.rebuild_rows(which, changes)


def answer_of(store, call):
    """What a store answers, in a form that two stores can agree on."""
    try:
        answer = call(store)
    except CounterfoilError as error:
        return said(error)
    if isinstance(answer, list):
        return [said(outcome.error) if isinstance(outcome, Refusal) else outcome for outcome in answer]
    return answer


def said(error):
    return type(error).__name__, {name: error.fields[name] for name in COMPARED if name in error.fields}


def state_of(store, streams):
    """Everything a reader can see, but for feed positions, which may have gaps."""
    return {
        "streams": store.streams(),
        "events": [
            [replace(event, position=0) for event in store.read(stream.stream_id, limit=10_000)]
            for stream in streams
        ],
        "filtered": [
            [event.sequence for event in store.read(stream.stream_id, 1, 3, frozenset({"sample.a"}), run_id)]
            for stream in streams
            for run_id in (None, "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR")
        ],
        "feed": [(event.stream_id, event.sequence) for event in store.feed(limit=10_000).events],
        "parcels": [
            store.select(PARCEL.name, index, descending=descending)
            for index in (None, *PARCEL.indexes)
            for descending in (False, True)
        ],
        "shelves": store.select(SHELF.name),
        "checkpoints": [store.checkpoint(stream.stream_id, "totals", 1) for stream in streams],
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_memory_and_sqlite_give_the_same_answers_and_keep_the_same_ledger(seed, tmp_path):
    clock, chance = ManualClock(), Chance(seed)
    memory = MemoryStore(SAMPLE_LEDGER, SAMPLE_TABLES, clock)
    sqlite = open_sqlite(tmp_path, tables=SAMPLE_TABLES, clock=clock, create=True, ledger_id=SAMPLE_LEDGER)
    recorded = 0
    for step in range(STEPS):
        heads = {stream.stream_id: memory.head(stream.stream_id) for stream in chance.streams}
        call = chance.call(heads)
        wanted, found = answer_of(memory, call), answer_of(sqlite, call)
        assert found == wanted, f"seed {seed}, step {step}"
        recorded += "Receipt" in repr(wanted)
        if step % 10 == 0 or step == STEPS - 1:
            assert state_of(sqlite, chance.streams) == state_of(memory, chance.streams), (
                f"seed {seed}, step {step}"
            )
        clock.advance(chance.pick(0, 1, 400))
    sqlite.close()
    assert recorded > STEPS / 10, "too few calls recorded anything for this to mean much"
