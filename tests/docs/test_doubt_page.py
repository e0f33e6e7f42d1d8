"""The page about doubt: its program runs, and its picture is what the command prints two hours later."""

from __future__ import annotations

import re
import subprocess
import sys

from click.testing import CliRunner

from counterfoil.cli.face import Face
from counterfoil.cli.root import root
from counterfoil.testing.manual import START_MS, ManualClock
from tests.docs.test_examples import masked, program
from tools import markdown
from tools.tree import ROOT

PAGE = "docs/doubt.md"
HOUR_MS = 3_600_000


def shown(directory):
    """What ``counterfoil show`` prints of the story: an hour passes in it, and two after it."""
    face = Face(
        width=80, clock=ManualClock(START_MS + 3 * HOUR_MS), environment={}, directory=directory, color=False
    )
    return CliRunner().invoke(root, ["show", "case-8472"], obj=face).stdout


def told(text):
    """The picture without names of workers: where one does not fit into its line it is left out."""
    return masked(re.sub(r" · worker \S+", "", re.sub(r"\s+", " ", text)))


def test_the_picture_is_what_its_program_and_the_command_give(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(program(PAGE), "utf-8")
    command = [sys.executable, "-W", "error", "app.py"]
    played = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (played.returncode, played.stderr) == (0, "")
    blocks = markdown.blocks((ROOT / PAGE).read_text("utf-8"))
    (picture,) = [block.text for block in blocks if block.text.startswith("$ counterfoil show")]
    assert told(picture.partition("\n")[2]) == told(shown(tmp_path))
