"""SIGKILL at writes, syncs, links and renames of a ledger's creation: whatever was left, the creation is gone through again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import counterfoil
from tests.archives import verified

CALLS = ("mkdir", "pwrite64", "fdatasync", "fsync", "ftruncate", "link", "rename", "unlink")
POINTS_MIN = 26
EACH = {"pwrite64": 24, "fdatasync": 3}
"""Of these, one in so many is tried: pages between two syncs leave the same to roll back, and a kill loses no page."""
KILLED = {-signal.SIGKILL, 128 + signal.SIGKILL}
AT_ONCE = 2

VICTIM = "import sys, counterfoil; counterfoil.open(sys.argv[1]).close()"


def create(place, *strace):
    """Make a ledger in a process of its own, traced; by a filter of system calls no signal would reach it."""
    victim = [os.path.realpath(sys.executable), "-c", VICTIM, str(place)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        ["strace", "-f", "-e", f"trace={','.join(CALLS)}", *strace, *victim],
        capture_output=True,
        timeout=60,
        check=False,
        env=environment,
    )


@pytest.mark.strace
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_a_creation_killed_at_any_step_is_gone_through_again(tmp_path):
    log = tmp_path / "trace"
    assert create(tmp_path / "counting", "-o", str(log)).returncode == 0
    counts = Counter(re.findall(rf"^\d+\s+({'|'.join(CALLS)})\(", log.read_text(), re.MULTILINE))
    points = [(call, when) for call in CALLS for when in range(1, counts[call] + 1, EACH.get(call, 1))]
    assert len(points) >= POINTS_MIN

    def kill(point):
        call, when = point
        place = tmp_path / f"{call}-{when}"
        killed = create(place, "-o", os.devnull, "-e", f"inject={call}:signal=KILL:when={when}")
        if killed.returncode not in KILLED:
            return f"was not killed: {killed.returncode}"
        with counterfoil.open(place) as ledger, ledger.run("a", conversation="c"):
            pass
        with counterfoil.open(place, create=False) as ledger:
            # What a kill left behind is no damage.
            assert verified(ledger).exit_code == 0
            return [row["terminal"] for row in ledger.runs()]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = dict(zip(points, pool.map(kill, points), strict=True))
    assert {point: answer for point, answer in answers.items() if answer != ["success"]} == {}
