"""A ledger on a server edited behind the store's back, by somebody with every right: verify names sequence and kind."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.evidence.verify import verify
from tests.servers.fixtures import schema_for

pytestmark = pytest.mark.postgres

TRUTH = ("event", "event_content", "stream")

# What is done to the conversation's third event or near it, and the codes of FORMAT 18 that must be among those found.
CASES = {
    "a header": ("UPDATE {s}.event SET header = header || ' ' WHERE {third}", {"edited"}),
    "a hash": (
        "UPDATE {s}.event SET hash = decode(repeat('00', 32), 'hex') WHERE {third}",
        {"column_differs"},
    ),
    "an event type": ("UPDATE {s}.event SET event_type = 'a.b' WHERE {third}", {"column_differs"}),
    "an event id": ("UPDATE {s}.event SET event_id = 'evt_x' WHERE {third}", {"column_differs"}),
    "a run": ("UPDATE {s}.event SET run_id = NULL WHERE {third}", {"column_differs"}),
    "a time": ("UPDATE {s}.event SET recorded_at = recorded_at + 1 WHERE {third}", {"column_differs"}),
    "a record": ("UPDATE {s}.event_content SET record = record || 'x' WHERE {third}", {"content_damaged"}),
    "a record that is gone": ("DELETE FROM {s}.event_content WHERE {third}", {"content_missing"}),
    "an event that is gone": ("DELETE FROM {s}.event WHERE {third}", {"removed"}),
    "a last event that is gone": ("DELETE FROM {s}.event WHERE {last}", {"removed"}),
    "a tenant": ("UPDATE {s}.stream SET tenant = 'other' WHERE stream_id = '{stream}'", {"column_differs"}),
    "a genesis": ("UPDATE {s}.stream SET genesis = genesis || ' ' WHERE stream_id = '{stream}'", {"genesis"}),
    "a head": ("UPDATE {s}.head SET seq = 1 WHERE stream_id = '{stream}'", {"column_differs"}),
    "a key": (
        "UPDATE {k}.data_key SET wrapped = wrapped || 'x' WHERE stream_id = '{stream}'",
        {"key_damaged"},
    ),
}


class Case:
    def __init__(self, cluster, directory):
        self.cluster, self.schema = cluster, schema_for(directory)
        self.place = cluster.url(schema=self.schema, kek=str(directory / "kek"))
        with counterfoil.open(self.place) as ledger:
            with ledger.run("agent", conversation="case", message="please", dedupe="m") as run:
                run.step("look", lambda: {"seen": 1})
                run.finish("done")
            self.stream = ledger.stream_of("case")
            self.last = ledger.store.head(self.stream).sequence

    def behind(self, sql):
        names = {
            "s": self.schema,
            "k": f"{self.schema}_keys",
            "stream": self.stream,
            "third": f"stream_id = '{self.stream}' AND seq = 3",
            "last": f"stream_id = '{self.stream}' AND seq = {self.last}",
        }
        switch = [f"ALTER TABLE {self.schema}.{table} {{}} TRIGGER ALL" for table in TRUTH]
        off = [statement.format("DISABLE") for statement in switch]
        self.cluster.sql(*off, sql.format(**names), *(statement.format("ENABLE") for statement in switch))

    def verify(self):
        with counterfoil.open(self.place, read_only=True, create=False) as ledger:
            return verify(ledger.store, ledger.keyring, FEATURES)


@pytest.fixture
def case(cluster, tmp_path):
    return Case(cluster, tmp_path)


def test_an_untouched_ledger_is_proven(case):
    report = case.verify()
    assert [str(fault) for fault in report.findings] == []


@pytest.mark.parametrize("what", CASES)
def test_what_was_edited_is_named(case, what):
    sql, kinds = CASES[what]
    case.behind(sql)
    found = case.verify().findings
    assert kinds & {fault.kind for fault in found}, [str(fault) for fault in found]


def test_a_derived_row_that_was_edited_is_named_by_its_table(case):
    case.behind("UPDATE {s}.row_runs SET agent = 'another'")
    derived = {table.table: table for table in case.verify().derived}
    assert (derived["runs"].state, derived["runs"].differing) == ("mismatched", 1)
    assert {table.state for name, table in derived.items() if name != "runs"} == {"rebuilt"}
