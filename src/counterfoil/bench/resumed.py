"""The program that :mod:`counterfoil.bench.resume` starts again: as an agent's would, it imports the package and little else."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import counterfoil

TEXT_BYTES: Final = 200
"""Of the result that each step hands out again."""


def result_of(number: int) -> dict[str, Any]:
    """What each step comes to."""
    return {"number": number, "text": "x" * TEXT_BYTES}


def main(place: str, steps: int) -> None:
    """Resume the run, be handed out every step but the last, take that live, and be gone as after a SIGKILL."""
    ledger = counterfoil.open(place)
    run = ledger.run("bench-agent", conversation="bench", message="go", dedupe="bench")
    run.__enter__()
    began = time.perf_counter()
    for number in range(steps):
        if run.step("step", result_of, number)["number"] != number:
            raise AssertionError(f"step {number} was handed out wrongly")
    taken = time.perf_counter() - began
    told = {"processor": time.process_time(), "step_us": taken / steps * 1e6, "peak_mb": _peak_mb()}
    print(json.dumps(told), flush=True)
    os._exit(0)


def _peak_mb() -> float:
    # Not from `figures`, which brings what tables are drawn with into the process that is measured.
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) / 1024
    import resource

    return (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / (1024 if sys.platform == "darwin" else 1)
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
