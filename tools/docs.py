"""Checks the documents against the code, and writes the generated ones.

``python -m tools.docs --check`` prints each finding as ``path:line: what`` and exits 1 when there is one;
``python -m tools.docs --write`` writes the generated pages.

Checked: every relative link and anchor resolves; every command shown in a ``console`` block exists, with the options
it is shown with; every generated page is what the code says now.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from tools import markdown, pages
from tools.tree import ROOT, tracked

VERB = re.compile(r"^  (?P<verb>[a-z-]+)  ", re.MULTILINE)


def check(root: Path = ROOT) -> list[str]:
    """Every finding in the Markdown files of ``root``."""
    found: list[str] = []
    for path in tracked(root):
        if path.suffix == ".md":
            text = path.read_text("utf-8")
            name = path.relative_to(root)
            found += [
                f"{name}:{line}: {what}" for line, what in [*dead_links(path, text), *wrong_commands(text)]
            ]
    for path in stale_pages(root):
        found.append(f"{path.relative_to(root)}:1: is not what the code says now; ./run docs writes it")
    return found


# ---- links -----------------------------------------------------------------------------------------------------------


def dead_links(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """The relative links of one document that lead nowhere. Links with a scheme are not followed."""
    for line, target in markdown.links(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = target.partition("#")
        goal = (path.parent / file).resolve() if file else path
        if not goal.exists():
            yield line, f"the link to {target} leads nowhere"
        elif anchor and goal.suffix == ".md" and anchor not in markdown.anchors(goal.read_text("utf-8")):
            yield line, f"{file or 'this page'} has no heading for #{anchor}"


# ---- commands --------------------------------------------------------------------------------------------------------


def wrong_commands(text: str) -> Iterator[tuple[int, str]]:
    """The commands in ``console`` blocks that do not exist, or not with the options shown."""
    for block in markdown.blocks(text):
        if block.language != "console":
            continue
        for line, command in enumerate(block.text.splitlines(), block.line):
            fault = command_fault(command.removeprefix("$ ")) if command.startswith("$ ") else None
            if fault:
                yield line, fault


def command_fault(command: str) -> str | None:
    """What is wrong with one command line, or None. Other programs than ours are not judged."""
    words = shlex.split(command, comments=True)
    match words:
        case ["./run", *rest]:
            verb = rest[0] if rest else "help"
            return None if verb in verbs() else f"./run has no verb '{verb}'"
        case ["counterfoil" | ".venv/bin/counterfoil", *rest]:
            return cli_fault(cli(), rest)
        case _:
            return None


def verbs() -> set[str]:
    """The verbs that ``./run help`` lists."""
    return {match["verb"] for match in VERB.finditer((ROOT / "run").read_text("utf-8"))}


def cli() -> click.Group:
    """The root of the command tree."""
    faces = vars(importlib.import_module("counterfoil.cli")).values()
    return next(value for value in faces if isinstance(value, click.Group))


def cli_fault(command: click.Command, words: list[str]) -> str | None:
    """Follows the words down the command tree; says which command or option is not there."""
    known = _options(command)
    while words:
        word, *words = words
        if word == "--":
            return None
        if word.startswith("--"):
            name, given, _ = word.partition("=")
            if name not in known:
                return f"'{command.name}' has no option {name}"
            words = words[known[name] - len(given) :]
        elif isinstance(command, click.Group):
            child = command.get_command(click.Context(command), word)
            if child is None:
                return f"'{command.name}' has no command '{word}'"
            command, known = child, known | _options(child)
    return None


def _options(command: click.Command) -> dict[str, int]:
    """The long options of one command, each with the number of words it takes."""
    found = {"--help": 0}
    for option in (parameter for parameter in command.params if isinstance(parameter, click.Option)):
        takes = 0 if option.is_flag or option.count else option.nargs
        found |= dict.fromkeys([*option.opts, *option.secondary_opts], takes)
    return found


# ---- generated pages -------------------------------------------------------------------------------------------------


def stale_pages(root: Path = ROOT) -> dict[Path, str]:
    """The generated pages that do not say what the code says now, each with what it should say."""
    wanted = pages.pages(root)
    return {
        path: text for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text
    }


def write(root: Path = ROOT) -> list[str]:
    """Writes the generated pages that changed and returns a line for each."""
    stale = stale_pages(root)
    for path, text in stale.items():
        path.write_text(text, "utf-8")
    return [f"wrote {path.relative_to(root)}" for path in stale]


def main(arguments: list[str]) -> int:
    """Checks or writes; returns 1 when a check found something."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--check", action="store_true", help="print what is wrong and exit 1 when something is"
    )
    action.add_argument("--write", action="store_true", help="write the generated pages")
    chosen = parser.parse_args(arguments)
    lines = write() if chosen.write else check()
    for line in lines:
        print(line)
    return 1 if lines and chosen.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
