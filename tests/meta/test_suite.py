"""The totals that ``./run test`` ends with are the truth, in bad cases too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.tree import ROOT

CASES = {
    "passing tests": ("def test_a(): pass\ndef test_b(): pass\n", "2 passed, 0 failed", 0),
    "a failing test": ("def test_a(): pass\ndef test_b(): assert 0\n", "1 passed, 1 failed", 1),
    "an error in teardown": (
        "import pytest\n@pytest.fixture\ndef f():\n  yield\n  raise OSError\ndef test_a(f): pass\n",
        "0 passed, 1 failed",
        1,
    ),
    "a file that does not import": ("import nothing_of_this_name\n", "0 passed, 1 failed", 1),
    "a test that would pass at a second try": (
        "from pathlib import Path\nmark = Path(__file__).with_name('tried')\n"
        "def test_a():\n  tried = mark.exists()\n  mark.touch()\n  assert tried\n",
        "0 passed, 1 failed",
        1,
    ),
    "no test at all": ("", "0 passed, 1 failed", 1),
}


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("case", CASES)
def test_the_last_line_counts(case: str, workers: str, tmp_path: Path):
    text, totals, code = CASES[case]
    (tmp_path / "test_it.py").write_text(text, "utf-8")
    command = [
        sys.executable,
        "-m",
        "tools.suite",
        "-n",
        workers,
        "-c",
        "/dev/null",
        "-p",
        "no:cacheprovider",
    ]
    environment = os.environ | {"CI": "true"}
    ended = subprocess.run(
        [*command, str(tmp_path)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert ended.stdout.splitlines()[-1] == totals
    assert ended.returncode == code
