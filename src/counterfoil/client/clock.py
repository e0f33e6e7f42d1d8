"""The system's clock, for everyone who was not given another."""

from __future__ import annotations

import time


class SystemClock:
    """A ``Clock`` that tells the machine's own time."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z, cut down."""
        return time.time_ns() // 1_000_000

    monotonic: staticmethod[[], float] = staticmethod(time.monotonic)
    """Seconds on a clock that never goes back; for deadlines only."""

    def sleep(self, seconds: float) -> None:
        """Block this thread for ``seconds``."""
        time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Suspend this task for ``seconds``."""
        import asyncio

        await asyncio.sleep(seconds)
