"""Clock and id generator as the rest of the library sees them."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall time and waiting, injected so that tests move time by hand."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; for deadlines only."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread for ``seconds``."""
        ...

    async def asleep(self, seconds: float) -> None:
        """Suspend this task for ``seconds``."""
        ...


class Ids(Protocol):
    """Mints the identifiers of FORMAT 1; inside a process they never go backwards."""

    def new(self, prefix: str) -> str:
        """A new id such as ``evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE``."""
        ...
