"""``counterfoil ls``: what needs a person first, pages that go on, empty lists that say what would be there."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import click
import pytest

from counterfoil.cli.root import root
from tests.command import Shell, in_review, refunded


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize("what", ["conversations", "runs", "effects", "reviews"])
def test_an_empty_list_says_what_would_appear_and_the_command_that_makes_it(shell, what):
    shell("init")
    done = shell("ls", what)
    assert done.code == 0
    assert done.out.startswith("· no ")
    assert "counterfoil " in done.out


@pytest.mark.parametrize("what", ["conversations", "runs", "effects", "reviews"])
def test_an_empty_list_for_programs_is_no_line(shell, what):
    shell("init")
    done = shell("ls", what, "--json")
    assert (done.code, done.out, done.err) == (0, "", "")


def commands_with(option, command, words=()):
    """Every command that takes this option, as its words, with how many arguments it needs."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from commands_with(
                option, command.get_command(click.Context(command), name), (*words, name)
            )
    elif any(option in param.opts for param in command.params):
        needed = sum(isinstance(param, click.Argument) and param.required for param in command.params)
        yield *words, *["case-8472"] * needed


LISTS = sorted(commands_with("--limit", root))


def test_every_command_with_a_limit_is_found():
    assert {("ls",), ("review", "ls"), ("show",), ("turns",)} <= set(LISTS)


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_limit_of_nothing_is_nothing_as_it_is_in_python(shell, words):
    refunded(shell)
    for form in ((), ("--json",)):
        done = shell(*words, "--limit", "0", *form)
        assert (done.code, done.out, done.err) == (0, "", "")
    assert shell(*words, "--limit", "-1").code == 64


def test_a_limit_of_nothing_hides_no_ledger_that_is_not_there(shell):
    assert shell("ls", "--limit", "0").code == 66


def test_a_conversation_is_listed_with_agent_last_run_and_counts(shell):
    refunded(shell)
    row = shell("ls").out.splitlines()[1]
    for part in ("case-8472", "refund-agent", "✓ success", "2026-09-01 14:31:08"):
        assert part in row


def test_what_needs_a_person_stands_above_the_list_with_the_command(shell):
    in_review(shell)
    shell.clock.advance(8_040_000)
    first, *_, row = shell("ls").out.splitlines()
    assert "◆? 1 effect in review, oldest 2 h 14 min" in first
    assert f"counterfoil review ls --ledger {shell.place}" in first
    assert "◆? 1 in review" in row


def test_conversations_for_programs_are_one_object_a_line(shell):
    refunded(shell)
    in_review(shell)
    first, second = shell("ls", "--json").lines
    assert (first["name"], first["state"], first["in_review"]) == ("case-8472", "open", 0)
    assert first["last_run"]["terminal"] == "success"
    assert first["last_event_at"] == "2026-09-01T14:31:08.412Z"
    assert (second["name"], second["state"], second["in_review"]) == ("case-8473", "waiting", 1)


def test_pages_of_conversations_go_on_where_the_last_one_ended(shell):
    for number in range(5):
        refunded(shell, f"case-{number}")
    seen, after = [], []
    while True:
        page = shell("ls", "--json", "--limit", "2", *after).lines
        seen += [entry["name"] for entry in page]
        if len(page) < 2:
            break
        after = ["--after", page[-1]["stream_id"]]
    assert seen == [f"case-{number}" for number in range(5)]


def test_the_foot_of_a_page_is_the_command_for_the_next(shell):
    for number in range(3):
        refunded(shell, f"case-{number}")
    foot = shell("ls", "--limit", "2").out.splitlines()[-1]
    words = foot.partition("counterfoil ")[2].split()
    done = shell(*words, ledger=False)
    assert "case-2" in done.out
    assert "more:" not in done.out


