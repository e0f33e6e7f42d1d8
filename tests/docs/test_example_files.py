"""The files in examples/ run as their own first lines say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tools.tree import ROOT

CRASHED = 9


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", *words]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True)


def test_the_refund_survives_a_crash_between_the_money_and_the_answer(tmp_path: Path):
    example = str(ROOT / "examples" / "refund.py")
    assert run(tmp_path, example, "--crash").returncode == CRASHED
    assert list(json.loads((tmp_path / "book.json").read_text())) == ["refund:O-1042:1"]
    again = run(tmp_path, example)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == (
        "success: re_1, the book has 2 entries, intended shop.look_up, payment.refund, message.send\n"
    )


def test_a_plain_agent_switches_its_journal_on_in_five_lines(tmp_path: Path):
    example = ROOT / "examples" / "journal.py"
    done = run(tmp_path, str(example))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("Your order is on its way.\ncompleted ['INTAKE', 'TOOL_CALL', 'COMMIT'] True\n")
    marks = [line.rsplit("#", 1)[1] for line in example.read_text("utf-8").splitlines() if "  # " in line]
    assert marks == [" 1", " 2", " 3", " 4", " 5"]


def test_a_coordinator_that_was_killed_gets_the_results_of_its_children(tmp_path: Path):
    example = str(ROOT / "examples" / "children.py")
    assert run(tmp_path, example, "--crash").returncode == CRASHED
    for _ in range(2):
        again = run(tmp_path, example)
        assert (again.returncode, again.stderr) == (0, "")
        assert again.stdout == "COST and RISK: 2 children, settled, settled\n"
