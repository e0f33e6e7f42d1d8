"""``counterfoil import`` and ``init``: totals for programs, words for people, nothing twice, nothing half."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.command import Shell
from tests.unit.cli.invented import words
from tests.unit.importers.transcripts import PI_SESSION, pi_assistant, pi_header, pi_result, pi_user, write

TOTALS = (
    "format records records_added refused not_object unknown_type calls calls_without_result results_without_call"
    " error_results compactions input_tokens output_tokens cost currency conversations"
).split()

SESSION = [
    pi_header(),
    pi_user("hi"),
    pi_assistant("I look.", ("c1", "read"), ("c2", "read")),
    pi_result("c1"),
    b"broken\n",
    b"[1]\n",
    {"type": "compaction", "summary": "so far", "firstKeptEntryIndex": 2},
    pi_user("more"),
]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(write(tmp_path / "session.jsonl", *SESSION))


# ---- import ------------------------------------------------------------------------------------------------------


def test_the_totals_for_programs_have_exactly_these_members(shell, file):
    totals = shell("import", file, "--json").json
    assert list(totals) == TOTALS
    assert (totals["records"], totals["records_added"], totals["refused"], totals["not_object"]) == (
        8,
        8,
        2,
        1,
    )
    assert (totals["calls"], totals["calls_without_result"], totals["compactions"]) == (2, 1, 1)
    assert (totals["cost"], totals["currency"]) == ("0.25", "USD")


def test_importing_again_gives_the_same_totals_and_adds_nothing(shell, file):
    first = shell("import", file, "--json").json
    events = len(shell("show", f"pi:{PI_SESSION}", "--events", "--json").lines)
    assert shell("import", file, "--json").json == first | {"records_added": 0}
    assert len(shell("show", f"pi:{PI_SESSION}", "--events", "--json").lines) == events


def test_the_totals_for_people_name_what_deserves_a_look(shell, file):
    text = words(shell("import", file).out)
    for part in (
        "pi, 8 new records",
        "tool calls 2, 1 with no result recorded",
        "cost 0.25 USD",
        "✗ 2 lines refused, 1 of them no JSON object; kept as found",
        f"counterfoil show pi:{PI_SESSION} --ledger {shell.place}",
    ):
        assert part in text


def test_an_imported_session_is_shown_with_its_call_without_result(shell, file):
    shell("import", file)
    text = words(shell("show", f"pi:{PI_SESSION}").out)
    for part in (
        "▷ user hi",
        "◁ assistant I look.",
        'read path "c1.txt" ✓ ok',
        'read path "c2.txt" no result recorded',
        "✗ line refused line 5",
        "became one summary",
        "⇣ imported pi, 8 records · 2 refused",
    ):
        assert part in text
    assert "◆?" not in text


def test_several_files_are_imported_one_after_the_other(shell, file, tmp_path):
    other = write(
        tmp_path / "other.jsonl", pi_header("3d9f0c52-5a77-4f0e-9a3e-000000000002"), pi_user("hello")
    )
    first, second = shell("import", file, str(other), "--json").lines
    assert (first["records"], second["records"]) == (8, 2)


BAD = {
    "a file that is not there": (["missing.jsonl"], 66, "file_missing"),
    "a file that is no transcript": (["text.txt"], 65, "unknown_transcript"),
    "a directory": (["."], 65, "input"),
    "a format nobody knows": (["text.txt", "--format", "word"], 65, ""),
    "no file": ([], 64, "usage"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_imported_is_refused_with_its_code(shell, tmp_path, monkeypatch, name):
    given, code, word = BAD[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("hello\n")
    done = shell("import", *given)
    assert (done.code, done.out) == (code, "")
    assert word in done.err
    told = shell("import", *given, "--json")
    assert told.err == ""
    assert told.json["error"]["exit_code"] == code
    assert not shell.place.exists()


def test_nothing_is_imported_when_one_of_the_files_is_no_transcript(shell, file, tmp_path):
    (tmp_path / "text.txt").write_text("hello\n")
    assert shell("import", file, str(tmp_path / "text.txt")).code == 65
    assert not shell.place.exists()


def test_a_format_is_checked_before_a_ledger_is_made(shell, file):
    assert shell("import", file, "--format", "word").code == 65
    assert not shell.place.exists()


@pytest.mark.data
def test_a_real_transcript_gives_its_known_totals_and_verifies(shell, transcripts):
    path = str(transcripts / "pi-coding-agent" / "before-compaction.jsonl")
    totals = shell("import", path, "--json").json
    assert (totals["records"], totals["calls"], totals["calls_without_result"]) == (1003, 454, 6)
    assert (totals["error_results"], totals["compactions"]) == (12, 2)
    assert totals["cost"] == "42.595907499999999555"
    assert shell("import", path, "--json").json == totals | {"records_added": 0}
    assert shell("verify").code == 0


# ---- init --------------------------------------------------------------------------------------------------------


def test_a_new_ledger_says_where_its_key_lies_and_what_losing_it_means(shell):
    done = shell("init", str(shell.place))
    assert done.code == 0
    assert str(shell.place / "kek") in done.out
    assert "loses all content for ever" in done.out


def test_a_ledger_that_is_there_stays_as_it_is(shell):
    made = shell("init", "--json").json
    again = shell("init", "--json").json
    assert (made["created"], again["created"]) == (True, False)
    assert made["ledger"] == again["ledger"]


def test_a_clear_ledger_says_that_whoever_reads_the_files_reads_it(shell):
    done = shell("init", "--clear")
    assert "whoever reads the files reads it" in done.out
    assert shell("init", "--clear", "--json").json["content"] == "clear"


def test_the_mode_of_a_ledger_cannot_be_changed(shell):
    shell("init")
    assert shell("init", "--clear").code == 64


def test_a_ledger_whose_key_store_is_gone_is_not_simply_there(shell):
    shell("init")
    (shell.place / "keys.db").unlink()
    done = shell("init")
    assert done.code == 77
    assert "key store" in done.err
    assert "is there already" not in done.out
    assert not (shell.place / "keys.db").exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("more", [(), ("--archive",)], ids=["found out", "said"])
def test_a_pipe_is_refused_unopened_and_no_ledger_is_made(shell, tmp_path, more):
    os.mkfifo(tmp_path / "pipe")
    done = shell("import", str(tmp_path / "pipe"), *more)
    assert (done.code, "not a regular file" in words(done.err)) == (65, True)
