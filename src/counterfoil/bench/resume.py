"""Resuming a run with 10,000 completed steps, from the start of its process to the first step that is live again."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import counterfoil
from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.resumed import result_of
from counterfoil.bench.rounds import Scale

STEPS: Final = 10_000
AT_ONCE: Final = 64
SECONDS_MAX: Final = 1.0
MEMORY_MB_MAX: Final = 300

_FILL: Final = ("-c", "from counterfoil.bench.resume import fill_child; fill_child()")
_RESUME: Final = ("-m", "counterfoil.bench.resumed")


def resumed(scale: Scale, directory: Path) -> list[Figure]:
    """The process that recorded the steps is gone without a word; each round is a process of its own."""
    steps, place = scale.items(STEPS), str(directory / "ledger")
    environment = compiled(directory)
    run_program(_FILL, environment, place, str(steps))
    run_program(_RESUME, environment, place, str(steps))  # compiles what an installation has compiled
    told = []
    for number in range(scale.rounds(7)):
        began = time.perf_counter()
        one = run_program(_RESUME, environment, place, str(steps + number + 1))
        told.append(one | {"wall": time.perf_counter() - began})
    wall, processor = (statistics.median(one[name] for one in told) for name in ("wall", "processor"))
    return [
        Figure(
            "resume.time",
            f"from process start to a live step, {steps:,} completed",
            wall,
            "s",
            Budget(at_most=SECONDS_MAX),
        ),
        Figure("resume.processor", "of it on the processor", processor, "s"),
        Figure("resume.step", "a step that is handed out again", told[-1]["step_us"], "µs"),
        Figure(
            "resume.memory",
            "peak memory",
            max(one["peak_mb"] for one in told),
            "MB",
            Budget(at_most=MEMORY_MB_MAX),
        ),
    ]


def compiled(directory: Path) -> dict[str, str]:
    """The environment of a child that finds its modules compiled, as an installed package has them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": str(directory / "compiled")}


def run_child(code: str, environment: dict[str, str], *words: str) -> dict[str, Any]:
    """Run code and wait; the object that it printed last."""
    return run_program(("-c", code), environment, *words)


def run_program(program: Sequence[str], environment: dict[str, str], *words: str) -> dict[str, Any]:
    """Run a program of the interpreter and wait; the object that it printed last."""
    command = [sys.executable, *program, *words]
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
