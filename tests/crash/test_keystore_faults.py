"""EIO, ENOSPC and SIGKILL at every write and sync of a put into keys.db: what was acknowledged is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from counterfoil.abc import KeyRow
from counterfoil.adapters.sqlite.keystore import SqliteKeyStore

CALLS = ("pwrite64", "fdatasync", "fsync", "ftruncate")
FAULTS = ("error=EIO", "error=ENOSPC", "signal=KILL")
POINTS_MIN = 12
PUTS = 2

VICTIM = """
import sys
from pathlib import Path
from counterfoil.abc import KeyRow
from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
from counterfoil.errors import StoreError

store = SqliteKeyStore(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    try:
        store.put([KeyRow(f"dk_{number}", "str_a", "", bytes([number]) * 4000, b"check")])
    except StoreError as error:
        print(number, error.code, flush=True)
    else:
        print(number, "acknowledged", flush=True)
"""


def victim(path, *strace):
    """Run the victim, under strace when its options are given."""
    command = [os.path.realpath(sys.executable), "-c", VICTIM, str(path), str(PUTS)]
    if strace:
        watched = [option for name in (path, f"{path}-journal") for option in ("-P", str(name))]
        command = ["strace", "-f", *strace, "-e", f"trace={','.join(CALLS)}", *watched, *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def counted_calls(directory):
    """How often an undisturbed victim makes each call on the key store's files, and in what order."""
    log = directory / "trace"
    done = victim(directory / "keys.db", "-o", str(log))
    assert done.returncode == 0, done.stderr
    calls = re.findall(rf"^\d+\s+({'|'.join(CALLS)})\(", log.read_text(), re.MULTILINE)
    return calls, Counter(calls)


@pytest.fixture
def template(tmp_path):
    directory = tmp_path / "template"
    directory.mkdir()
    SqliteKeyStore(directory / "keys.db", create=True).close()
    return directory


@pytest.mark.strace
def test_the_last_thing_before_a_put_is_acknowledged_is_a_sync(template):
    calls, _ = counted_calls(template)
    assert calls[-1] in {"fdatasync", "fsync"}
    assert sum(call in {"fdatasync", "fsync"} for call in calls) >= 3 * PUTS


@pytest.mark.strace
def test_whatever_fails_at_any_write_or_sync_an_acknowledged_key_is_there_and_whole(template, tmp_path):
    trial = tmp_path / "trial"
    shutil.copytree(template, tmp_path / "counting")
    _, counts = counted_calls(tmp_path / "counting")
    points = [(call, when) for call in CALLS for when in range(1, counts[call] + 1)]
    assert len(points) >= POINTS_MIN
    answers = Counter()
    for number, (call, when) in enumerate(points):
        point = f"{call}:{FAULTS[number % len(FAULTS)]}:when={when}"
        shutil.copytree(template, trial)
        done = victim(trial / "keys.db", "-o", os.devnull, "-e", f"inject={point}")
        assert done.returncode in {0, -9, 137}, (point, done.stderr)
        told = dict(line.split() for line in done.stdout.splitlines())
        answers.update([*told.values(), f"ended with {done.returncode}"])
        look_at(trial / "keys.db", told, point)
        shutil.rmtree(trial)
    # The faults did arrive: without this the test would pass on a disk that never fails.
    assert {"acknowledged", "store_io", "store_full"} <= set(answers)
    assert len([answer for answer in answers if answer.startswith("ended")]) == 2


def look_at(path, told, point):
    """Every acknowledged key is there, no key is half there, and the key store goes on."""
    store = SqliteKeyStore(path)
    wanted = [KeyRow(f"dk_{number}", "str_a", "", bytes([number]) * 4000, b"check") for number in range(PUTS)]
    for number, row in enumerate(wanted):
        found = store.get(row.key_id)
        assert found in {None, row}, point
        assert found is not None or told.get(str(number)) != "acknowledged", point
    store.put([row for row in wanted if store.get(row.key_id) is None])
    assert store.scan() == wanted, point
    store.close()
