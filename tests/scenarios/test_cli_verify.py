"""``counterfoil verify``: broken first, then what is proven, the unsealed tail, what was not covered; never a bare OK."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from counterfoil.adapters.sqlite.packing import plain_header
from tests.command import Shell, refunded
from tests.unit.cli.invented import words


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    refunded(shell)
    return shell


def behind(shell: Shell, *statements: str, database: str = "ledger.db") -> None:
    """Change the database behind the store's back."""
    raw = sqlite3.connect(shell.place / database)
    raw.create_function("plain", 1, plain_header)
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        raw.execute(statement)
    raw.commit()
    raw.close()


def conversation(shell: Shell) -> str:
    (info,) = shell("ls", "--json").lines
    return str(info["stream_id"])


IN_CONVERSATION = "(SELECT number FROM stream WHERE kind = 'conversation')"


# ---- intact ------------------------------------------------------------------------------------------------------


def test_an_intact_ledger_says_its_grade_the_unsealed_tail_and_what_was_not_covered(shell):
    done = shell("verify")
    assert done.code == 0
    order = [
        "proven to grade A0 (chain)",
        "unsealed",
        "covered",
        "not covered",
        "unseen at A0",
        "exit code 0",
    ]
    places = [done.out.index(part) for part in order]
    assert places == sorted(places)


def test_a_grade_that_is_not_reached_is_told_first_and_exits_2(shell):
    done = shell("verify", "--require", "A1")
    assert done.code == 2
    assert done.out.startswith("✗ BELOW THE REQUIRED GRADE A1")
    assert shell("verify", "--require", "A1", "--json").json["exit_code"] == 2


def test_the_report_for_programs_begins_with_the_verdict(shell):
    report = shell("verify", "--json").json
    assert list(report)[:2] == ["broken", "exit_code"]
    assert (report["grade"], report["counts"]["streams"]) == ("A0", 3)


@pytest.mark.parametrize(
    "level, said",
    [
        ("chain", "hashes, shape and columns"),
        ("digests", "digest of every stored record"),
        ("content", "every record opened"),
    ],
)
def test_the_depth_of_the_look_is_told(shell, level, said):
    assert said in words(shell("verify", "--level", level).out)


def test_one_conversation_can_be_verified_by_its_name(shell):
    report = shell("verify", "case-8472", "--json").json
    assert report["counts"]["streams"] == 1
    assert shell("verify", "nobody").code == 66


def test_a_ledger_that_is_not_there_is_not_found(tmp_path):
    assert Shell(tmp_path)("verify").code == 66


# ---- broken ------------------------------------------------------------------------------------------------------

EDITS = {
    "edited": "UPDATE event SET header = CAST(replace(CAST(plain(header) AS TEXT), 'refund-agent', 'refund-Agent') AS BLOB)"
    f" WHERE seq = 3 AND stream = {IN_CONVERSATION}",
    "column_differs": f"UPDATE event SET hash = zeroblob(32) WHERE seq = 3 AND stream = {IN_CONVERSATION}",
    "removed": f"DELETE FROM event WHERE seq = 3 AND stream = {IN_CONVERSATION}",
    "content_damaged": "UPDATE event_content SET record = zeroblob(80) WHERE slot = (SELECT min(slot) FROM event_content)",
}


@pytest.mark.parametrize("kind", EDITS)
def test_a_broken_ledger_names_kind_and_place_first_and_exits_1(shell, kind):
    behind(shell, EDITS[kind])
    done = shell("verify")
    assert done.code == 1
    assert done.out.startswith("✗ BROKEN")
    assert kind in done.out.partition("covered")[0]
    report = shell("verify", "--json").json
    assert report["broken"]
    assert kind in report["kinds"]


def test_a_broken_conversation_is_named_with_its_sequence(shell):
    behind(shell, EDITS["edited"])
    head = shell("verify").out.partition("covered")[0]
    assert f"{conversation(shell)} event 3 (case-8472)" in words(head)


def test_the_other_streams_are_proven_all_the_same(shell):
    behind(shell, EDITS["edited"])
    assert "the other 2 streams proven to grade A0" in words(shell("verify").out)


def test_a_ledger_whose_own_settings_were_changed_is_still_verified(shell):
    behind(shell, "UPDATE stream SET genesis = CAST(genesis || ' ' AS BLOB) WHERE kind = 'system/config'")
    done = shell("verify")
    assert done.code == 1
    assert "genesis" in done.out


def test_a_derived_row_that_was_changed_is_told_and_breaks_nothing_that_is_true(shell):
    (table,) = [name for name in tables(shell) if name.endswith("runs")]
    behind(shell, f"UPDATE {table} SET terminal = 'timeout'")
    done = shell("verify")
    assert "derived, and not what the events say" in words(done.out)


def tables(shell: Shell) -> list[str]:
    database = sqlite3.connect(shell.place / "ledger.db")
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    database.close()
    return names


FIRST_GENESIS = "UPDATE stream SET genesis = {} WHERE number = (SELECT min(number) FROM stream)"

