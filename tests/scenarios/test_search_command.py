"""``counterfoil search``: for people and programs, safe with hostile text, and honest about its index."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.command import Shell, refunded

HOSTILE = "kettle \x1b[2J\x1b]0;owned\x07 \u202egnp.exe <script>alert(1)</script> \ud83d"


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path)
    refunded(made)
    refunded(made, "case-9", HOSTILE)
    return made


def test_a_match_is_shown_with_its_place_and_its_maker(shell):
    printed = shell("search", "KETTLE IS", "--conversation", "case-8472")
    assert printed.code == 0
    assert "case-8472 2  admission.accepted  user dk_" in printed.out
    assert "My kettle is broken." in printed.out
    assert "index lag: none" in printed.out


def test_hostile_text_reaches_no_terminal(shell):
    printed = shell("search", "kettle", "--conversation", "case-9")
    assert printed.code == 0
    assert not {"\x1b", "\x07", "\u202e", "\ud83d"} & set(printed.out)
    assert "⟨ESC⟩" in printed.out


def test_programs_are_given_marks_and_lag(shell):
    found = shell("search", "o-1042", "--conversation", "case-8472", "--json").json
    assert found["lag"]["caught_up"]
    assert found["approximate"] == []
    for hit in found["hits"]:
        start, end = hit["marks"][0]
        assert hit["snippet"][start:end] == "O-1042"
    assert {"effect.intended"} <= {hit["event_type"] for hit in found["hits"]}


def test_nothing_found_is_said_and_no_error(shell):
    printed = shell("search", "walrus", "--conversation", "case-8472")
    assert (printed.code, "nothing found" in printed.out) == (0, True)


def test_a_page_names_the_command_for_the_next(shell):
    first = shell("search", "e", "--conversation", "case-8472", "--limit", "1")
    assert "--after" in first.out
    after = first.out.split("--after ")[1].split()[0]
    second = shell("search", "e", "--conversation", "case-8472", "--limit", "1", "--after", after)
    assert second.out.splitlines()[0] != first.out.splitlines()[0]


@pytest.mark.parametrize(
    "words, code",
    [
        (("search",), 64),
        (("search", "x"), 64),
        (("search", "x", "--all", "--conversation", "case-9"), 64),
        (("search", "x", "--all"), 77),
        (("search", "", "--conversation", "case-9"), 65),
        (("search", "(", "--query", "--conversation", "case-9"), 65),
        (("search", "x", "--conversation", "nobody"), 66),
    ],
)
def test_each_refusal_has_its_code(shell, words, code):
    assert shell(*words).code == code


def test_a_damaged_index_stops_no_other_command_and_is_made_again(shell):
    shell("search", "kettle", "--conversation", "case-9")
    (shell.place / "search.db").write_bytes(b"no database" * 1000)
    assert shell("ls").code == 0
    assert shell("verify").code == 0
    assert "search lag" in shell("doctor").out
    broken = shell("search", "kettle", "--conversation", "case-9")
    assert broken.code == 69
    assert "--rebuild" in broken.err
    assert shell("search", "--rebuild").code == 0
    assert "kettle" in shell("search", "kettle", "--conversation", "case-9").out


def test_the_index_can_be_read_by_its_owner_alone(shell):
    shell("search", "kettle", "--conversation", "case-9")
    assert (shell.place / "search.db").stat().st_mode & 0o077 == 0


def test_the_doctor_says_how_far_the_index_is(shell):
    def lag():
        (found,) = [one for one in shell("doctor", "--json").json["findings"] if one["name"] == "search lag"]
        return found

    assert lag()["value"] is None
    shell("search", "kettle", "--conversation", "case-9")
    assert (lag()["value"], lag()["state"]) == (0, "ok")
    shell.clock.advance(5000)
    refunded(shell, "case-10")
    assert lag()["value"] >= 5000
    with closing(sqlite3.connect(shell.place / "search.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert lag()["state"] == "warn"
