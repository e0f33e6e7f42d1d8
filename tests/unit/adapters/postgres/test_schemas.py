"""Schemas: made whole or not at all, refused when newer, unknown or half made; row tables over their versions."""

from __future__ import annotations

import threading

import pytest

from counterfoil.adapters.postgres.heads import CONTENDED_APPENDS
from counterfoil.adapters.postgres.migrate import NAMED
from counterfoil.adapters.postgres.schema import TABLES
from counterfoil.errors import (
    ConfigInvalid,
    KeyStoreMissing,
    LedgerNotFound,
    SchemaTooNew,
    SchemaUnknown,
)
from counterfoil.store.rows import Column, Put, TableSpec
from tests.unit.adapters.postgres.conftest import THING, receipt, refusal, thing

pytestmark = pytest.mark.postgres

WIDER = TableSpec(
    name="thing",
    columns=(*THING.columns, Column("note", required=False), Column("size", "integer")),
    key=THING.key,
    indexes={"by_size": ("size",)},
    version=2,
)


def test_many_who_open_a_new_ledger_at_once_open_the_same_one(ledger):
    found, gate = [], threading.Barrier(6)

    def open_it(number):
        gate.wait(30)
        found.append(ledger.open(ledger_id=f"ldg_{number}").ledger_id)

    threads = [threading.Thread(target=open_it, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 6
    assert len(set(found)) == 1


def test_a_making_that_fails_leaves_nothing(ledger, monkeypatch):
    from counterfoil.adapters.postgres import keystore

    monkeypatch.setattr(keystore, "creation", lambda place: ["SELECT no_such_function()"])
    with pytest.raises(SchemaUnknown):
        ledger.open()
    with pytest.raises(LedgerNotFound):
        ledger.open(create=False)
    monkeypatch.undo()
    assert ledger.open().streams() == []


@pytest.mark.parametrize(
    "sql, kind",
    [
        ("UPDATE {s}.meta SET value = '3' WHERE name = 'schema'", SchemaTooNew),
        ("UPDATE {s}.meta SET value = '1' WHERE name = 'schema'", SchemaUnknown),
        ("UPDATE {s}.meta SET value = 'x' WHERE name = 'schema'", SchemaUnknown),
        ("DELETE FROM {s}.meta WHERE name = 'ledger_id'", SchemaUnknown),
        ("DROP TABLE {s}.checkpoint", SchemaUnknown),
        ("DROP TABLE {s}.meta", SchemaUnknown),
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_a_schema_that_this_build_does_not_know_is_refused_and_left_alone(ledger, stream, sql, kind, create):
    ledger.behind(sql)
    before = ledger.behind("SELECT count(*) FROM pg_class")
    with pytest.raises(kind):
        ledger.open(create=create)
    assert ledger.behind("SELECT count(*) FROM pg_class") == before


def test_a_schema_of_somebody_else_is_left_as_it_is(ledger):
    ledger.behind("CREATE SCHEMA {s}", "CREATE TABLE {s}.customers (name text)")
    with pytest.raises(SchemaUnknown, match="something else"):
        ledger.open()
    assert ledger.behind("SELECT count(*) FROM pg_class WHERE relnamespace = '{s}'::regnamespace") == [(1,)]


def test_whether_a_ledger_is_there_is_looked_up_by_name_in_a_database_of_many_tables(ledger, store):
    names = "{{{}}}".format(",".join(sorted(TABLES)))
    asked = NAMED.replace("%s", "'{s}'", 1).replace("%s", f"'{names.replace('{', '{{').replace('}', '}}')}'")
    plan = "\n".join(line for (line,) in ledger.behind(f"EXPLAIN {asked}"))
    assert "pg_class_relname_nsp_index" in plan
    assert "Seq Scan on pg_class" not in plan
    assert {name for (name,) in ledger.behind(asked)} == set(TABLES)


def test_an_empty_schema_that_was_prepared_is_used(ledger):
    ledger.behind("CREATE SCHEMA {s}", "CREATE SCHEMA {k}")
    assert ledger.open().streams() == []


def test_a_key_store_that_was_taken_away_is_missing_and_not_made_again(ledger, store):
    ledger.behind("DROP SCHEMA {k} CASCADE")
    with pytest.raises(KeyStoreMissing):
        ledger.key_store()
    ledger.open()
    with pytest.raises(KeyStoreMissing):
        ledger.key_store()


@pytest.mark.parametrize(
    "sql, kind",
    [
        ("UPDATE {k}.meta SET value = '2' WHERE name = 'schema'", SchemaTooNew),
        ("DELETE FROM {k}.meta", SchemaUnknown),
        ("DROP TABLE {k}.subject", SchemaUnknown),
    ],
)
def test_a_key_store_that_this_build_does_not_know_is_refused(ledger, store, sql, kind):
    ledger.behind(sql)
    with pytest.raises(kind):
        ledger.key_store()


# ---- row tables ------------------------------------------------------------------------------------------------------


def test_rows_of_an_older_version_are_carried_over_and_told_to_be_stale(ledger, store, stream):
    newer = ledger.open((WIDER,))
    assert newer.stale_tables == {"thing"}
    row = newer.get("thing", ("t1",))
    assert (row["opened"], row["note"], row["size"], row["row_version"]) == (2, None, 0, 1)
    newer.rebuild_rows(None, [])
    assert newer.stale_tables == frozenset()
    assert ledger.open((WIDER,)).stale_tables == frozenset()


def test_an_older_process_reads_newer_rows_and_refuses_to_write(ledger, store, stream):
    ledger.open((WIDER,))
    older = ledger.open()
    assert older.get("thing", ("t1",))["size"] == 0
    refusal(older, stream.unit(stream.event()), SchemaTooNew)
    with pytest.raises(SchemaTooNew):
        older.claim(stream.stream_id, "me", 1, 0)


def test_a_process_whose_tables_are_made_over_while_it_runs_refuses_to_write_from_then_on(
    ledger, store, stream
):
    receipt(store, stream.unit(stream.event(), rows=(thing("before", stream),)))
    ledger.open((WIDER,))
    refusal(store, stream.unit(stream.event(), rows=(thing("after", stream),)), SchemaTooNew)
    refusal(store, stream.unit(stream.event()), SchemaTooNew)
    assert store.get("thing", ("before",))["size"] == 0


def test_so_does_one_that_appends_events_alone(ledger, store, stream):
    receipt(store, stream.unit(stream.event()))
    receipt(store, stream.unit(stream.event()))
    ledger.open((WIDER,))
    refusal(store, stream.unit(stream.event()), SchemaTooNew)
    refusal(store, stream.unit(*stream.events(3)), SchemaTooNew)


def test_a_lone_append_is_one_statement_again_after_another_process_brought_a_table(
    ledger, store, stream, monkeypatch
):
    later = TableSpec("later", (Column("name"), Column("stream_id")), key=("name",))
    ledger.open((THING, later))
    for _ in range(2 + CONTENDED_APPENDS):
        receipt(store, stream.unit(stream.event()))
    monkeypatch.setattr(store._engine, "_transaction", None)
    receipt(store, stream.unit(stream.event()))


def test_a_table_that_was_dropped_is_made_again_and_told_to_be_stale(ledger, store, stream):
    ledger.behind("DROP TABLE {s}.row_thing CASCADE")
    reader = ledger.open(create=False, read_only=True)
    with pytest.raises(SchemaUnknown, match="which is derived") as caught:
        reader.select("thing")
    assert "rebuild" in caught.value.hint
    again = ledger.open()
    assert again.stale_tables == {"thing"}
    again.rebuild_rows(None, [thing("t0", stream)])
    receipt(again, stream.unit(stream.event(), rows=(thing("t1", stream),)))
    assert [row["thing_id"] for row in again.select("thing")] == ["t0", "t1"]
    assert ledger.open().stale_tables == frozenset()


def test_a_process_goes_on_when_another_one_brings_tables_of_its_own(ledger, store, stream):
    later = TableSpec("later", (Column("name"), Column("stream_id")), key=("name",))
    ledger.open((THING, later))
    receipt(store, stream.unit(stream.event(), rows=(thing("after", stream),)))


def test_other_columns_under_the_same_version_are_refused(ledger, store):
    changed = TableSpec("thing", (*THING.columns, Column("more")), key=THING.key, indexes=THING.indexes)
    with pytest.raises(ConfigInvalid, match="other columns"):
        ledger.open((changed,))


def test_a_table_that_appears_in_a_ledger_with_events_is_stale(ledger, store, stream):
    later = TableSpec("later", (Column("name"), Column("stream_id")), key=("name",))
    assert ledger.open((THING, later)).stale_tables == {"later"}


def test_long_names_of_tables_and_indexes_do_not_collide(ledger):
    name = "t" * 55
    spec = TableSpec(
        name,
        (Column("a"), Column("b"), Column("stream_id")),
        key=("a",),
        indexes={"one": ("b",), "two": ("b", "a")},
    )
    store = ledger.open((spec,))
    assert store.select(name, "one") == store.select(name, "two") == []


@pytest.mark.parametrize(
    "spec",
    [
        TableSpec("Thing", (Column("a"),), key=("a",)),
        TableSpec("table", (Column("a"),), key=("a",)),
        TableSpec("thing", (Column("a"), Column("a")), key=("a",)),
        TableSpec("thing", (Column("row_version"),), key=("row_version",)),
        TableSpec("thing", (Column("a"),), key=()),
        TableSpec("thing", (Column("a"),), key=("b",)),
        TableSpec("t" * 60, (Column("a"),), key=("a",)),
    ],
)
def test_a_declaration_that_no_table_can_be_made_from_is_refused(ledger, spec):
    with pytest.raises(ConfigInvalid):
        ledger.open((spec,))


def test_columns_named_by_reserved_words_work(ledger, stream):
    spec = TableSpec(
        "order",
        (Column("select"), Column("user", "integer"), Column("stream_id")),
        key=("select",),
        indexes={"group": ("user",)},
    )
    store = ledger.open((THING, spec))
    receipt(
        store,
        stream.unit(
            stream.event(),
            rows=(thing("a", stream), Put("order", {"select": "x", "user": 1, "stream_id": "s"})),
        ),
    )
    assert store.select("order", "group", (1,))[0]["select"] == "x"
