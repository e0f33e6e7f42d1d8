"""The command tree: help without loading, options before or after the verb, which ledger is meant."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from counterfoil import __version__
from counterfoil.cli.root import COMMANDS, root
from tests.command import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def tree(
    command: click.Command = root, path: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += tree(child, (*path, name))
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_on_the_help_page_exists_under_its_name(name):
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert command.name == name


@pytest.mark.parametrize(
    "path, command", tree(), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_every_command_says_what_it_does_and_every_option_what_it_means(path, command):
    assert command.help
    for option in (given for given in command.params if isinstance(given, click.Option)):
        assert option.help, f"{path} {option.opts}"


@pytest.mark.parametrize(
    "path, command", tree(), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_json_is_everywhere(path, command):
    if path != ("help",):
        assert "--json" in {name for option in command.params for name in option.opts}


def test_the_version_is_the_packages(shell):
    assert shell("--version", ledger=False).out == f"counterfoil {__version__}\n"


def test_help_is_a_command_too(shell):
    assert shell("help", "review", "settle").out == shell("review", "settle", "--help").out
    assert shell("help").out == shell("--help").out
    assert shell("help", "nothing").code == 64


def test_a_mistyped_command_is_wrong_usage_with_a_way_out(shell):
    done = shell("shwo")
    assert done.code == 64
    assert "counterfoil --help" in done.err


def test_options_stand_before_the_verb_or_after_it(shell):
    shell("init")
    before = shell("--json", "--ledger", str(shell.place), "ls", "runs", ledger=False)
    after = shell("ls", "runs", "--ledger", str(shell.place), "--json", ledger=False)
    assert before == after


# ---- which ledger ------------------------------------------------------------------------------------------------


def made(shell: Shell, name: str) -> str:
    return shell("init", str(shell.directory / name), "--json", ledger=False).json["ledger"]


def meant(shell: Shell, *words: str) -> str:
    return shell(*words, "verify", "--json", ledger=False).json["ledger"]


def test_a_ledger_is_named_by_option_environment_file_or_lies_here(shell, monkeypatch):
    monkeypatch.chdir(shell.directory)
    ids = {name: made(shell, name) for name in ("ledger", "filed", "environment", "given")}
    assert meant(shell) == ids["ledger"]
    (shell.directory / "counterfoil.toml").write_text('ledger = "filed"\n')
    assert meant(shell) == ids["filed"]
    shell.environment["COUNTERFOIL_LEDGER"] = str(shell.directory / "environment")
    assert meant(shell) == ids["environment"]
    assert meant(shell, "--ledger", str(shell.directory / "given")) == ids["given"]


def test_a_configuration_that_is_wrong_is_wrong_usage(shell):
    (shell.directory / "counterfoil.toml").write_text("ledgre = 1\n")
    done = shell("ls", ledger=False)
    assert done.code == 64
    assert "ledgre" in done.err


@pytest.mark.parametrize(
    "words", [("review", "settle", "rev_x"), ("verify", "--level", "deep"), ("approve", "grant", "apr_x")]
)
def test_what_the_library_says_of_a_wrong_call_has_no_tabs_or_marks_of_them(shell, words):
    done = shell(*words)
    assert done.code == 64
    assert "TAB" not in done.err
    assert "\t" not in done.err
    assert "\\t" not in shell(*words, "--json").out
