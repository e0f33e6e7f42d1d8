"""Several workers that recover one ledger at the same time, each with a handle of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

WORKERS = (1, 3)


def recover_together(world, count):
    """Recover with so many workers at once; whoever finds a conversation claimed leaves it, so one more pass follows."""
    if count == 1:
        world.open().recover()
        return
    ready = Barrier(count)

    def work(ledger):
        ready.wait(30)
        ledger.recover()

    handles = [world.open() for _ in range(count)]
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, handle) for handle in handles]:
            done.result(60)
    handles[0].recover()
