"""Hostile text in names, messages, arguments, results, errors and file names: seen, never obeyed, never repaired."""

from __future__ import annotations

import os
import shlex
from decimal import Decimal
from pathlib import Path

import pytest

from counterfoil.effects.registry import own_tools
from tests.command import Shell, declare_refund, refunded
from tests.unit.importers.transcripts import pi_header, pi_user, write

HOSTILE = "a\x1b]0;owned\x07b\x1b[2J\u202ec\u200bd\x00e\ud99cf\x9bg"
SEEN = "a⟨ESC⟩]0;owned⟨BEL⟩b⟨ESC⟩[2J⟨RLO⟩c⟨ZWSP⟩d⟨NUL⟩e⟨U+D99C⟩f⟨CSI⟩g"

COMMANDS = (
    ("ls",),
    ("ls", "runs"),
    ("ls", "effects"),
    ("show", HOSTILE),
    ("show", HOSTILE, "--full"),
    ("show", HOSTILE, "--events"),
    ("show", HOSTILE, "1"),
    ("tail",),
    ("verify",),
    ("recover",),
)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """One ledger full of hostile text that these tests only look at."""
    shell = Shell(tmp_path_factory.mktemp("hostile"))
    fill(shell)
    return shell


def fill(shell: Shell) -> None:
    with own_tools(), shell.open() as ledger:
        refund = declare_refund()
        try:
            with ledger.run("refund-agent", conversation=HOSTILE, title=HOSTILE, message=HOSTILE) as run:
                run.ask(lambda _: HOSTILE, [{"role": "user", "content": HOSTILE}], name="scripted-1")
                run.step(HOSTILE, lambda value: value, HOSTILE)
                refund(order=HOSTILE, line=1, amount=Decimal("1.00"))
                raise ValueError(HOSTILE)
        except ValueError:
            pass


def check_harmless(text: str) -> None:
    assert not [character for character in text if ord(character) < 0x20 and character != "\n"]
    assert not {"\x7f", "\x9b", "\u202e", "\u200b", "\ud99c"} & set(text)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_prints_what_could_steer_a_terminal(hostile, words):
    done = hostile(*words)
    assert done.code == 0
    check_harmless(done.out + done.err)


def test_hostile_text_is_shown_with_marks_where_it_stands(hostile):
    assert SEEN in hostile("ls", width=200).out
    assert SEEN in hostile("show", HOSTILE, width=200).out


def test_the_exact_text_is_one_command_away(hostile):
    event = hostile("show", HOSTILE, "2", "--json").json
    assert event["content"]["message"] == HOSTILE


@pytest.mark.parametrize("words", COMMANDS[:3] + COMMANDS[5:], ids=" ".join)
def test_json_stays_valid_and_plain(hostile, words):
    done = hostile(*words, "--json")
    assert done.out.isascii()
    assert done.lines or words[0] == "recover"


def test_an_error_marks_what_it_repeats(shell):
    refunded(shell)
    done = shell("show", HOSTILE)
    assert done.code == 66
    check_harmless(done.err)
    told = shell("show", HOSTILE, "--json")
    assert told.out.isascii()


def test_a_file_name_with_a_line_break_and_bytes_that_are_no_text_is_marked(shell, tmp_path):
    name = os.fsdecode(b"evil\n\x1b[31m\xff.jsonl")
    file = write(tmp_path / name, pi_header(), pi_user("hi"))
    done = shell("import", str(file))
    assert done.code == 0
    assert "evil⟨LF⟩⟨ESC⟩[31m⟨U+DCFF⟩.jsonl" in done.out.splitlines()[0]
    check_harmless(done.out)
    missing = shell("import", str(file) + "x")
    assert missing.code == 66
    check_harmless(missing.err)


def test_the_command_for_a_session_of_hostile_name_works_in_a_shell(shell, tmp_path):
    file = write(tmp_path / "s.jsonl", pi_header("evil\x1b[31m; rm -rf"), pi_user("hi"))
    done = shell("import", str(file))
    check_harmless(done.out)
    command = shlex.split(done.out.splitlines()[-1])
    assert shell(*command[1:], ledger=False).code == 0


def test_a_very_long_line_is_bounded_in_a_list_and_whole_in_full(shell):
    refunded(shell, message="x" * 200_000)
    assert len(shell("show", "case-8472").out) < 10_000
    assert shell("show", "case-8472", "--full").out.count("x") > 200_000


@pytest.mark.parametrize("width", [40, 80])
def test_wide_characters_keep_to_the_width(shell, width):
    refunded(shell, message="退款" * 100)
    from counterfoil.cli.render.line import width as cells

    for line in shell("show", "case-8472", width=width).out.splitlines():
        assert cells(line) <= width or "run_" in line or "str_" in line or "┊" in line
