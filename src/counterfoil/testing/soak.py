"""``python -m counterfoil.testing.soak``: writers killed at random, faults at every write, and effects that happen once.

Ends with one summary line and exit code 0, or names each violation and exits 1. The seed it prints makes the
same choices again; which instruction a signal hits is the machine's own chance.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from counterfoil.testing.effect_kills import Effects, run_effects
from counterfoil.testing.kills import Tally, run_kills
from counterfoil.testing.syscalls import Faults, run_faults, strace_path

SECONDS = 60.0
EFFECTS = 1000
SHOWN_MAX = 20


class Progress:
    """One line a second for a person at a terminal; nothing otherwise."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._began = self._last = time.monotonic()

    def say(self, text: str) -> None:
        """Show how far it is, at most once a second."""
        now = time.monotonic()
        if self._shows and now - self._last >= 1.0:
            self._last = now
            print(f"{now - self._began:5.0f} s  {text}", file=sys.stderr, flush=True)

    def kills(self, tally: Tally) -> None:
        """How the killing goes."""
        self.say(f"{tally.kills} writers killed, {len(tally.acknowledged)} events acknowledged")

    def faults(self, found: Faults) -> None:
        """How the fault injection goes."""
        self.say(f"{found.tried} faults tried at {found.points} points")

    def effects(self, found: Effects) -> None:
        """How the effects go."""
        self.say(
            f"{found.ended} of {found.count} effects ended, {found.killed} workers and {found.banks_killed} "
            f"providers killed, {found.stopped} workers stopped"
        )


def soak(seconds: float, seed: int, effects: int = EFFECTS) -> int:
    """The three parts, a third of the time each (the last two take what one pass needs); the exit code."""
    progress = Progress()
    print(f"soak: seed {seed}, {seconds:g} s")
    with tempfile.TemporaryDirectory(prefix="counterfoil-soak-") as scratch:
        killing, injecting, paying = (Path(scratch) / part for part in ("kills", "faults", "effects"))
        for part in (killing, injecting, paying):
            part.mkdir()
        tally, problems = run_kills(killing, seconds / 3, seed, progress.kills)
        print(
            f"kills: {tally.kills} writers killed, {len(tally.acknowledged)} events acknowledged and found, "
            f"{tally.sent_again} units sent again, {tally.looks} looks"
        )
        paid = run_effects(paying, seconds / 3, seed, effects, progress.effects)
        print(paid)
        found = _inject(injecting, seconds / 3, seed, progress)
        problems += [*found.problems, *paid.problems]
    for problem in problems[:SHOWN_MAX]:
        print(f"violation: {problem}")
    print(
        f"soak: {tally.kills} kills, {found.tried} faults at {found.points} points, {paid.count} effects, "
        f"{len(problems)} violations, seed {seed}"
    )
    return 1 if problems else 0


def _inject(directory: Path, seconds: float, seed: int, progress: Progress) -> Faults:
    if strace_path() is None:
        missing = Faults()
        print("faults: strace is not installed, so no system call was made to fail (apt-get install strace)")
        if os.environ.get("CI") == "true":
            missing.problems.append("strace is missing, and CI demands the fault injection")
        return missing
    found = run_faults(directory, seconds, seed, progress.faults)
    print(
        f"faults: {found.points} points (every write and fsync of an append), {found.tried} faults tried; answers: "
        + ", ".join(f"{count} {answer}" for answer, count in sorted(found.answers.items()))
    )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m counterfoil.testing.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long (default: %(default)g)")
    parser.add_argument(
        "--seed", type=int, default=None, help="a seed printed before, to choose the same again"
    )
    parser.add_argument(
        "--effects", type=int, default=EFFECTS, help="how many effects (default: %(default)d)"
    )
    told = parser.parse_args(arguments)
    return soak(told.seconds, secrets.randbits(32) if told.seed is None else told.seed, told.effects)


if __name__ == "__main__":
    sys.exit(main())
