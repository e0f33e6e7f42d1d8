"""What is opened and what is refused: newer, older, unknown and half-made schemas."""

from __future__ import annotations

import sqlite3

import pytest

from counterfoil.adapters.sqlite.migrate import MIGRATIONS, Migration, ensure_schema
from counterfoil.adapters.sqlite.schema import APPLICATION_ID, SCHEMA, TABLES
from counterfoil.errors import LedgerNotFound, SchemaTooNew, SchemaUnknown
from counterfoil.testing.events import SAMPLE_LEDGER

READING = [False, True]


@pytest.fixture
def made(ledger):
    ledger.open().close()
    return ledger


@pytest.mark.parametrize("read_only", READING)
def test_a_newer_schema_is_refused_with_both_numbers(made, read_only):
    made.behind("UPDATE meta SET value = '3' WHERE name = 'schema'")
    with pytest.raises(SchemaTooNew) as refused:
        made.open(read_only=read_only)
    assert (refused.value.schema, refused.value.known) == (3, SCHEMA)
    assert refused.value.hint


@pytest.mark.parametrize("read_only", READING)
def test_the_older_runtime_store_is_refused_and_left_as_it_is(ledger, read_only):
    ledger.directory.mkdir()
    ledger.behind("CREATE TABLE conversations (id TEXT)", "PRAGMA user_version = 1")
    before = ledger.path.read_bytes()
    with pytest.raises(SchemaUnknown, match="schema 1, the older runtime store"):
        ledger.open(read_only=read_only)
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("read_only", READING)
@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE accounts (id INTEGER)",),
        ("CREATE TABLE meta (key TEXT, worth TEXT)",),
        ("CREATE TABLE meta (name TEXT, value TEXT)", "INSERT INTO meta VALUES ('schema', 'two')"),
        ("CREATE TABLE meta (name TEXT, value TEXT)",),
    ],
)
def test_another_programs_database_is_refused_and_left_as_it_is(ledger, statements, read_only):
    ledger.directory.mkdir()
    ledger.behind(*statements)
    before = ledger.path.read_bytes()
    with pytest.raises(SchemaUnknown, match="is not a ledger"):
        ledger.open(read_only=read_only)
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("read_only", READING)
@pytest.mark.parametrize("table", sorted(set(TABLES) - {"meta"}))
def test_a_half_made_schema_is_refused_naming_what_is_missing(made, table, read_only):
    made.behind("PRAGMA foreign_keys = OFF", f"DROP TABLE {table}")
    with pytest.raises(SchemaUnknown, match="half made") as refused:
        made.open(read_only=read_only)
    assert refused.value.missing == [table]


@pytest.mark.parametrize("create", [False, True])
def test_an_empty_file_becomes_a_ledger_only_when_one_is_to_be_made(ledger, create):
    ledger.directory.mkdir()
    ledger.path.touch()
    if create:
        assert ledger.open().ledger_id == SAMPLE_LEDGER
    else:
        with pytest.raises(LedgerNotFound):
            ledger.open(create=False)


def test_a_ledger_that_does_not_say_which_it_is_is_refused(made):
    made.behind("DELETE FROM meta WHERE name = 'ledger_id'")
    with pytest.raises(SchemaUnknown, match="does not say which ledger"):
        made.open()


def test_the_ledgers_id_is_fixed_when_it_is_made(made):
    assert made.open(ledger_id="ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PZ").ledger_id == SAMPLE_LEDGER


def test_the_files_header_says_what_it_is(made):
    assert made.behind("PRAGMA application_id") == [(APPLICATION_ID,)]


def test_guards_that_somebody_dropped_are_put_back_when_it_is_opened_for_writing(made):
    triggers = "SELECT name, sql FROM sqlite_master WHERE type IN ('trigger', 'index') ORDER BY name"
    before = made.behind(triggers)
    made.unguarded("DROP INDEX run_span_by_run")
    made.open().close()
    assert made.behind(triggers) == before


@pytest.mark.usefixtures("stream")
def test_a_ledger_without_guards_can_be_read(ledger):
    ledger.close()
    ledger.unguarded()
    assert len(ledger.open(read_only=True).feed().events) == 3


def test_a_migration_that_fails_leaves_the_schema_before_it(ledger, monkeypatch):
    ledger.directory.mkdir()
    ledger.behind("CREATE TABLE meta (name TEXT, value TEXT)", "INSERT INTO meta VALUES ('schema', '1')")

    def fail(connection):
        connection.execute("CREATE TABLE half (a)")
        raise ZeroDivisionError

    monkeypatch.setitem(MIGRATIONS, 1, Migration(SCHEMA, "fails", fail))
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    with pytest.raises(ZeroDivisionError):
        ensure_schema(connection, ledger.path, create=False, ledger_id=None)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("meta",)]
    connection.close()


def test_migrations_run_one_after_the_other_up_to_this_builds_schema(ledger, monkeypatch):
    ledger.directory.mkdir()
    ledger.behind(
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT)", "INSERT INTO meta VALUES ('schema', '0')"
    )
    ran = []

    def finish(connection):
        ran.append("one to two")
        for name, statement in TABLES.items():
            if name != "meta":
                connection.execute(statement)

    monkeypatch.setitem(MIGRATIONS, 0, Migration(1, "first", lambda _: ran.append("nought to one")))
    monkeypatch.setitem(MIGRATIONS, 1, Migration(SCHEMA, "second", finish))
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    ensure_schema(connection, ledger.path, create=False, ledger_id=None)
    assert ran == ["nought to one", "one to two"]
    assert connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchall() == [(str(SCHEMA),)]
    connection.close()
