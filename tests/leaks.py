"""What a test may leave changed in its process for those after it; looked at around every test, in microseconds.

Not looked at: tools and agents, which a module's fixture may declare for all its tests, and ``sys.path``, to which a command
adds the place of the application.
"""

from __future__ import annotations

import _signal
import asyncio
import contextvars
import faulthandler
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from counterfoil.runtime.shutdown import WATCH

OURS = "counterfoil"
"""Context variables and loggers of the package begin with this."""

PYTEST_S_OWN = b"PYTEST_CURRENT_TEST"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGCHLD)
ENDING_S = 5.0
"""A thread that was told to end may take so long."""


class Kind(NamedTuple):
    """Something that lasts longer than a test: how it is now, and how it is put back for the tests after it."""

    what: str
    now: Callable[[], Any]
    put_back: Callable[[Any], object]


def _variables() -> dict[str, object]:
    """The package's own context variables: a run that was entered, a watcher of flows."""
    found = {
        var.name: value for var, value in contextvars.copy_context().items() if var.name.startswith(OURS)
    }
    # Which task or thread a run was entered in is set anew by the next one. One set to nothing is as good as never set.
    return {name: value for name, value in found.items() if value is not None and name != "counterfoil_lane"}


def _forget_variables(before: dict[str, object]) -> None:
    for variable in contextvars.copy_context():
        if variable.name.startswith(OURS):
            variable.set(before.get(variable.name))


def _environment() -> dict[Any, Any]:
    # The mapping beneath, since os.environ decodes each name and value.
    found = dict(os.environ._data)  # type: ignore[attr-defined]
    found.pop(PYTEST_S_OWN, None)
    return found


def _put_back_environment(before: dict[Any, Any]) -> None:
    for name in set(_environment()) - set(before):
        del os.environ[os.fsdecode(name)]
    os.environ.update({os.fsdecode(name): os.fsdecode(value) for name, value in before.items()})


def _handlers() -> tuple[Any, ...]:
    # What is beneath signal.getsignal, which looks every number and handler up in an enumeration.
    return tuple(map(_signal.getsignal, SIGNALS))


def _put_back_handlers(before: tuple[Any, ...]) -> None:
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


def _watch() -> tuple[Any, ...]:
    """What the package does about SIGTERM: watched for as long as runs are entered."""
    return WATCH._installed, WATCH._sync, len(WATCH._tasks), WATCH.told


def _put_back_watch(before: tuple[Any, ...]) -> None:
    WATCH._tasks.clear()
    WATCH._installed, WATCH._sync, _, WATCH.told = before


def _directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a path object takes four times as long
    except FileNotFoundError:
        return "one that is gone"


def _loggers() -> tuple[Any, ...]:
    loggers = (logging.root, logging.getLogger(OURS))
    states = (
        (logger, (*logger.handlers,), logger.level, logger.disabled, logger.propagate) for logger in loggers
    )
    return (*states, logging.root.manager.disable)


def _put_back_loggers(before: tuple[Any, ...]) -> None:
    *loggers, logging.root.manager.disable = before
    for logger, handlers, logger.level, logger.disabled, logger.propagate in loggers:
        logger.handlers[:] = handlers


def _hooks() -> tuple[Any, ...]:
    return sys.excepthook, sys.unraisablehook, threading.excepthook


def _put_back_hooks(before: tuple[Any, ...]) -> None:
    sys.excepthook, sys.unraisablehook, threading.excepthook = before


def _interpreter() -> tuple[Any, ...]:
    return sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), faulthandler.is_enabled()


def _put_back_interpreter(before: tuple[Any, ...]) -> None:
    limit, interval, collects, faults = before
    sys.setrecursionlimit(limit)
    sys.setswitchinterval(interval)
    (gc.enable if collects else gc.disable)()
    (faulthandler.enable if faults else faulthandler.disable)()


def _nothing(before: object) -> None:
    """What cannot be put back."""


KINDS = (
    Kind("context variables", _variables, _forget_variables),
    Kind("environment variables", _environment, _put_back_environment),
    Kind("the current directory", _directory, os.chdir),
    Kind("signal handlers", _handlers, _put_back_handlers),
    Kind("the watch for SIGTERM", _watch, _put_back_watch),
    Kind("loggers", _loggers, _put_back_loggers),
    Kind("hooks for errors", _hooks, _put_back_hooks),
    Kind("the interpreter's settings", _interpreter, _put_back_interpreter),
    Kind("sys.argv", sys.argv.copy, lambda before: sys.argv.__setitem__(slice(None), before)),
    Kind("a running event loop", asyncio._get_running_loop, asyncio._set_running_loop),
)


class Standing:
    """How a process is before a test."""

    def __init__(self) -> None:
        self._before = [kind.now() for kind in KINDS]
        self._threads = frozenset(threading.enumerate())

    def left(self) -> list[str]:
        """What the test has left otherwise, each as a sentence's end, and put back already."""
        found = []
        for kind, before in zip(KINDS, self._before, strict=True):
            now = kind.now()
            if now != before:
                found.append(f"{kind.what}: {_difference(before, now)}")
                kind.put_back(before)
        return found + self._threads_left()

    def _threads_left(self) -> list[str]:
        left = [
            thread for thread in threading.enumerate() if not thread.daemon and thread not in self._threads
        ]
        for thread in left:
            thread.join(ENDING_S)
        return [f"a thread that runs on: {thread.name}" for thread in left if thread.is_alive()]


def _difference(before: Any, now: Any) -> str:
    """What was added, taken away or changed; names of variables only, for a value may be a secret."""
    if isinstance(before, dict) and isinstance(now, dict):
        return ", ".join(
            sorted(str(name) for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        )
    return f"{before} became {now}"
