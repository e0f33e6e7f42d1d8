"""SIGTERM while runs are open: each ends as ``shutdown`` before the process goes (DESIGN 11)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

EXIT_CODE = 128 + signal.SIGTERM


class ShutdownWatch:
    """Turns SIGTERM into the end of the open runs, while there are any.

    The handler is set only from the main thread and only where the program left the default in place: a program
    with a handler of its own decides itself, and a run it leaves through ``SystemExit`` ends as ``shutdown`` too.
    A sync run in the main thread is left by ``SystemExit``; an async one by cancelling its task, after which the
    signal is sent again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sync = 0
        self._tasks: dict[asyncio.Task[Any], asyncio.AbstractEventLoop] = {}
        self._installed = False
        self.received: bool = False
        self.told: bool = False
        """Signals tell the program what to do and raise nothing; who sets such handlers says so."""

    def begin(self, task: asyncio.Task[Any] | None) -> bool:
        """A run begins in this thread; returns whether it is watched (to be told :meth:`end`)."""
        if threading.current_thread() is not threading.main_thread():
            return False
        with self._lock:
            if not self._installed:
                if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                    return False
                signal.signal(signal.SIGTERM, self._on_signal)
                self._installed, self.received = True, False
            if task is None:
                self._sync += 1
            else:
                self._tasks[task] = task.get_loop()
        return True

    def end(self, task: asyncio.Task[Any] | None) -> None:
        """A watched run has been recorded. The last one gives the signal back, and passes on one that came."""
        with self._lock:
            if task is None:
                self._sync = max(0, self._sync - 1)
            else:
                self._tasks.pop(task, None)
            if self._sync or self._tasks or not self._installed:
                return
            self._installed = False
            pass_on = self.received and task is not None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if pass_on:
            os.kill(os.getpid(), signal.SIGTERM)

    def may_have_left(self) -> bool:
        """Whether a ``SystemExit`` of code in this thread may come of a signal: then the process is to go.

        Handlers run in the main thread alone. There one that the program set may have raised it, unless it is known to
        raise nothing; the one of this watch says so itself. Otherwise the code has left by itself.
        """
        if self.told or threading.current_thread() is not threading.main_thread():
            return False
        raises_nothing = (signal.SIG_DFL, signal.SIG_IGN, self._on_signal)
        return self.received or signal.getsignal(signal.SIGTERM) not in raises_nothing

    def inherited(self) -> None:
        """In the child of a fork: the runs and their tasks are the parent's; the signal ends this process as it would."""
        self._lock = threading.Lock()
        self._sync, self._tasks = 0, {}

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.received = True
        for task, loop in list(self._tasks.items()):
            loop.call_soon_threadsafe(task.cancel)
        if not self._tasks:
            raise SystemExit(EXIT_CODE)


def interrupted_loop() -> bool:
    """Whether a cancellation in this process is Ctrl-C: ``asyncio.run`` turns SIGINT into the main task's cancellation."""
    handler = signal.getsignal(signal.SIGINT)
    runner = getattr(getattr(handler, "func", None), "__self__", None)
    kind = getattr(sys.modules.get("asyncio.runners"), "Runner", ())
    return isinstance(runner, kind) and bool(getattr(runner, "_interrupt_count", 0))


WATCH = ShutdownWatch()
"""The process has one SIGTERM, so there is one watch."""

os.register_at_fork(after_in_child=WATCH.inherited)
