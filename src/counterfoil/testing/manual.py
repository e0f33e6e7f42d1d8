"""A clock moved by hand and ids that count: time and chance for tests that must give the same bytes twice."""

from __future__ import annotations

import asyncio
import hashlib
import threading

from counterfoil.core.ids import RANDOM_BITS, make_id

START_MS = 1_788_273_068_412
"""2026-09-01T14:31:08.412Z, where a manual clock begins unless told otherwise."""

WAIT_REAL_S_MAX = 30.0
"""A sleeper on a held clock that nobody advances fails after this many real seconds instead of hanging."""


class ManualClock:
    """A ``Clock`` that moves only when told, or, unless ``held``, by exactly what somebody sleeps.

    With ``held=True`` a sleeper blocks until another thread or task has advanced the clock far enough.
    """

    def __init__(self, start_ms: int = START_MS, *, held: bool = False) -> None:
        self._wall_ms = start_ms
        self._elapsed_ms = 0
        self._held = held
        self._moved = threading.Condition()
        self._sleepers = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z."""
        return self._wall_ms

    def monotonic(self) -> float:
        """Seconds since the clock was made; setting the wall clock back does not touch them."""
        return self._elapsed_ms / 1000

    def advance(self, milliseconds: int) -> None:
        """Move wall clock and monotonic clock forward and wake whoever slept long enough."""
        if milliseconds < 0:
            raise ValueError("time passes forwards; use set_wall for a clock that was set back")
        with self._moved:
            self._wall_ms += milliseconds
            self._elapsed_ms += milliseconds
            self._moved.notify_all()

    def set_wall(self, now_ms: int) -> None:
        """Set the wall clock, backwards too, as an administrator or NTP does; no time passes."""
        with self._moved:
            self._wall_ms = now_ms

    def sleep(self, seconds: float) -> None:
        """Pass ``seconds``: at once, or on a held clock when somebody else has advanced it."""
        milliseconds = max(0, round(seconds * 1000))
        if not self._held:
            self.advance(milliseconds)
            return
        with self._moved:
            until = self._elapsed_ms + milliseconds
            self._sleepers += 1
            self._moved.notify_all()
            try:
                if not self._moved.wait_for(lambda: self._elapsed_ms >= until, timeout=WAIT_REAL_S_MAX):
                    raise TimeoutError(f"nobody advanced the manual clock by {milliseconds} ms")
            finally:
                self._sleepers -= 1

    async def asleep(self, seconds: float) -> None:
        """As :meth:`sleep`, without holding the event loop."""
        if not self._held:
            self.sleep(seconds)
            await asyncio.sleep(0)
            return
        await asyncio.to_thread(self.sleep, seconds)

    def wait_for_sleepers(self, count: int = 1) -> None:
        """Return when at least ``count`` threads sleep on this held clock: the signal to advance it."""
        with self._moved:
            if not self._moved.wait_for(lambda: self._sleepers >= count, timeout=WAIT_REAL_S_MAX):
                raise TimeoutError(f"{self._sleepers} threads sleep on the manual clock, not {count}")


class SequentialIds:
    """An ``Ids`` that counts: the same seed mints the same ids, each greater than the one before.

    Ids of different seeds do not meet. The time in them is ``time_ms`` and stands still.
    """

    def __init__(self, seed: int | str = 0, *, time_ms: int = START_MS) -> None:
        digest = hashlib.sha256(f"counterfoil sequential ids {seed}".encode()).digest()
        # The upper half tells seeds apart, the lower half counts.
        self._next = int.from_bytes(digest[:5], "big") << RANDOM_BITS // 2
        self._time_ms = time_ms
        self._lock = threading.Lock()

    def new(self, prefix: str) -> str:
        """The next id with this prefix."""
        with self._lock:
            self._next += 1
            return make_id(prefix, self._time_ms, self._next)
