"""``counterfoil verify``: broken first, then what is proven, the unsealed tail, what was not covered; never a bare OK."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.command import Shell, refunded
from tests.unit.cli.invented import words


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    refunded(shell)
    return shell


def behind(shell: Shell, *statements: str) -> None:
    """Change the database behind the store's back."""
    database = sqlite3.connect(shell.place / "ledger.db")
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


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
    "edited": "UPDATE event SET header = CAST(replace(CAST(header AS TEXT), 'refund-agent', 'refund-Agent') AS BLOB)"
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
