"""The progress bar of long work, on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from counterfoil.cli.face import Progress


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
    """A bar that is gone when the work is done."""
    console = Console(stderr=True, no_color=not colored, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit, markup=False),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns, console=console, transient=True) as drawn:
        yield _Bar(drawn, drawn.add_task(words, total=None))
