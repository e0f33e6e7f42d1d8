"""Runs the test suite on all cores and closes with its time and the plain totals.

``python -m tools.suite [pytest arguments]``. The last line is ``N passed, N failed``, whatever the terminal width,
the verbosity or a crash inside pytest, so that a person, a log and a continuous-integration server read the same.
"""

from __future__ import annotations

import os
import signal
import sys
import time

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


AGAIN_MAX = 10
"""Failures that are looked at a second time; more of them are no matter of a busy machine."""


def again(tally: Tally) -> None:
    """Runs the few tests that failed once more, alone and without neighbours, and names those that then pass.

    Tests with real servers, processes and deadlines can lose a race against their neighbours on a busy machine. A
    test that passes alone counts as passed and is named; one that fails again, or no test at all, has failed.
    """
    names = sorted(name for name in tally.failed if "::" in name)
    if not names or len(names) != len(tally.failed) or len(names) > AGAIN_MAX:
        return
    print(f"\nOnce more, alone: {len(names)} that failed among their neighbours.", flush=True)
    second = Tally()
    pytest.main(["-n", "0", "-q", *names], plugins=[second])
    for name in sorted(second.passed - second.failed):
        tally.failed.discard(name)
        tally.passed.add(name)
        print(f"passed at the second try, alone: {name}", flush=True)


def main(arguments: list[str]) -> int:
    """Runs pytest and returns 0 only when at least one test ran and none failed."""
    # A run in the background ignores interrupts, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tally = Tally()
    started = time.monotonic()
    # A worker that died is not replaced: its replacement can wait for ever for work of its group.
    defaults = ["-n", str(workers()), "--dist", "loadgroup", "--max-worker-restart", "0"]
    code = int(pytest.main([*defaults, *arguments], plugins=[tally]))
    if "CI" in os.environ and code == pytest.ExitCode.TESTS_FAILED:
        again(tally)
        code = code if tally.failed else int(pytest.ExitCode.OK)
    passed, failed = tally.totals(code)
    print(f"\nThe tests took {time.monotonic() - started:.0f} s; set-up is not counted.")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
