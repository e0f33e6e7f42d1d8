"""What asyncio says, asked without loading it: until somebody has, there is no loop, no task and no cancellation.

A process whose runs are sync needs nothing of it, and it is among the dearest modules to load (ADR 0081).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs in this thread, if one does."""
    ask = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
    loop: asyncio.AbstractEventLoop | None = None if ask is None else ask()
    return loop


def current_task() -> asyncio.Task[Any] | None:
    """The task that this code runs in; None in a callback of a loop, and where no loop runs."""
    loop = running_loop()
    if loop is None:
        return None
    import asyncio

    return asyncio.current_task(loop)


def is_cancellation(error: object) -> bool:
    """Whether this is an ``asyncio.CancelledError``."""
    kind = getattr(sys.modules.get("asyncio.exceptions"), "CancelledError", ())
    return isinstance(error, kind)


def comes_from_outside(error: object) -> bool:
    """Whether the surroundings raised this to end the code: it is passed on whatever became of the run."""
    return isinstance(error, KeyboardInterrupt | SystemExit) or is_cancellation(error)


async def to_thread(fn: Callable[..., T], *args: Any) -> T:
    """``asyncio.to_thread``: what ``fn`` returns or raises, called in a thread of the loop's own."""
    import asyncio

    return await asyncio.to_thread(fn, *args)
