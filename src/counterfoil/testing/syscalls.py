"""Faults in system calls: EIO, ENOSPC and SIGKILL at every write and fsync of an append, injected by strace.

Run as ``python -m counterfoil.testing.syscalls DIRECTORY`` this module is the victim: it opens the ledger there,
appends two units, closes, and says on standard output what it was told of each. :func:`run_faults` traces one
victim to count its calls on the ledger's files, then runs it once for each call and fault, and looks at what is
left.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from counterfoil.adapters.sqlite import DATABASE_NAME, open_sqlite
from counterfoil.errors import CounterfoilError
from counterfoil.store.unit import Receipt, Unit
from counterfoil.testing.aftermath import SAMPLE_TABLE, Aftermath, sample_stream, sample_unit
from counterfoil.testing.events import SAMPLE_LEDGER
from counterfoil.testing.manual import SequentialIds

CALLS: Final = ("pwrite64", "fdatasync", "fsync", "ftruncate")
"""How SQLite writes; on a system where it uses others the trace counts none, and that is reported."""
FAULTS: Final = ("error=EIO", "error=ENOSPC", "signal=KILL")
POINTS_MIN: Final = 26
VICTIM_S: Final = 60.0
VICTIMS_AT_ONCE: Final = 2
UNITS: Final = 2

_CALL = re.compile(rf"^\d+\s+({'|'.join(CALLS)})\(")


class Point(Struct, frozen=True):
    """The ``when``-th call of this name on the ledger's files, and what befalls it."""

    call: str
    when: int
    fault: str

    def __str__(self) -> str:
        return f"{self.fault} at {self.call} {self.when}"


class Faults(Struct):
    """What was tried, and what was found wrong."""

    points: int = 0
    tried: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def strace_path() -> str | None:
    """Where strace is, or None: then nothing can be injected."""
    return shutil.which("strace")


def run_faults(directory: Path, seconds: float, seed: int, tell: Callable[[Faults], None]) -> Faults:
    """Try a fault at every write and fsync of an append, then the other faults too as long as there is time."""
    strace, ends = strace_path(), time.monotonic() + seconds
    assert strace is not None, "look for strace before"
    template = directory / "template"
    _make(template)
    counted = _count_calls(strace, template, directory / "counting")
    found = Faults(points=sum(counted.values()))
    points = _in_order(list(_each(counted)), random.Random(seed))  # noqa: S311 - an order, not a secret

    def attempt(number: int, point: Point) -> None:
        if number >= found.points and time.monotonic() > ends:
            return
        told, problems = _try(strace, template, directory / f"point-{number}", point)
        with lock:
            found.tried += 1
            found.answers.update(told.values())
            found.problems += [f"{point}: {problem}" for problem in problems]
            tell(found)

    lock = threading.Lock()
    with ThreadPoolExecutor(VICTIMS_AT_ONCE) as pool:
        for done in [pool.submit(attempt, number, point) for number, point in enumerate(points)]:
            done.result()
    if found.points < POINTS_MIN:
        found.problems.append(f"only {found.points} writes and fsyncs were seen, fewer than {POINTS_MIN}")
    return found


def _each(counted: Counter[str]) -> Iterator[tuple[str, int]]:
    return ((call, when) for call in CALLS for when in range(1, counted[call] + 1))


def _in_order(places: list[tuple[str, int]], chance: random.Random) -> list[Point]:
    """Every place once, with faults in turn; then every place with the next fault, and so on."""
    turn = chance.randrange(len(FAULTS))
    points = []
    for shift in range(len(FAULTS)):
        again = [
            Point(call, when, FAULTS[(number + shift + turn) % len(FAULTS)])
            for number, (call, when) in enumerate(places)
        ]
        chance.shuffle(again)
        points += again
    return points


def _make(template: Path) -> None:
    store = open_sqlite(template, tables=(SAMPLE_TABLE,), create=True, ledger_id=SAMPLE_LEDGER)
    outcomes = [store.append([unit]).result()[0] for unit in _units(create=True)]
    assert all(isinstance(outcome, Receipt) for outcome in outcomes)
    store.close()


