"""The parts of docs/commands.md that are written from the command tree and the table of exit codes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

EXITS_START = "<!-- The exit codes. Written by `./run docs` from the table in counterfoil.cli.exits. -->"
EXITS_END = "<!-- End of the exit codes. -->"
COMMANDS_START = "<!-- The commands. Written by `./run docs` from the command tree. -->"
COMMANDS_END = "<!-- End of the commands. -->"

SHARED = {"--json", "--no-color", "--ledger", "--tenant"}
"""Options that stand in a section of their own, as nearly every command has them."""


def with_commands(text: str) -> str:
    """The page with its written parts as they should be now."""
    return _between(
        _between(text, EXITS_START, EXITS_END, _exits()), COMMANDS_START, COMMANDS_END, _commands()
    )


def _between(text: str, start: str, end: str, lines: Iterator[str]) -> str:
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"docs/commands.md has lost the lines around a written part:\n{start}\n{end}")
    return "\n".join([before + start, "", *lines, "", end + after])


def _exits() -> Iterator[str]:
    from counterfoil.cli.exits import MEANINGS

    yield "| code | meaning |"
    yield "|---|---|"
    yield from (f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items())


def _commands() -> Iterator[str]:
    from counterfoil.cli.root import root

    first = True
    for path, command in _tree(root):
        if not first:
            yield ""
        first = False
        yield from _command(path, command)


def _tree(
    group: click.Group, path: tuple[str, ...] = ("counterfoil",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _tree(command, (*path, name))


def _command(path: tuple[str, ...], command: click.Command) -> Iterator[str]:
    yield f"{'#' * (len(path) + 1)} {' '.join(path)}"
    yield ""
    usage = command.collect_usage_pieces(click.Context(command))
    yield f"`{' '.join([*path, *usage])}`"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield ""
        yield " ".join(paragraph.split())
    options = [
        option
        for option in command.params
        if isinstance(option, click.Option) and not SHARED & set(option.opts)
    ]
    if options:
        yield ""
        yield from (f"- `{_names(option)}`: {option.help}{_default(option)}" for option in options)


def _names(option: click.Option) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag or option.count:
        return names
    if isinstance(option.type, click.Choice):
        return f"{names} {'|'.join(map(str, option.type.choices))}"
    return f"{names} {option.metavar or 'N'}"


def _default(option: click.Option) -> str:
    return f" Default: {option.default}." if option.show_default and not option.is_flag else ""