SURVIVED = {
    "another ledger's id": (
        "ledger.db",
        "UPDATE meta SET value = 'zz' WHERE name = 'ledger_id'",
        "transplanted",
    ),
    "no ledger's id": ("ledger.db", "DELETE FROM meta WHERE name = 'ledger_id'", "schema_unknown"),
    "a schema that is no number": ("ledger.db", "UPDATE meta SET value = 'x'", "schema_unknown"),
    "no schema": ("ledger.db", "DELETE FROM meta", "schema_unknown"),
    "no table of settings": ("ledger.db", "DROP TABLE meta", "schema_unknown"),
    "an empty genesis": ("ledger.db", FIRST_GENESIS.format("x''"), "genesis"),
    "a genesis of another form": ("ledger.db", FIRST_GENESIS.format("CAST('{}' AS BLOB)"), "genesis"),
    "another suite": (
        "ledger.db",
        FIRST_GENESIS.format("CAST(replace(genesis, 'CF1', 'CF9') AS BLOB)"),
        "genesis",
    ),
    "clear in place of sealed": (
        "ledger.db",
        FIRST_GENESIS.format("CAST(replace(genesis, '\"sealed\"', '\"clear\"') AS BLOB)"),
        "genesis",
    ),
    "no first stream": ("ledger.db", "DELETE FROM stream WHERE number = 1", "removed"),
    "no stream at all": ("ledger.db", "DELETE FROM stream", "removed"),
    "a key of another id": ("keys.db", "UPDATE data_key SET key_id = key_id || 'x'", "content_missing"),
    "a key of another stream": ("keys.db", "UPDATE data_key SET stream_id = 'zz'", "key_damaged"),
    "a key under another key": ("keys.db", "UPDATE data_key SET kek_id = 'x'", "key_damaged"),
    "a key wrapped otherwise": ("keys.db", "UPDATE data_key SET wrapped = x''", "key_damaged"),
    "a key's check": ("keys.db", 'UPDATE data_key SET "check" = zeroblob(16)', "key_damaged"),
    "no key": ("keys.db", "DELETE FROM data_key", "content_missing"),
    "no table of keys": ("keys.db", "DROP TABLE data_key", "key_damaged"),
    "no table of epochs": ("keys.db", "DROP TABLE epoch", "key_damaged"),
    "no table of subjects": ("keys.db", "DROP TABLE subject", "key_damaged"),
    "a key store without its id": ("keys.db", "DELETE FROM meta", "key_damaged"),
    "a key store of another program": ("keys.db", "PRAGMA application_id = 7", "key_damaged"),
}


@pytest.mark.parametrize("name", SURVIVED)
def test_whatever_was_done_to_settings_genesis_and_keys_verify_exits_1_and_names_a_kind(shell, name):
    database, statement, kind = SURVIVED[name]
    behind(shell, statement, database=database)
    done = shell("verify")
    assert done.code == 1
    assert kind in done.out + done.err
    told = shell("verify", "--json")
    assert told.code == 1
    assert told.err == ""
    error = told.json.get("error")
    assert kind == error["code"] if error else kind in told.json["kinds"]


def test_a_chain_is_proven_beside_a_key_store_that_cannot_be_opened(shell):
    (shell.place / "keys.db").write_bytes(b"no database at all" * 100)
    done = shell("verify")
    assert done.code == 1
    assert "the other 3 streams proven to grade A0" in words(done.out)


@pytest.mark.parametrize(
    "database, statement",
    [
        ("ledger.db", "UPDATE meta SET value = '99' WHERE name = 'schema'"),
        ("keys.db", "PRAGMA user_version = 99"),
    ],
)
def test_what_a_newer_version_wrote_is_not_called_broken_and_not_proven(shell, database, statement):
    behind(shell, statement, database=database)
    done = shell("verify")
    assert (done.code, "schema_too_new" in done.err) == (2, True)


def test_a_database_that_is_no_ledger_is_not_called_broken(tmp_path):
    shell = Shell(tmp_path)
    shell.place.mkdir()
    database = sqlite3.connect(shell.place / "ledger.db")
    database.execute("CREATE TABLE meta (of_another_program)")
    database.close()
    assert shell("verify").code == 69


def test_a_ledger_whose_database_was_taken_away_is_broken_and_not_merely_absent(shell):
    for path in shell.place.glob("ledger.db*"):
        path.unlink()
    done = shell("verify")
    assert (done.code, "ledger_lost" in done.err) == (1, True)


def test_a_file_that_is_no_database_any_more_is_broken(shell):
    database = shell.place / "ledger.db"
    database.write_bytes(b"\0" * database.stat().st_size)
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (shell.place / name).unlink(missing_ok=True)
    done = shell("verify")
    assert done.code == 1
    assert "store_corrupt" in done.err


def test_without_keys_the_chain_is_proven_and_content_is_not_covered(shell):
    (shell.place / "keys.db").unlink()
    done = shell("verify")
    assert done.code == 0
    assert "records opened 0" in words(done.out)
    assert "the key store is not found, so content is withheld" in words(done.out)
