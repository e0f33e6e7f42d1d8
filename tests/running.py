"""A small world for tests of runs: one ledger in memory, a clock moved by hand, and as many workers as wanted."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

from counterfoil.client.features import TABLES
from counterfoil.client.ids import UlidIds
from counterfoil.client.ledger import Ledger
from counterfoil.client.place import MEMORY, Parts, open_parts
from counterfoil.runtime.run import Run
from counterfoil.runtime.shutdown import WATCH
from counterfoil.testing.manual import ManualClock

LEASE_MS = 30_000


class World:
    """One store that several workers share, each with a handle of its own."""

    def __init__(self, parts: Parts | None = None, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.ids = UlidIds(self.clock.now_ms)
        self.parts = parts or open_parts(
            MEMORY, tables=TABLES, create=True, read_only=False, clock=self.clock, ids=self.ids
        )

    def worker(self, tenant: str = "default") -> Ledger:
        """A handle as another process would have it."""
        return Ledger(self.parts, tenant=tenant, content=None, clock=self.clock, ids=self.ids)

    def expire_leases(self) -> None:
        """As much time as it takes until nobody holds anything."""
        self.clock.advance(LEASE_MS + 1)


def vanish(run: Run, body: Callable[[Run], Any] = lambda run: None) -> str:
    """Enter the run, do something in it, and be gone without leaving the block, as after a SIGKILL; returns its id."""

    def live() -> str:
        run.__enter__()
        body(run)
        gone(run)
        return run.id

    return contextvars.copy_context().run(live)


def gone(run: Run) -> None:
    """The worker of an entered run is gone: nothing holds its lease any more, and no signal to its process ends it."""
    run._host.heartbeat.remove(run._scope)
    if run._watched:
        WATCH.end(run._task)


def types_of(ledger: Ledger, conversation: str) -> list[str]:
    """The event types of a conversation in order."""
    return [event.type for event in ledger.events(conversation)]


def facts(ledger: Ledger, conversation: str, event_type: str) -> list[dict[str, Any]]:
    """The public fields of every event of a type."""
    return [dict(event.data) for event in ledger.events(conversation, types=[event_type])]


class ScriptedModel:
    """A model that gives its answers one after the other and remembers what it was asked."""

    provider = "scripted"
    name = "scripted-1"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []

    def __call__(self, request: Any) -> Any:
        self.requests.append(request)
        answer = self.answers[len(self.requests) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer
