"""The machine's clock."""

from __future__ import annotations

import asyncio
import time

from counterfoil.client.clock import SystemClock


def test_it_tells_milliseconds_since_1970():
    before = time.time()
    now = SystemClock().now_ms()
    assert int(before * 1000) <= now <= time.time() * 1000 + 1


def test_its_monotonic_time_passes_while_it_sleeps():
    clock = SystemClock()
    before = clock.monotonic()
    clock.sleep(0.002)
    asyncio.run(clock.asleep(0.002))
    assert clock.monotonic() - before >= 0.004
