"""Every Python block of the README and the guides runs as it stands, from top to bottom, in an empty directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import markdown
from tools.tree import ROOT

PAGES = ["README.md", "docs/effects.md", "docs/running.md", "docs/verify.md"]


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


def test_the_readme_has_a_python_block():
    assert "counterfoil.effect" in program("README.md")
