"""The progress bar of long work, on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as RichProgress
from rich.theme import Theme

from counterfoil.cli.face import Progress

_QUIET: Final = {
    "bar.complete": "cyan",
    "bar.finished": "cyan",
    "bar.pulse": "cyan",
    "progress.download": "default",
    "progress.elapsed": "dim",
    "progress.percentage": "default",
}
"""No yellow and no red: amber says that a person is needed, red that something failed."""


class _Bar(Progress):
    """Draws what it is told."""

    def __init__(self, drawn: RichProgress, task: TaskID) -> None:
        self._drawn = drawn
        self._task = task

    def at(self, done: int, total: int | None = None) -> None:
        """See :meth:`Progress.at`."""
        self._drawn.update(self._task, completed=done, total=total)


@contextmanager
def bar(words: str, unit: str, *, colored: bool) -> Iterator[Progress]:
    """A bar that is gone when the work is done; with a ``unit`` it counts, without it tells per cent."""
    console = Console(
        stderr=True, no_color=not colored, highlight=False, markup=False, emoji=False, theme=Theme(_QUIET)
    )
    counted = (MofNCompleteColumn(), TextColumn(unit, markup=False)) if unit else (TaskProgressColumn(),)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), *counted, TimeElapsedColumn())
    with RichProgress(*columns, console=console, transient=True) as drawn:
        yield _Bar(drawn, drawn.add_task(words, total=None))
