"""The database's clock as seen from here: an offset to this machine's monotonic clock, measured again now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from counterfoil.adapters.postgres.connect import BoundedConnection, fetch

NOW: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8"
FRESH_S: Final = 60.0
"""How long a measurement is good: clocks of machines drift by milliseconds in that time."""


class DatabaseClock:
    """Dates events and leases. ``injected`` is a clock given by the caller, which is then the store's clock."""

    def __init__(self, injected: Callable[[], int] | None = None) -> None:
        self.injected = injected
        self._offset_ms = time.time() * 1000 - time.monotonic() * 1000
        self._measured_at = float("-inf")

    def now_ms(self) -> int:
        """Milliseconds since the epoch on the store's clock; never waits for the database."""
        if self.injected is not None:
            return self.injected()
        return int(time.monotonic() * 1000 + self._offset_ms)

    @property
    def stale(self) -> bool:
        """Whether the last measurement has grown old."""
        return self.injected is None and time.monotonic() - self._measured_at > FRESH_S

    def measure(self, connection: BoundedConnection) -> None:
        """Compare the clocks by one question; the answer is taken for the middle of its way."""
        if self.injected is not None:
            return
        before = time.monotonic()
        ((there_ms,),) = fetch(connection, NOW)
        after = time.monotonic()
        self._offset_ms = there_ms - (before + after) * 500
        self._measured_at = after
