"""Names that are given at once: what a killed one left goes with the next, and what is at work is let be."""

from __future__ import annotations

import signal
import subprocess
import sys

from counterfoil.archive.place import WORK, new_place

VICTIM = """
import os, signal, sys
from pathlib import Path
from counterfoil.archive.place import WORK, new_place

with new_place(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    work = partial.with_name(partial.name + WORK)
    work.mkdir()
    (work / "keys").write_text("secret")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(target):
    victim = subprocess.run([sys.executable, "-c", VICTIM, str(target)], check=False, timeout=60)
    assert victim.returncode == -signal.SIGKILL


def test_what_a_killed_one_left_is_gone_after_the_next(tmp_path):
    target = tmp_path / "a[b]*.zip"
    killed(target)
    assert len(list(tmp_path.iterdir())) == 3
    with new_place(target) as partial:
        partial.write_text("whole")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(target.name, "whole")]


def test_one_at_work_and_those_for_other_names_are_let_be(tmp_path):
    killed(tmp_path / "other.zip")
    left = set(tmp_path.iterdir())
    with new_place(tmp_path / "a.zip") as first:
        first.write_text("first")
        work = first.with_name(first.name + WORK)
        work.mkdir()
        with new_place(tmp_path / "a.zip") as second:
            assert first.read_text() == "first"
            assert work.is_dir()
            second.write_text("second")
        work.rmdir()
        (tmp_path / "a.zip").unlink()
    assert (tmp_path / "a.zip").read_text() == "first"
    assert set(tmp_path.iterdir()) == left | {tmp_path / "a.zip"}
