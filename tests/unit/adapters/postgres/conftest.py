"""A small ledger on a server, and a way behind the store's back."""

from __future__ import annotations

import pytest

from counterfoil.store.rows import Column, Put, SequenceOf, TableSpec
from counterfoil.store.unit import Receipt, Refusal
from counterfoil.testing.events import SAMPLE_LEDGER, SampleStream
from counterfoil.testing.manual import ManualClock
from tests.servers.fixtures import schema_for

THING = TableSpec(
    name="thing",
    columns=(
        Column("thing_id"),
        Column("tenant"),
        Column("stream_id"),
        Column("state"),
        Column("opened", "integer", required=False),
    ),
    key=("thing_id",),
    indexes={"by_state": ("state",)},
)


class Ledger:
    """One schema, opened and reopened at will; every handle is closed at the end."""

    def __init__(self, cluster, directory):
        self.cluster = cluster
        self.schema = schema_for(directory)
        self.clock = ManualClock()
        self.handles = []

    def url(self, user="postgres", port=None, **parameters):
        return self.cluster.url(user=user, port=port, schema=self.schema, **parameters)

    def open(self, tables=(THING,), *, user="postgres", port=None, wait_s=30, answer_s=10, **options):
        from counterfoil.adapters.postgres import open_postgres

        options = {"create": True, "ledger_id": SAMPLE_LEDGER, "keys": True, "clock": self.clock} | options
        bounds = {"wait_s": wait_s, "answer_s": answer_s}
        store = open_postgres(self.url(user, port, **bounds), tables=tables, **options)
        self.handles.append(store)
        return store

    def key_store(self, user="postgres"):
        from counterfoil.adapters.postgres import PostgresKeyStore

        store = PostgresKeyStore(self.url(user))
        self.handles.append(store)
        return store

    def behind(self, *statements, user="postgres"):
        """Run SQL with a connection of another program; ``{s}`` is the schema, ``{k}`` the key store's."""
        named = [sql.format(s=self.schema, k=f"{self.schema}_keys") for sql in statements]
        return self.cluster.sql(*named, user=user)

    def close(self):
        for store in self.handles:
            store.close()


@pytest.fixture
def ledger(cluster, tmp_path):
    made = Ledger(cluster, tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(ledger):
    return ledger.open()


@pytest.fixture
def stream(store):
    """A stream with three events and three rows."""
    made = SampleStream()
    events = made.events(3)
    rows = tuple(thing(f"t{n}", made, opened=SequenceOf(event.event_id)) for n, event in enumerate(events))
    receipt(store, made.unit(*events, create=True, rows=rows))
    return made


def thing(thing_id, stream, **values):
    cells = {
        "thing_id": thing_id,
        "tenant": stream.genesis.tenant,
        "stream_id": stream.stream_id,
        "state": "new",
    }
    return Put("thing", cells | values)


def outcome(store, unit):
    return store.append([unit]).result()[0]


def receipt(store, unit):
    told = outcome(store, unit)
    assert isinstance(told, Receipt), told
    return told


def refusal(store, unit, kind):
    told = outcome(store, unit)
    assert isinstance(told, Refusal), told
    assert isinstance(told.error, kind), told.error
    return told.error
