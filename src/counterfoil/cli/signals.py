"""Signals to a command that goes on until it is told to stop: the first is a request, the second is meant."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from counterfoil.cli.exits import Exit
from counterfoil.runtime.shutdown import WATCH

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Told:
    """Which signal came, if one has."""

    number: int | None = None

    @property
    def exit(self) -> Exit:
        """Code to leave with: a service that was asked to stop is done; whoever pressed Ctrl-C interrupted it."""
        return Exit.INTERRUPTED if self.number == signal.SIGINT else Exit.DONE


@contextmanager
def told_to_stop(stop: Callable[[], None]) -> Iterator[Told]:
    """Call ``stop`` at the first SIGTERM or SIGINT, and leave the process at once at the second.

    Leaving at once is what a crash is: nothing is lost by it, the next worker goes on. Outside the main thread no signal
    can be listened to, and nothing is changed.
    """
    told = Told()
    if threading.current_thread() is not threading.main_thread():
        yield told
        return

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if told.number is not None:
            os._exit(128 + number)
        told.number = number
        stop()

    before: dict[int, Any] = {number: signal.signal(number, on_signal) for number in SIGNALS}
    WATCH.told = True
    try:
        yield told
    finally:
        WATCH.told = False
        for number, handler in before.items():
            signal.signal(number, handler)
