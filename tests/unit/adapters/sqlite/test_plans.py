"""The plans of the statements that must stay quick: each goes by an index, none sorts."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from counterfoil.adapters.sqlite.checks import find_recorded
from counterfoil.adapters.sqlite.heads import LOAD
from counterfoil.adapters.sqlite.raw import EVENTS, EVENTS_WITH_RECORDS
from counterfoil.adapters.sqlite.removal import REMOVE_RECORD


@pytest.fixture
def plans(ledger, stream, monkeypatch):
    """Runs a call on a store whose readers note the plan of each statement."""
    store = ledger.open()

    def noted(call):
        found = []

        def explain(sql, params):
            with closing(sqlite3.connect(ledger.path)) as connection:
                rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", params).fetchall()
            found.extend(row[3] for row in rows)
            return []

        monkeypatch.setattr(store, "_query", explain)
        call(store, stream.stream_id)
        return found

    return noted


CALLS = {
    "head": lambda store, stream_id: store.head(stream_id),
    "stream": lambda store, stream_id: store.stream(stream_id),
    "streams": lambda store, _: store.streams(),
    "streams of a tenant": lambda store, _: store.streams("default", after="str_"),
    "read": lambda store, stream_id: store.read(stream_id, after=1),
    "read without content": lambda store, stream_id: store.read(stream_id, content=False),
    "read types": lambda store, stream_id: store.read(stream_id, types=frozenset({"a.b", "c.d"})),
    "read a run": lambda store, stream_id: store.read(stream_id, run_id="run_x"),
    "find": lambda store, stream_id: store.find(stream_id, ["evt_a"]),
    "feed": lambda store, _: store.feed(),
    "get": lambda store, _: store.get("thing", ("t1",)),
    "select by key": lambda store, _: store.select("thing", after=("t1",)),
    "select by index": lambda store, _: store.select("thing", "by_state", ("new",)),
    "select a page by index": lambda store, _: store.select("thing", "by_state", ("new",), ("new", "t1")),
    "select backwards": lambda store, _: store.select(
        "thing", "by_state", ("new",), ("new", "t1"), descending=True
    ),
    "count": lambda store, _: store._query(
        *store._tables.table("thing").pages.count("by_state", ("new",), 10)
    ),
    "checkpoint": lambda store, stream_id: store.checkpoint(stream_id, "p", 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_read_goes_by_an_index_and_does_not_sort(plans, name):
    steps = plans(CALLS[name])
    assert steps
    scans = [step for step in steps if step.startswith("SCAN") and "USING" not in step]
    # The feed, the page by sequence and a count walk a subquery that has its limit inside.
    assert [step for step in scans if not step.startswith(("SCAN e", "SCAN counted", "SCAN (subquery"))] == []
    if name != "find":
        assert [step for step in steps if "TEMP B-TREE" in step] == []


def test_a_run_is_read_by_its_own_index(plans):
    assert any("run_span_by_run" in step for step in plans(CALLS["read a run"]))


def test_rows_are_counted_by_the_index_alone(plans):
    steps = plans(CALLS["count"])
    assert any("USING COVERING INDEX" in step for step in steps)


def test_a_page_of_an_index_begins_at_its_place(plans):
    steps = plans(CALLS["select a page by index"])
    assert any("state=? AND thing_id>?" in step for step in steps)


@pytest.mark.parametrize(
    "sql,params",
    [
        (LOAD, ("s",)),
        (EVENTS, ("s",)),
        (EVENTS_WITH_RECORDS, ("s",)),
        (REMOVE_RECORD, (1, 1, 0)),
    ],
    ids=["head", "events", "events with records", "removal"],
)
@pytest.mark.usefixtures("stream")
def test_other_hot_statements_search(ledger, sql, params):
    steps = [row[3] for row in ledger.behind((f"EXPLAIN QUERY PLAN {sql}", params))]
    assert [step for step in steps if step.startswith("SCAN") and "USING" not in step] == []


def test_the_duplicate_check_goes_by_the_index_of_ids(ledger, store, stream):
    statements = []
    connection = store._engine.open()
    connection.set_trace_callback(statements.append)
    find_recorded(connection, stream.stream_id, ["evt_a", "evt_b"])
    connection.set_trace_callback(None)
    steps = [row[3] for row in ledger.behind(f"EXPLAIN QUERY PLAN {statements[0]}")]
    assert any("stream=? AND event_id=?" in step for step in steps)
