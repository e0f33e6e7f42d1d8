"""One daemon thread per ledger handle that keeps the leases of all its open runs (DESIGN 6)."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final

from counterfoil.errors import CounterfoilError, LeaseLost
from counterfoil.flow.context import LEASE_RENEW_MS, LEASE_TTL_MS, RunScope

KEPT_MS = LEASE_TTL_MS - LEASE_RENEW_MS + 1
"""What is left of a lease after a beat, at least: each beat of a regular heart renews, to the whole length."""


class Heartbeat:
    """Renews the leases of the scopes that were added, every 10 s, without events.

    A lease that was taken over parks its run with ``LeaseLost``; a store that cannot be reached is tried again at
    the next beat. The thread starts with the first run and ends when there is none.
    """

    def __init__(self, interval_s: float = LEASE_RENEW_MS / 1000) -> None:
        self._interval_s = interval_s
        self._scopes: set[RunScope] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        _open.add(self)

    def add(self, scope: RunScope) -> None:
        """Keep this run's lease from now on."""
        with self._changed:
            self._scopes.add(scope)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="counterfoil-heartbeat", daemon=True)
                self._thread.start()

    def remove(self, scope: RunScope) -> None:
        """Stop keeping it."""
        with self._changed:
            self._scopes.discard(scope)
            if not self._scopes:
                self._changed.notify_all()

    def cancel(self, run_id: str) -> None:
        """A run of this handle was cancelled on record: it need not wait until it notices."""
        with self._changed:
            scopes = [scope for scope in self._scopes if scope.run_id == run_id]
        for scope in scopes:
            scope.cancel()

    def stop(self) -> None:
        """Keep no lease any more: the handle is closed."""
        with self._changed:
            self._scopes.clear()
            self._changed.notify_all()

    def beat(self) -> None:
        """Renew every lease once."""
        with self._changed:
            scopes = list(self._scopes)
        for scope in scopes:
            try:
                scope.hold_lease(scope.ports.now_ms() + KEPT_MS)
            except LeaseLost:
                self.remove(scope)
            except CounterfoilError:
                # The store is busy or gone: the next beat tries again, and nothing is lost before the lease expires.
                continue
            except BaseException:  # noqa: BLE001 - the scope was parked for another reason; its own code is told
                self.remove(scope)

    def inherited(self) -> None:
        """In the child of a fork: the runs stay the parent's, whose thread may have held the lock just then."""
        self._changed = threading.Condition()
        self._thread = None
        for scope in self._scopes:
            scope.inherited()
        self._scopes = set()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._scopes, self._interval_s)
                if not self._scopes:
                    self._thread = None
                    return
            self.beat()


_open: Final[weakref.WeakSet[Heartbeat]] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for heartbeat in list(_open):
        heartbeat.inherited()


os.register_at_fork(after_in_child=_after_fork_in_child)
