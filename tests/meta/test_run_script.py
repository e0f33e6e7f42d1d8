"""``./run`` is plain POSIX shell, explains itself, and refuses what it does not know."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.docs import verbs
from tools.tree import ROOT

SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]


def run(*arguments: str, cwd: Path = ROOT, script: str = "./run") -> subprocess.CompletedProcess[str]:
    return subprocess.run([script, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_parses_in_each_shell(shell: str):
    assert subprocess.run([shell, "-n", "run"], cwd=ROOT, capture_output=True).returncode == 0


def test_help_needs_no_set_up_and_lists_every_verb(tmp_path: Path):
    alone = tmp_path / "a place with spaces"
    alone.mkdir()
    shutil.copy2(ROOT / "run", alone)
    shown = run("help", cwd=alone)
    assert shown.returncode == 0
    assert {line.split()[0] for line in shown.stdout.splitlines() if line.startswith("  ")} == verbs()
    assert not (alone / ".venv").exists()


def test_every_verb_that_is_listed_is_done():
    text = (ROOT / "run").read_text("utf-8")
    cases = set(
        re.findall(r"^([a-z-]+)(?: \| [^)]*)?\)$", text.partition("\ncase $verb in")[2], re.MULTILINE)
    )
    assert cases == verbs()


def test_an_unknown_verb_is_refused_with_the_list_of_verbs():
    refused = run("explode")
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert "there is no verb 'explode'" in refused.stderr
    assert "./run VERB" in refused.stderr


def test_the_script_works_with_standard_input_closed():
    shown = subprocess.run(["sh", "-c", "./run help <&-"], cwd=ROOT, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_set_up_that_is_done_is_not_done_again():
    first, second = run("setup"), run("setup")
    assert (first.returncode, second.returncode) == (0, 0)
    assert "set-up took 0 s" in second.stderr
