"""Resuming a run with 10,000 completed steps, from the start of its process to the first step that is live again."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from msgspec import Struct

import counterfoil
from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.means import Means, Peers, check_peer
from counterfoil.bench.resumed import result_of
from counterfoil.bench.rounds import Scale

STEPS: Final = 10_000
AT_ONCE: Final = 64
SECONDS_MAX: Final = 1.0
MEMORY_MB_MAX: Final = 300
DBOS_TIMES_MIN: Final = 4.4
"""DESIGN 14 asks for less than 1 s where DBOS takes 4.4 s."""

_FILL: Final = ("-c", "from counterfoil.bench.resume import fill_child; fill_child()")
_RESUME: Final = ("-m", "counterfoil.bench.resumed")
_BY_HAND: Final = ("-P", str(Path(__file__).with_name("by_hand.py")))
"""By its path and not as a module of the package, which it would import."""


def resumed(scale: Scale, directory: Path, means: Means) -> list[Figure]:
    """The process that recorded the steps is gone without a word; each round is a process of its own.

    Who else resumes takes turns with it: a program by hand, which shows what this machine makes of the same work, and
    DBOS where peers are compared. Its budget of 4.4 is DESIGN 14's "< 1 s (DBOS 4.4 s)" read as a ratio, which a slow
    machine leaves as it is.
    """
    steps, environment = scale.items(STEPS), compiled(directory)
    run_program(_FILL, environment, str(directory / "ledger"), str(steps))
    run_program(_BY_HAND, environment, str(directory / "steps.db"), f"+{steps}")
    resumes = {
        "ours": _Resumes(_RESUME, str(directory / "ledger")),
        "by hand": _Resumes(_BY_HAND, str(directory / "steps.db")),
    }
    if means.peers is not None:
        resumes["DBOS"] = _dbos(means.peers, directory, steps, environment)
    told = _in_turns(resumes, steps, scale.rounds(7), environment)
    return _ours(told["ours"], steps) + [
        figure
        for name, short, at_least in (("by hand", "hand", None), ("DBOS", "dbos", DBOS_TIMES_MIN))
        if name in told
        for figure in _beside(told, name, short, at_least)
    ]


class _Resumes(Struct, frozen=True):
    """A program that resumes what lies at a place, by the interpreter that has what it imports."""

    program: tuple[str, ...]
    place: str
    python: str = sys.executable

    def once(self, environment: dict[str, str], steps: int) -> dict[str, Any]:
        """From the start of its process to the last of so many steps, which is live; the process is gone then."""
        began = time.perf_counter()
        told = run_program(self.program, environment, self.place, str(steps), python=self.python)
        wall = time.perf_counter() - began
        if told.get("live", 1) != 1:
            raise AssertionError(f"{told['live']} steps were done again that were complete")
        return told | {"wall": wall}


def _dbos(peers: Peers, directory: Path, steps: int, environment: dict[str, str]) -> _Resumes:
    """A workflow of the library whose process is gone after so many steps. Raises InputError where it is not durable."""
    place = directory / "dbos"
    place.mkdir()
    resumes = _Resumes((str(peers.scripts / "resumed_dbos.py"),), str(place), str(peers.python))
    told = run_program(resumes.program, environment, str(place), str(steps), "begin", python=resumes.python)
    check_peer(told["peer"], told["durable"])
    peers.told.append({"peer": told["peer"], **told["durable"]})
    return resumes


def _in_turns(
    resumes: Mapping[str, _Resumes], steps: int, rounds: int, environment: dict[str, str]
) -> dict[str, list[dict[str, Any]]]:
    """What each round told of each. The first warms up: it compiles what an installation has compiled."""
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in resumes}
    order = list(resumes)
    for number in range(rounds + 1):
        for name in order:
            told[name].append(resumes[name].once(environment, steps + number + 1))
        order = order[1:] + order[:1]
    return {name: rounds_of[1:] for name, rounds_of in told.items()}


def _median(told: Sequence[Mapping[str, Any]], name: str) -> float:
    median: float = statistics.median(one[name] for one in told)
    return median


def _ours(told: Sequence[Mapping[str, Any]], steps: int) -> list[Figure]:
    what = f"from process start to a live step, {steps:,} completed"
    peak = max(one["peak_mb"] for one in told)
    return [
        Figure("resume.time", what, _median(told, "wall"), "s", Budget(at_most=SECONDS_MAX)),
        Figure("resume.processor", "of it on the processor", _median(told, "processor"), "s"),
        Figure("resume.step", "a step that is handed out again", told[-1]["step_us"], "µs"),
        Figure("resume.memory", "peak memory", peak, "MB", Budget(at_most=MEMORY_MB_MAX)),
    ]


def _beside(
    told: Mapping[str, Sequence[Mapping[str, Any]]], name: str, short: str, at_least: float | None
) -> list[Figure]:
    """How many times as quick as another one of the same rounds, by the wall and by the processor, and its seconds."""
    seconds = {clock: _median(told[name], clock) for clock in ("wall", "processor")}
    ratios = {clock: taken / _median(told["ours"], clock) for clock, taken in seconds.items()}
    budget = None if at_least is None else Budget(at_least=at_least)
    return [
        Figure(f"resume.{short}", f"resuming, in terms of the speed of {name}", ratios["wall"], "×", budget),
        Figure(f"resume.{short}.times.processor", "the same on the processor", ratios["processor"], "×"),
        Figure(f"resume.{short}.time", f"{name}, from process start to a live step", seconds["wall"], "s"),
        Figure(f"resume.{short}.processor", "of it on the processor", seconds["processor"], "s"),
    ]


def compiled(directory: Path) -> dict[str, str]:
    """The environment of a child that finds its modules compiled, as an installed package has them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": str(directory / "compiled")}


def run_child(code: str, environment: dict[str, str], *words: str) -> dict[str, Any]:
    """Run code and wait; the object that it printed last."""
    return run_program(("-c", code), environment, *words)


def run_program(
    program: Sequence[str], environment: dict[str, str], *words: str, python: str = sys.executable
) -> dict[str, Any]:
    """Run a program of the interpreter and wait; the object that it printed last."""
    command = [python, *program, *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def leave(told: dict[str, Any]) -> NoReturn:
    """Say what there is to say, and be gone as after a SIGKILL: the run stays open."""
    print(json.dumps(told), flush=True)
    os._exit(0)


def fill_child() -> None:
    """In a process of its own: record so many steps of one run, some at a time, and be gone."""
    record_steps(sys.argv[1], int(sys.argv[2]), result_of)


def record_steps(
    place: str, steps: int, fn: Callable[..., Any], *words: int, at_once: int = AT_ONCE
) -> NoReturn:
    """Record so many steps of one run, ``fn(number, *words)`` each; so many share their commits. Never returns."""

    async def work() -> NoReturn:
        ledger = counterfoil.open(place)
        run = ledger.run("bench-agent", conversation="bench", message="go", dedupe="bench")
        await run.__aenter__()
        for start in range(0, steps, at_once):
            numbers = range(start, min(start + at_once, steps))
            await asyncio.gather(*(run.astep("step", fn, number, *words) for number in numbers))
        leave({"steps": steps})

    asyncio.run(work())
    raise AssertionError("the process has left by now")
