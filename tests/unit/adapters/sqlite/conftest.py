"""A small ledger on disk, and a way behind the store's back."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from counterfoil.adapters.sqlite import DATABASE_NAME, open_sqlite
from counterfoil.store.rows import Column, Put, SequenceOf, TableSpec
from counterfoil.store.unit import Receipt, Refusal
from counterfoil.testing.events import SAMPLE_LEDGER, SampleStream
from counterfoil.testing.manual import ManualClock

THING = TableSpec(
    name="thing",
    columns=(
        Column("thing_id"),
        Column("stream_id"),
        Column("state"),
        Column("opened", "integer", required=False),
    ),
    key=("thing_id",),
    indexes={"by_state": ("state",)},
)


class Ledger:
    """One directory, opened and reopened at will; every handle is closed at the end."""

    def __init__(self, directory):
        self.directory = directory
        self.path = directory / DATABASE_NAME
        self.clock = ManualClock()
        self.handles = []

    def open(self, tables=(THING,), **options):
        options = {"create": True, "ledger_id": SAMPLE_LEDGER, "clock": self.clock, "busy_s": 20.0} | options
        store = open_sqlite(self.directory, tables=tables, **options)
        self.handles.append(store)
        return store

    def close(self):
        for store in self.handles:
            store.close()

    def behind(self, *statements):
        """Run SQL with a connection of another program; what the last statement yields."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            rows = []
            for statement in statements:
                rows = connection.execute(
                    *([statement] if isinstance(statement, str) else statement)
                ).fetchall()
            return rows

    def unguarded(self, *statements):
        """Run SQL with the guards gone."""
        triggers = self.behind("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        return self.behind(*(f"DROP TRIGGER {name}" for (name,) in triggers), *statements)


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "ledger")
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
    return Put("thing", {"thing_id": thing_id, "stream_id": stream.stream_id, "state": "new"} | values)


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