def _units(*, create: bool = False) -> list[Unit]:
    """The victim's units: each has an event in two streams. The template holds others, which made the streams."""
    ids = SequentialIds("template" if create else "victim")
    streams = [sample_stream(0), sample_stream(1)]
    count = 1 if create else UNITS
    return [sample_unit(streams, [ids.new("evt") for _ in streams], create=create) for _ in range(count)]


def _event_ids(unit: Unit) -> list[str]:
    return [event.event_id for part in unit.streams for event in part.events]


def _victim_command(ledger: Path) -> list[str]:
    # The interpreter itself, not a link in a virtual environment: strace follows no shim.
    return [os.path.realpath(sys.executable), "-m", "counterfoil.testing.syscalls", str(ledger)]


def _traced(strace: str, ledger: Path, log: Path, inject: Point | None) -> list[str]:
    ledger = ledger.resolve()
    command = [strace, "-f", "-o", str(log), "-e", f"trace={','.join(CALLS)}"]
    for name in (DATABASE_NAME, f"{DATABASE_NAME}-wal"):
        command += ["-P", str(ledger / name)]
    if inject is not None:
        command += ["-e", f"inject={inject.call}:{inject.fault}:when={inject.when}"]
    return [*command, *_victim_command(ledger)]


def _run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(command, capture_output=True, timeout=VICTIM_S, check=False, env=environment)


def _count_calls(strace: str, template: Path, ledger: Path) -> Counter[str]:
    """How often an undisturbed victim makes each call on the ledger's files."""
    shutil.copytree(template, ledger)
    log = ledger.with_suffix(".trace")
    done = _run(_traced(strace, ledger, log, None))
    if done.returncode != 0:
        raise RuntimeError(f"the victim does not run under strace: {done.stderr.decode(errors='replace')}")
    return Counter(found[1] for line in log.read_text().splitlines() if (found := _CALL.match(line)))


def _try(strace: str, template: Path, ledger: Path, point: Point) -> tuple[dict[int, str], list[str]]:
    """Run one victim into its fault; what it was told of each unit, and what is wrong afterwards."""
    shutil.copytree(template, ledger)
    try:
        done = _run(_traced(strace, ledger, Path(os.devnull), point))
        told = dict(_told(done.stdout.decode("ascii", "replace")))
        problems = []
        if done.returncode not in {0, -9, 137}:
            problems.append(
                f"the victim ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}"
            )
        return told, [*problems, *_look(ledger, told)]
    finally:
        shutil.rmtree(ledger)


def _told(output: str) -> Iterator[tuple[int, str]]:
    for line in output.splitlines():
        number, _, answer = line.partition(" ")
        yield int(number), answer


def _look(ledger: Path, told: dict[int, str]) -> list[str]:
    aftermath = Aftermath(ledger)
    aftermath.look()
    units = _units()
    aftermath.expect(
        acknowledged=[
            i for n, unit in enumerate(units) if told.get(n) == "acknowledged" for i in _event_ids(unit)
        ],
        refused=[i for n, unit in enumerate(units) if told.get(n) == "refused" for i in _event_ids(unit)],
    )
    # Whatever was said, the same units sent again land once.
    store = open_sqlite(ledger, tables=(SAMPLE_TABLE,))
    outcomes = store.append(units).result()
    store.close()
    aftermath.look()
    aftermath.expect(acknowledged=[event_id for unit in units for event_id in _event_ids(unit)])
    problems = [f"sent again: {outcome}" for outcome in outcomes if not isinstance(outcome, Receipt)]
    return [*problems, *aftermath.problems]


# ---- the victim --------------------------------------------------------------------------------------------------


def be_victim(ledger: Path) -> None:
    """Append the units one by one and say what was told of each: acknowledged, refused or unknown."""
    store = open_sqlite(ledger, tables=(SAMPLE_TABLE,))
    for number, unit in enumerate(_units()):
        try:
            outcome = store.append([unit]).result()[0]
        except CounterfoilError:
            answer = "unknown"
        else:
            answer = "acknowledged" if isinstance(outcome, Receipt) else "refused"
        os.write(sys.stdout.fileno(), f"{number} {answer}\n".encode())
    store.close()


if __name__ == "__main__":
    be_victim(Path(sys.argv[1]))
