"""The main lane of a run: the task or thread in which its code does one thing after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from counterfoil.flow.loops import current_task

_lane: ContextVar[object | None] = ContextVar("counterfoil_lane", default=None)


def _here() -> object:
    task = current_task()
    return task if task is not None else threading.get_ident()


@contextmanager
def main_lane() -> Iterator[None]:
    """The code below runs one thing after the other, in this task or thread.

    Only there does the order of calls mean anything: siblings that run together are matched by identity alone, in
    whatever order they come (DESIGN 6).
    """
    token = _lane.set(_here())
    try:
        yield
    finally:
        _lane.reset(token)


def begin_main_lane() -> None:
    """Make this task or thread the run's main lane; it ends with the run's context."""
    _lane.set(_here())


def in_main_lane() -> bool:
    """Whether this code runs in the lane in which the run was entered."""
    return _lane.get() == _here()
