"""What only the journals in a database do: append-only by trigger, lost races, places that are not there."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from counterfoil.errors import FileMissing, SchemaUnknown, StoreBusy, StoreClosed
from counterfoil.journal import check_chain, open_journal
from counterfoil.journal.sqlite import SqliteJournal
from tests.journals import OTHER, TURN, note, whole
from tests.servers.fixtures import schema_for
from tests.unit.journal.test_journals import own_schema

BEHIND = {
    "an update": "UPDATE turn_journal_event SET summary = 'status=ok'",
    "a delete": "DELETE FROM turn_journal_event",
}


@pytest.fixture
def filled(tmp_path):
    with closing(SqliteJournal(tmp_path / "turns.db")) as journal:
        journal.append(whole())
        yield journal


def behind(journal, *statements):
    """Statements by somebody who opened the file."""
    with closing(sqlite3.connect(journal.path)) as db:
        db.execute("PRAGMA recursive_triggers = ON")
        for statement in statements:
            db.execute(statement)
        db.commit()


@pytest.mark.parametrize("name", BEHIND)
def test_sqlite_refuses(name, filled):
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        behind(filled, BEHIND[name])
    assert check_chain(filled.events("default", TURN)).intact


def test_sqlite_refuses_an_insert_that_replaces(filled):
    columns = "tenant, turn_id, agent_id, seq, type, payload_hash, summary, prev_hash, hash, created_at_ms, session_hash"
    with pytest.raises(sqlite3.IntegrityError):
        behind(
            filled,
            f"INSERT OR REPLACE INTO turn_journal_event ({columns}) SELECT tenant, turn_id, agent_id, seq, type, "
            "payload_hash, 'status=ok', prev_hash, hash, created_at_ms, session_hash FROM turn_journal_event",
        )
    assert check_chain(filled.events("default", TURN)).intact


def test_a_removal_leaves_no_permit_behind(filled):
    filled.erase("default", turn_id="trn_01J9ZC3Y3V7W2R5T8QK4M6N0PP")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        behind(filled, BEHIND["a delete"])


def test_an_edit_past_the_triggers_is_named(filled):
    behind(
        filled,
        "DROP TRIGGER turn_journal_no_update",
        "UPDATE turn_journal_event SET summary = 'x' WHERE seq = 1",
    )
    assert check_chain(filled.events("default", TURN)).broken_at_seq == 1


class Stale(SqliteJournal):
    """Takes the head that it saw before somebody else was quicker, as often as ``times`` says."""

    times = 1

    def head(self, run, turn_id):
        found = super().head(run, turn_id)
        if found is not None and self.times:
            self.times -= 1
            return (found[0] - 1, found[1])
        return found


def test_whoever_loses_the_race_for_a_sequence_takes_the_next_one(tmp_path):
    with closing(Stale(tmp_path / "turns.db")) as journal:
        journal.append(whole())
        journal.append([note("GUARD", "guard=late")])
        assert check_chain(journal.events("default", TURN)).intact
        assert [event.seq for event in journal.events("default", TURN)] == [0, 1, 2, 3]


def test_whoever_loses_every_race_is_told(tmp_path):
    with closing(Stale(tmp_path / "turns.db")) as journal:
        journal.append(whole())
        journal.times = 1000
        with pytest.raises(StoreBusy):
            journal.append([note("GUARD", "guard=late")])


def test_a_file_that_is_not_there_is_named_and_not_made_for_reading(tmp_path):
    with pytest.raises(FileMissing):
        open_journal(tmp_path / "none.db", create=False).turns("default")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be looked at" * 30])
def test_a_file_that_is_no_journal_is_named(tmp_path, content):
    path = tmp_path / "other.db"
    path.write_bytes(content)
    with pytest.raises(SchemaUnknown):
        open_journal(path, create=False).turns("default")
    assert path.read_bytes() == content


def test_a_closed_journal_says_so(filled):
    filled.close()
    with pytest.raises(StoreClosed):
        filled.append([note()])


def test_a_child_after_a_fork_opens_its_own_connection(filled, monkeypatch):
    here = filled._opened[1]
    monkeypatch.setattr(os, "getpid", lambda: -1)
    filled.append([note("GUARD", "guard=child")])
    there = filled._opened[1]
    monkeypatch.undo()
    assert len(filled.events("default", TURN)) == 4
    assert there is not here
    here.close()
    there.close()


@pytest.mark.postgres
def test_postgresql_refuses_changes_and_lets_writers_race(cluster, tmp_path):
    import psycopg

    place = own_schema(cluster, schema_for(tmp_path))
    with closing(open_journal(place)) as one, closing(open_journal(place)) as two:
        one.append(whole())
        two.append([note("GUARD", "guard=two")])
        one.append([note("GUARD", "guard=one")])
        assert check_chain(two.events("default", TURN)).intact
        with psycopg.connect(place, autocommit=True) as connection:
            for statement in (*BEHIND.values(), "TRUNCATE turn_journal_event"):
                with pytest.raises(psycopg.errors.RestrictViolation):
                    connection.execute(statement)
        assert len(one.events("default", TURN)) == 5


@pytest.mark.postgres
def test_a_connection_that_broke_is_made_anew(cluster, tmp_path):
    with closing(open_journal(own_schema(cluster, schema_for(tmp_path)))) as journal:
        journal.append(whole())
        journal._opened[1].close()
        assert len(journal.events("default", TURN)) == 3


ODD_CELLS = {
    "a time that is a word": "created_at_ms = 'abc'",
    "a time with half a millisecond": "created_at_ms = created_at_ms + 0.5",
    "a time after all calendars": "created_at_ms = 9000000000000000000",
    "a sequence that is a word": "seq = 'q'",
    "a summary of bytes": "summary = x'ff00'",
    "a summary of bytes that read the same": "summary = cast(summary as blob)",
    "a summary that is no Unicode": "summary = cast(x'eda080' as text)",
    "an agent that is no Unicode": "agent_id = cast(x'ff' as text)",
    "a digest that is a number": "payload_hash = 7",
    "another session": f"session_hash = '{'cd' * 32}'",
    "no session": "session_hash = NULL",
    "a session that is a number": "session_hash = 5",
}
SESSION = "ab" * 32


@pytest.mark.parametrize("where", ["", "WHERE seq = 1"], ids=["of every event", "of the second event"])
@pytest.mark.parametrize("name", ODD_CELLS)
def test_the_first_edited_event_is_named_for(name, where, tmp_path):
    with closing(SqliteJournal(tmp_path / "turns.db")) as journal:
        journal.append([note(summary=f"session={SESSION}"), note("GUARD", "guard=g")])
        if name.startswith("a sequence") and not where:
            where = "WHERE seq = 0"
        behind(
            journal,
            "DROP TRIGGER turn_journal_no_update",
            f"UPDATE turn_journal_event SET {ODD_CELLS[name]} {where}",
        )
        events, chain = journal.checked("default", TURN)
        assert chain.broken_at_seq == (1 if "1" in where else 0)
        assert len(events) == 2
        assert check_chain(events).broken_at_seq is not None or "read the same" in name
        assert len(journal.turns("default")) == 1
        journal.open_turns(10**18)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_goes_away_under_an_open_journal_is_noticed_and_made_anew(how, filled, caplog):
    gone = filled.path.rename(filled.path.with_name("gone.db"))
    if how == "replaced":
        with closing(SqliteJournal(filled.path)) as other:
            other.turns("default")
    filled.append(whole(OTHER))
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "removed or replaced" in caplog.text
    with closing(SqliteJournal(filled.path, create=False)) as found:
        assert [info.turn_id for info in found.turns("default")] == [OTHER]
    assert gone.is_file()


def test_another_working_directory_is_not_another_file(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    with closing(SqliteJournal("turns.db")) as journal:
        journal.append(whole())
        monkeypatch.chdir("/")
        journal.append([note("GUARD", "guard=g")])
        assert len(journal.events("default", TURN)) == 4
    assert caplog.records == []