@pytest.mark.parametrize("what, id_of", [("runs", "run_id"), ("effects", "effect_id")])
def test_runs_and_effects_come_newest_first_and_page_by_page(shell, what, id_of):
    for number in range(3):
        refunded(shell, f"case-{number}")
    whole = [row[id_of] for row in shell("ls", what, "--json").lines]
    assert whole == sorted(whole, reverse=True)
    first = [row[id_of] for row in shell("ls", what, "--json", "--limit", "2").lines]
    rest = [row[id_of] for row in shell("ls", what, "--json", "--after", first[-1]).lines]
    assert first + rest == whole


@pytest.mark.parametrize(
    "what, state, found", [("runs", "suspended", 1), ("runs", "running", 0), ("effects", "in_review", 1)]
)
def test_a_state_narrows_a_list(shell, what, state, found):
    refunded(shell)
    in_review(shell)
    assert len(shell("ls", what, "--state", state, "--json").lines) == found


def test_a_state_that_does_not_exist_is_refused_with_those_that_do(shell):
    shell("init")
    done = shell("ls", "runs", "--state", "lost")
    assert done.code == 64
    assert "running, suspended, finished" in done.err


def test_effects_in_doubt_say_for_how_long(shell):
    in_review(shell)
    shell.clock.advance(8_040_000)
    (row,) = [line for line in shell("ls", "effects").out.splitlines() if "pickup" in line]
    assert "◆? in review" in row
    assert "2 h 14 min" in row


def test_rows_for_programs_hold_no_index_value(shell):
    refunded(shell)
    (row,) = shell("ls", "effects", "--json").lines
    assert row["tool"] == "payment.refund"
    assert row["intended_at"] == "2026-09-01T14:31:08.412Z"
    assert not {"key_index", "arguments_index", "tenant"} & row.keys()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_of_a_list_is_wider_than_the_terminal_beyond_what_must_not_be_cut(shell, width):
    refunded(shell)
    in_review(shell)
    for line in shell("ls", width=width).out.splitlines():
        assert len(line) <= max(width, 60) or "counterfoil" in line


def test_a_key_store_that_is_gone_is_said_and_conversations_are_listed_all_the_same(shell):
    refunded(shell)
    (shell.place / "keys.db").unlink()
    done = shell("ls")
    assert done.code == 0
    assert "the key store is not found" in done.out
    assert "▒ withheld" in done.out
    assert shell("ls", "--json").lines[0]["name_state"] == "withheld"


def test_key_encryption_keys_that_are_gone_are_said_too(shell):
    refunded(shell)
    (shell.place / "kek").rename(shell.place / "elsewhere")
    done = shell("ls")
    assert done.code == 0
    assert "is not at hand: No such file or directory: content is withheld" in " ".join(done.out.split())
    assert "▒ withheld" in done.out


# ---- damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["DELETE FROM head", "UPDATE head SET seq = -5"])
def test_a_conversation_without_its_head_row_is_called_damaged_and_has_no_count(shell, change):
    refunded(shell)
    raw = sqlite3.connect(shell.place / "ledger.db")
    raw.execute(change)
    raw.commit()
    raw.close()
    done = shell("ls", width=170)
    assert "✗ damaged" in done.out.splitlines()[1]
    assert "-1" not in done.out.splitlines()[1]
    assert shell("ls", "--json").json["events"] is None
    shown = shell("show", "case-8472")
    assert shown.code == 0
    assert "counterfoil verify" in shown.out
    assert "payment.refund" in shown.out
    assert shell("show", "case-8472", "99").code == 66


@pytest.mark.parametrize(
    "words",
    ["ls", "ls runs", "ls effects", "ls effects --state succeeded", "ls reviews", "review ls", "approve ls"],
)
@pytest.mark.parametrize("after", ["garbage", "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS", "0"])
def test_a_place_to_go_on_from_that_names_nothing_is_refused(shell, words, after):
    refunded(shell)
    done = shell(*words.split(), "--after", after)
    assert done.code in {65, 66}
    assert done.out == ""
