"""A provider outside the ledger, in this process: keeps its own book, and fails in the ways real ones do."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any, Final, Literal

from msgspec import Struct

from counterfoil.effects.doubt import Absent, CannotTell, Found
from counterfoil.errors import NotDone, Rejected

Fault = Literal["answer_lost", "unreached", "rejected", "not_done", "slow", "twice", "mute"]
"""What happens to one request.

``answer_lost``: it is carried out and the connection breaks before the answer. ``unreached``: it breaks before the
request arrives. ``rejected``: refused for good. ``not_done``: confirmed not done. ``slow``: carried out, and answered
only after :meth:`FakeProvider.answer_now`, or never after :meth:`FakeProvider.hang_up`. ``twice``: carried out two times, as by a provider that retries within itself and
deduplicates nothing. ``mute`` (lookups only): the question gets no answer.
"""

PATIENCE_S: Final = 30.0
"""Real seconds after which a slow answer that nobody lets go comes by itself, so that a test cannot hang."""


class Booking(Struct, frozen=True):
    """One thing that really happened outside."""

    number: int
    key: str
    what: tuple[tuple[str, Any], ...]


class FakeProvider:
    """Books what it is sent. With ``deduplicates`` a key it has seen gets the first answer again.

    ``requests`` holds the key of everything that arrived, in order; ``book`` what was carried out. Thread-safe.
    """

    def __init__(self, *, deduplicates: bool = True) -> None:
        self.deduplicates = deduplicates
        self.requests: list[str] = []
        self.book: list[Booking] = []
        self.lookups: int = 0
        self._plan: deque[Fault | None] = deque()
        self._lookup_plan: deque[Fault | None] = deque()
        self._lock = threading.Lock()
        self._answer = threading.Event()
        self._hung_up = False
        self._slow = threading.Semaphore(0)

    def plan(self, *faults: Fault | None) -> None:
        """What becomes of the next requests, one each; None is no fault, and so is everything after the plan."""
        self._plan.extend(faults)

    def plan_lookups(self, *faults: Fault | None) -> None:
        """What becomes of the next lookups: None, ``unreached`` or ``mute``."""
        self._lookup_plan.extend(faults)

    def answer_now(self) -> None:
        """Let slow answers go, those under way and those to come."""
        self._answer.set()

    def hang_up(self) -> None:
        """Break the connections of slow answers, those under way and those to come: nobody is told anything any more."""
        self._hung_up = True
        self._answer.set()

    def wait_for_slow(self, count: int = 1) -> None:
        """Return when so many slow requests have been carried out and wait to be answered."""
        for _ in range(count):
            if not self._slow.acquire(timeout=PATIENCE_S):
                raise TimeoutError("no slow request arrived")

    # ---- the service ----

    def send(self, *, idempotency_key: str, **what: Any) -> dict[str, Any]:
        """Carry a request out. Returns ``{"id", "key", …}``, or fails as planned."""
        fault, answer = self._carry_out(idempotency_key, what)
        if fault == "slow":
            self._slow.release()
            self._wait()
        return answer

    async def asend(self, *, idempotency_key: str, **what: Any) -> dict[str, Any]:
        """As :meth:`send`, for async tools."""
        fault, answer = self._carry_out(idempotency_key, what)
        await asyncio.sleep(0)
        if fault == "slow":
            self._slow.release()
            await asyncio.to_thread(self._wait)
        return answer

    def find(self, *, idempotency_key: str, **_: Any) -> Found | Absent | CannotTell:
        """Whether something was carried out under this key; a lookup for ``by_lookup``."""
        with self._lock:
            self.lookups += 1
            fault = self._lookup_plan.popleft() if self._lookup_plan else None
            booked = next((entry for entry in self.book if entry.key == idempotency_key), None)
        if fault == "unreached":
            raise ConnectionError("the lookup broke before it arrived")
        if fault == "mute":
            return CannotTell("still working on it")
        return Absent() if booked is None else Found("succeeded", _receipt(booked))

    async def afind(self, *, idempotency_key: str, **what: Any) -> Found | Absent | CannotTell:
        """As :meth:`find`, for async tools."""
        await asyncio.sleep(0)
        return self.find(idempotency_key=idempotency_key, **what)

    # ---- the book ----

    def reset(self, *faults: Fault | None) -> None:
        """Forget everything that happened and was planned, and plan these faults: a new provider for the next test."""
        with self._lock:
            for kept in (self.requests, self.book, self._plan, self._lookup_plan):
                kept.clear()
            self.lookups, self._hung_up = 0, False
            self._answer.clear()
            self._plan.extend(faults)

    def booked(self, key: str | None = None) -> int:
        """How often something happened, under this key or in all."""
        return sum(key is None or entry.key == key for entry in self.book)

    def _wait(self) -> None:
        self._answer.wait(PATIENCE_S)
        if self._hung_up:
            raise ConnectionResetError("the connection broke before the answer came")

    def _carry_out(self, key: str, what: dict[str, Any]) -> tuple[Fault | None, dict[str, Any]]:
        with self._lock:
            fault = self._plan.popleft() if self._plan else None
            if fault == "unreached":
                raise ConnectionError("the connection broke before the request arrived")
            self.requests.append(key)
            if fault == "rejected":
                raise Rejected("the provider refuses this for good", reason="limit")
            if fault == "not_done":
                raise NotDone("the provider confirms that nothing was done")
            booked = (
                next((entry for entry in self.book if entry.key == key), None) if self.deduplicates else None
            )
            if booked is None:
                booked = Booking(len(self.book) + 1, key, tuple(sorted(what.items())))
                self.book.append(booked)
            if fault == "twice":
                self.book.append(Booking(len(self.book) + 1, key, booked.what))
        if fault == "answer_lost":
            raise ConnectionResetError("the connection broke before the answer came")
        return fault, _receipt(booked)


def _receipt(booked: Booking) -> dict[str, Any]:
    return {"id": f"re_{booked.number}", "key": booked.key, **dict(booked.what)}
