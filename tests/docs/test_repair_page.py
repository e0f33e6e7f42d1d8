"""The guide to repairs: its program runs, and its picture is what the command prints of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.test_examples import masked, program
from tools import markdown
from tools.tree import ROOT

PAGE = "docs/repair.md"
MASKS = {
    # Ids and keys are broken where the half of a pair ends.
    r"rep_[0-9A-Z]{20,26}": "REP",
    r"\b[0-9A-Z]{1,6}/[0-9a-f]{10,32}": "KEY",
    r"│ [0-9a-f]{1,32} ┊": "│ ┊",
    r"┊ +│": "┊ │",
    r" +": " ",
}
"""What differs each time beside what differs in every picture."""


def told(text: str) -> str:
    """The picture without what differs each time."""
    text = masked(text)
    for pattern, word in MASKS.items():
        text = re.sub(pattern, word, text)
    return text.strip()


def first_part(text: str) -> str:
    """The program up to its first repair, whose picture is drawn."""
    return text[: text.index("def unreachable")]


def printed(directory: Path) -> str:
    """What ``counterfoil show`` prints of the effect, as wide as a page."""
    (directory / "app.py").write_text(first_part(program(PAGE)) + "print(effect_id)\n", "utf-8")
    run = {"cwd": directory, "capture_output": True, "text": True, "check": True}
    effect_id = subprocess.run([sys.executable, "-W", "error", "app.py"], **run).stdout.strip()
    main = "from counterfoil.cli import main; main()"
    command = [sys.executable, "-c", main, "show", effect_id]
    return subprocess.run(command, env={**os.environ, "COLUMNS": "98"}, **run).stdout


def test_the_program_runs_as_it_stands(tmp_path: Path):
    (tmp_path / "app.py").write_text(program(PAGE), "utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "error", "app.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_picture_is_what_the_command_prints(tmp_path: Path):
    blocks = markdown.blocks((ROOT / PAGE).read_text("utf-8"))
    (picture,) = [block.text for block in blocks if block.language == "text"]
    assert told(picture) == told(printed(tmp_path))
