"""Row tables: declarations that cannot stand, versions that rise, names of any kind."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.errors import ConfigInvalid, SchemaTooNew
from counterfoil.store.rows import Column, Patch, Put, RowIs, TableSpec
from tests.unit.adapters.sqlite.conftest import THING, outcome, receipt, refusal, thing

NEWER = replace(THING, version=2, columns=(*THING.columns, Column("colour", required=False)))


@pytest.mark.parametrize(
    "spec",
    [
        replace(THING, name="Thing"),
        replace(THING, name="a b"),
        replace(THING, name="x; DROP TABLE event"),
        replace(THING, columns=(*THING.columns, Column("row_version", "integer"))),
        replace(THING, columns=(*THING.columns, Column("state"))),
        replace(THING, columns=(*THING.columns, Column("1st"))),
        replace(THING, key=()),
        replace(THING, key=("nowhere",)),
        replace(THING, indexes={"by": ("nowhere",)}),
        replace(THING, indexes={"By State": ("state",)}),
        replace(THING, stream_column="nowhere"),
    ],
)
def test_a_declaration_that_no_table_can_be_made_from_is_refused(ledger, spec):
    with pytest.raises(ConfigInvalid):
        ledger.open(tables=[spec])
    assert not ledger.path.exists()


def test_a_table_declared_twice_is_refused(ledger):
    with pytest.raises(ConfigInvalid, match="twice"):
        ledger.open(tables=[THING, THING])


def test_other_columns_under_the_same_version_are_refused(ledger, store):
    changed = replace(THING, columns=(*THING.columns, Column("colour", required=False)))
    with pytest.raises(ConfigInvalid, match="under version 1"):
        ledger.open(tables=[changed])
    assert store.select("thing") == []


def test_an_older_process_reads_a_newer_table_and_refuses_to_write(ledger, stream):
    ledger.open(tables=[NEWER])
    older = ledger.open(tables=[THING])
    row = older.get("thing", ("t1",))
    assert row is not None
    assert row["colour"] is None
    assert len(older.select("thing", "by_state", ("new",))) == 3
    error = refusal(older, stream.unit(stream.event()), SchemaTooNew)
    assert (error.table, error.version, error.known) == ("thing", 2, 1)
    with pytest.raises(SchemaTooNew):
        older.claim(stream.stream_id, "me", 1000, 0)


def test_a_process_that_is_running_when_a_table_is_made_over_stops_writing(ledger, store, stream):
    receipt(store, stream.unit(stream.event()))
    ledger.open(tables=[NEWER])
    refusal(store, stream.unit(stream.event()), SchemaTooNew)
    assert store.head(stream.stream_id).sequence == 4


@pytest.mark.usefixtures("stream")
def test_a_newer_declaration_keeps_the_rows_it_shares_and_asks_for_a_rebuild(ledger):
    newer = ledger.open(tables=[NEWER])
    assert newer.stale_tables == {"thing"}
    assert [row["thing_id"] for row in newer.select("thing")] == ["t0", "t1", "t2"]
    newer.rebuild_rows(
        None, [Put("thing", {"thing_id": "t9", "stream_id": "s", "state": "x", "colour": "red"})]
    )
    assert newer.stale_tables == frozenset()
    assert ledger.open(tables=[NEWER]).stale_tables == frozenset()
    assert [row["thing_id"] for row in newer.select("thing")] == ["t9"]


@pytest.mark.usefixtures("stream")
def test_a_table_with_another_key_begins_empty_of_what_it_cannot_hold(ledger):
    rekeyed = TableSpec("thing", (Column("state"), Column("thing_id", required=False)), ("state",), version=2)
    newer = ledger.open(tables=[replace(rekeyed, stream_column=None)])
    assert len(newer.select("thing")) == 1
    assert newer.stale_tables == {"thing"}


@pytest.mark.usefixtures("stream")
def test_a_table_that_appears_in_a_ledger_with_events_asks_for_a_rebuild(ledger):
    late = TableSpec("late", (Column("id"), Column("stream_id")), ("id",))
    assert ledger.open(tables=[THING, late]).stale_tables == {"late"}


def test_a_table_in_a_new_ledger_needs_no_rebuild(store):
    assert store.stale_tables == frozenset()


@pytest.mark.usefixtures("stream")
def test_a_process_that_does_not_know_a_table_leaves_it_alone(ledger):
    other = ledger.open(tables=())
    other.rebuild_rows(None, [])
    assert len(ledger.open().select("thing")) == 3


def test_names_that_mean_something_in_sql_are_names(ledger):
    spec = TableSpec(
        "order",
        (Column("index"), Column("group", "integer"), Column("state"), Column("table", required=False)),
        ("index",),
        {"select": ("group", "table")},
        stream_column=None,
    )
    event_table = TableSpec("event", (Column("id"),), ("id",), stream_column=None)
    store = ledger.open(tables=[spec, event_table])
    from counterfoil.testing.events import SampleStream

    stream = SampleStream()
    rows = (
        Put("order", {"index": "a", "group": 1, "state": "new"}),
        Patch("order", ("a",), {"table": "t"}, only_in=frozenset({"new"})),
        Put("event", {"id": "e"}),
    )
    receipt(store, stream.unit(stream.event(), create=True, rows=rows))
    assert store.select("order", "select", (1,), after=(1, None, "a")) == [
        {"index": "a", "group": 1, "state": "new", "table": "t", "row_version": 2}
    ]
    assert store.get("event", ("e",)) == {"id": "e", "row_version": 1}


def test_a_guard_holds_or_not_as_earlier_units_of_the_same_batch_left_the_row(store, stream):
    told = store.append(
        [
            stream.unit(
                stream.event(),
                rows=(thing("t0", stream, state="a"),),
                guards=(RowIs("thing", ("t0",), version=1),),
            ),
            stream.unit(
                stream.event(),
                rows=(thing("t0", stream, state="b"),),
                guards=(RowIs("thing", ("t0",), version=1),),
            ),
        ]
    ).result()
    assert [type(one).__name__ for one in told] == ["Receipt", "Refusal"]
    assert store.get("thing", ("t0",))["state"] == "a"


def test_many_rows_of_one_batch_keep_their_order(store, stream):
    units = [
        stream.unit(stream.event(), rows=(thing(f"n{n % 7}", stream, state=f"s{n}"),)) for n in range(100)
    ]
    store.append(units).result()
    assert [store.get("thing", (f"n{n}",))["state"] for n in range(7)] == [
        "s98", "s99", "s93", "s94", "s95", "s96", "s97"
    ]  # fmt: skip
    assert store.get("thing", ("n0",))["row_version"] == 15


def test_a_unit_with_a_fault_nobody_foresaw_leaves_its_neighbours_standing(store, stream):
    broken = stream.event()
    broken.records = ("text where bytes belong",)
    told = store.append(
        [stream.unit(stream.event()), stream.unit(broken), stream.unit(stream.event())]
    ).result()
    assert [type(one).__name__ for one in told] == ["Receipt", "Refusal", "Receipt"]
    assert told[1].error.code == "internal"
    assert store.head(stream.stream_id).sequence == 5
    assert outcome(store, stream.unit(stream.event())).positions[0].sequence == 6


def test_a_unit_taken_back_leaves_its_stream_where_it_was(store, stream):
    from counterfoil.testing.events import SampleStream

    fresh = SampleStream(stream.ids)
    held, broken, wrong = stream.event(), stream.event(), fresh.event()
    receipt(store, stream.unit(held))
    broken.records = wrong.records = ("text where bytes belong",)
    units = [
        stream.unit(held),  # a duplicate, so the units are taken one at a time
        stream.unit(stream.event()),
        stream.unit(broken),
        fresh.unit(wrong, create=True),
        stream.unit(stream.event()),
        fresh.unit(fresh.event(), create=True),
    ]
    told = [type(one).__name__ for one in store.append(units).result()]
    assert told == ["Receipt", "Receipt", "Refusal", "Refusal", "Receipt", "Receipt"]
    assert [event.sequence for event in store.read(stream.stream_id)] == [1, 2, 3, 4, 5, 6]
    assert [event.sequence for event in store.read(fresh.stream_id)] == [1]
    assert store.strays() == []
    assert receipt(store, stream.unit(stream.event())).positions[0].sequence == 7
