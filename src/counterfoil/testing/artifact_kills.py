"""Faults in system calls while artifacts are stored: EIO, ENOSPC and SIGKILL, injected by strace.

Run as ``python -m counterfoil.testing.artifact_kills LEDGER`` this module is the victim: it keeps files and lets values
spill in a run, and says on standard output what was acknowledged. :func:`run_artifact_faults` counts its calls once, then
runs it into a fault at some of them, and looks at what is left.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from msgspec import Struct, field

import counterfoil
from counterfoil.errors import CounterfoilError

CALLS: Final = ("fsync", "rename", "renameat2", "mkdir")
"""What storing an object adds to what SQLite does: sync a file, give it its name, sync directories."""
FAULTS: Final = ("signal=KILL", "error=EIO", "error=ENOSPC")
VICTIM_S: Final = 60.0
ROUNDS: Final = 3
SIZE: Final = 40_000

_CALL = re.compile(rf"^\d+\s+({'|'.join(CALLS)})\(")


class ArtifactFaults(Struct):
    """What was tried, and what was found wrong."""

    points: int = 0
    tried: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def run_artifact_faults(directory: Path, every: int) -> ArtifactFaults:
    """Try a fault at every ``every``-th call, each kind in turn."""
    strace = shutil.which("strace")
    assert strace is not None, "look for strace before"
    template = directory / "template"
    counterfoil.open(template).close()
    counted = _count_calls(strace, template, directory / "counting")
    places = [(call, when) for call in CALLS for when in range(1, counted[call] + 1)]
    found = ArtifactFaults(points=len(places))
    for number, (call, when) in enumerate(places[::every]):
        fault = FAULTS[number % len(FAULTS)]
        ledger = directory / f"point-{number}"
        shutil.copytree(template, ledger)
        done = _run([*_traced(strace, ["-e", f"inject={call}:{fault}:when={when}"]), str(ledger)])
        told = [line.split(" ", 1) for line in done.stdout.decode("ascii", "replace").splitlines()]
        found.tried += 1
        found.answers.update(word for word, _ in told)
        found.problems += [f"{fault} at {call} {when}: {problem}" for problem in _look(ledger, told)]
        shutil.rmtree(ledger)
    return found


def _traced(strace: str, options: list[str], log: Path | None = None) -> list[str]:
    trace = ["-f", "-o", str(log or os.devnull), "-e", f"trace={','.join(CALLS)}", *options]
    return [strace, *trace, os.path.realpath(sys.executable), "-m", "counterfoil.testing.artifact_kills"]


def _run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(command, capture_output=True, timeout=VICTIM_S, check=False, env=environment)


def _count_calls(strace: str, template: Path, ledger: Path) -> Counter[str]:
    shutil.copytree(template, ledger)
    log = ledger.with_suffix(".trace")
    done = _run([*_traced(strace, [], log), str(ledger)])
    if done.returncode != 0:
        raise RuntimeError(f"the victim does not run under strace: {done.stderr.decode(errors='replace')}")
    return Counter(found[1] for line in log.read_text().splitlines() if (found := _CALL.match(line)))


def _look(place: Path, told: list[list[str]]) -> list[str]:
    """Everything acknowledged is there and whole; nothing that is recorded lacks its bytes; the work can go on."""
    from counterfoil.client.features import FEATURES
    from counterfoil.evidence.verify import verify

    problems: list[str] = []
    with counterfoil.open(place) as ledger:
        report = verify(ledger.store, ledger.keyring, FEATURES, artifacts=ledger.artifacts.store)
        problems += [f"{finding.kind}: {finding.what}" for finding in report.findings]
        for word, sha256 in told:
            if word == "kept" and len(ledger.artifacts.find(sha256).read()) != SIZE:
                problems.append(f"{sha256} was acknowledged and is not what was kept")
        work(place, [])
        ledger.artifacts.sweep(0)
        left = list((place / "artifacts" / "incoming").glob("*"))
        problems += [f"left over: {path.name}" for path in left]
    return problems


def work(place: Path, told: list[str]) -> None:
    """Keep files and spill values in one run, again if it was begun before."""
    with counterfoil.open(place) as ledger:
        ledger.recover()
        with ledger.run("agent", conversation="case", dedupe="m1", wait_s=VICTIM_S) as run:
            for number in range(ROUNDS):
                kept = run.artifact(iter([str(number).encode() * SIZE]), name=f"file {number}")
                _tell(told, f"kept {kept.sha256}")
                run.step(f"large {number}", "{}".format, str(number) * 300_000)
                _tell(told, f"stepped {number}")
    _tell(told, "ended -")


def _tell(told: list[str], line: str) -> None:
    told.append(line)
    if __name__ == "__main__":
        os.write(sys.stdout.fileno(), line.encode() + b"\n")


def be_victim(place: Path) -> None:
    """Do the work, and say of what stopped it, if an error did."""
    try:
        work(place, [])
    except CounterfoilError as error:
        os.write(sys.stdout.fileno(), f"refused {type(error).__name__}\n".encode())


if __name__ == "__main__":
    be_victim(Path(sys.argv[1]))
