"""Every Python block of the README and the guides runs as it stands, from top to bottom, in an empty directory."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tools import markdown
from tools.tree import ROOT

PAGES = [
    "README.md",
    "docs/artifacts.md",
    "docs/budgets.md",
    "docs/children.md",
    "docs/effects.md",
    "docs/journal.md",
    "docs/reconcile.md",
    "docs/requests.md",
    "docs/running.md",
    "docs/stopping.md",
    "docs/testing.md",
    "docs/verify.md",
]


def program(page: str) -> str:
    """The page's Python blocks as one program whose line numbers are those of the page."""
    lines: list[str] = []
    for block in markdown.blocks((ROOT / page).read_text("utf-8")):
        if block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", PAGES)
def test_the_python_blocks_of(page: str, tmp_path: Path):
    source = tmp_path / Path(page).name
    source.write_text(program(page), "utf-8")
    command = [sys.executable, "-W", "error", str(source)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_program_of_the_readme_resumes_when_it_is_run_again(tmp_path: Path):
    source = tmp_path / "again.py"
    # The second process has a bank of its own: the receipt can only come from the ledger.
    source.write_text(program("README.md") + "print(len(bank), receipt['id'], reply is not None)\n", "utf-8")
    command = [sys.executable, "-W", "error", str(source)]
    said = [subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout for _ in range(2)]
    assert said == ["1 rf_1 True\n", "0 rf_1 True\n"]


MASKS = {
    r"\d\d:\d\d:\d\d(\.\d)?Z?": "TIME",
    r"\d{4}-\d\d-\d\d (UTC|TIME)": "DATE",
    r"worker\s+\S+\s+·\s+run_[0-9A-Z]{26}": "WORKER",
    r"str_[0-9A-Z]{26}": "STREAM",
    r"\b(at\s+once|in\s+[\d.]+\s+m?s)\b": "SOON",
    r" · (under )?[\d.]+ m?s\b": "",
    # A shorter or longer time leaves more or less room beside it.
    r"─+": "─",
    r"[ \t]+": " ",
}
"""What differs each time: when, how long, where, and ids."""


def masked(text: str) -> str:
    for pattern, word in MASKS.items():
        text = re.sub(pattern, word, text)
    return text.strip()


def test_the_picture_in_the_readme_is_what_its_program_gives(tmp_path: Path):
    (tmp_path / "app.py").write_text(program("README.md"), "utf-8")
    subprocess.run([sys.executable, "app.py"], cwd=tmp_path, check=True)
    blocks = markdown.blocks((ROOT / "README.md").read_text("utf-8"))
    (picture,) = [block.text for block in blocks if block.text.startswith("$ counterfoil show")]
    command, _, drawn = picture.partition("\n")
    words = shlex.split(command.removeprefix("$ counterfoil "))
    shown = subprocess.run(
        [sys.executable, "-c", "from counterfoil.cli import main; main()", *words],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert masked(drawn) == masked(shown.stdout)


def test_the_readme_has_a_python_block():
    assert "counterfoil.effect" in program("README.md")
