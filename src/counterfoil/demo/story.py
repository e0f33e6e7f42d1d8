"""The demo as it is told: what happens while it happens, and the rest from the ledger by the command line itself."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

PROGRAM: Final = "counterfoil"
_RUN_PROGRAM: Final = (sys.executable, "-c", "from counterfoil.cli import main; main()")
"""The command line of this very installation, whatever is or is not on the PATH."""


class Story:
    """Tells on standard output. A quiet one checks the same and says nothing, for programs that read the result."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._scenes = 0

    def say(self, text: str = "") -> None:
        """One paragraph."""
        if not self.quiet:
            print(text, flush=True)

    def scene(self, title: str) -> None:
        """A heading with its number."""
        self._scenes += 1
        self.say(f"\n{self._scenes} · {title}\n")

    def run(self, *words: str, environment: Mapping[str, str] | None = None) -> int:
        """Run a command of ``counterfoil`` and show it as typed, with what it prints; its exit code."""
        self.say(f"$ {typed(*words)}")
        shown = subprocess.DEVNULL if self.quiet else None
        given = {**os.environ, **(environment or {})}
        return subprocess.run(
            [*_RUN_PROGRAM, *words], check=False, stdout=shown, stderr=shown, env=given
        ).returncode

    def countdown(self, why: str, left_s: Callable[[], float]) -> Callable[[], None]:
        """Says why there is a wait; what it returns is to be called every second, and counts down on a terminal."""
        counts = not self.quiet and sys.stdout.isatty()

        def tick() -> None:
            if counts:
                print(f"\r   {why}: {max(left_s(), 0):.0f} s   ", end="\r", flush=True)

        self.say(f"   {why}: {max(left_s(), 0):.0f} s")
        return tick


def typed(*words: str) -> str:
    """A command of ``counterfoil`` as it works in this shell, in this directory."""
    return shlex.join([_program(), *words])


def _program() -> str:
    if shutil.which(PROGRAM):
        return PROGRAM
    beside = Path(sys.executable).with_name(PROGRAM)
    here = Path.cwd()
    return str(beside.relative_to(here)) if beside.is_relative_to(here) else str(beside)
