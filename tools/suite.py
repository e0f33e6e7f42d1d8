"""Runs the test suite on all cores and closes with its time and the plain totals.

``python -m tools.suite [pytest arguments]``. The last line is ``N passed, N failed``, whatever the terminal width,
the verbosity or a crash inside pytest, so that a person, a log and a continuous-integration server read the same.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

WORKERS_MAX = 8
"""More workers than this cost more in start-up than they win."""


class Tally:
    """A pytest plugin that counts each test once: failed when any of its phases failed."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts one phase of one test; with several workers this runs in the parent alone."""
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Counts a file that cannot be imported as one failure."""
        if report.failed:
            self.failed.add(report.nodeid)

    def totals(self, code: int) -> tuple[int, int]:
        """Passed and failed tests; a run that ended badly without a failed test counts as one failure."""
        failed = len(self.failed) or int(code != pytest.ExitCode.OK)
        return len(self.passed - self.failed), failed


def workers() -> int:
    """Two, or one for each core this process may use, up to :data:`WORKERS_MAX`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, min(cores, WORKERS_MAX))


def forget_compiled() -> None:
    """Removes what Python compiled of modules that tests wrote into directories of their own, which are gone by now."""
    if sys.pycache_prefix is not None:
        for place in {tempfile.gettempdir(), "/tmp", "/dev/shm"}:  # noqa: S108 - of compiled files, below our own prefix
            shutil.rmtree(
                Path(sys.pycache_prefix, *Path(place).parts[1:], f"pytest-of-{getpass.getuser()}"), True
            )


def main(arguments: list[str]) -> int:
    """Runs pytest and returns 0 only when at least one test ran and none failed."""
    # A run in the background ignores interrupts, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tally = Tally()
    started = time.monotonic()
    # A worker that died is not replaced: its replacement can wait for ever for work of its group.
    defaults = ["-n", str(workers()), "--dist", "loadgroup", "--max-worker-restart", "0"]
    # Where the suite's time goes is seen in every run.
    defaults += ["--durations=20", "--durations-min=5"]
    code = int(pytest.main([*defaults, *arguments], plugins=[tally]))
    forget_compiled()
    passed, failed = tally.totals(code)
    print(f"\nThe tests took {time.monotonic() - started:.0f} s; set-up is not counted.")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
