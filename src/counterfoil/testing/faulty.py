"""FaultyStore: any store with faults put in at chosen calls, to test what callers do when storage fails."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TypeVar

from msgspec import Struct, field

from counterfoil.abc.time import Clock
from counterfoil.errors import AppendTimeout, CounterfoilError, StoreError, StoreIO
from counterfoil.store.contract import Reader, Store
from counterfoil.store.loading import LoadItem, UnitOf
from counterfoil.store.rows import Key, Row, RowChange
from counterfoil.store.standing import Standing
from counterfoil.store.unit import (
    Capabilities,
    Checkpoint,
    Claimed,
    FeedPage,
    Head,
    Lease,
    Outcome,
    Receipt,
    Refusal,
    StoredEvent,
    StoredStream,
    Stray,
    Unit,
)

HOLD_S_MAX = 30.0
"""Real seconds after which a held call fails instead of hanging the test."""

Result = TypeVar("Result")


def _io_error() -> StoreError:
    return StoreIO("an input/output error put in by the test; nothing was recorded")


def _lost_answer() -> StoreError:
    return AppendTimeout("an answer lost by the test; the call itself went through")


class Fail(Struct, frozen=True):
    """The call fails and nothing is persisted."""

    error: Callable[[], CounterfoilError] = _io_error


class FailAfter(Struct, frozen=True):
    """The call goes through, is persisted, and then fails: the answer is lost."""

    error: Callable[[], CounterfoilError] = _lost_answer


class Refuse(Struct, frozen=True):
    """An append whose units are refused with this error: the one numbered ``unit``, from 0, or all of them."""

    error: Callable[[], CounterfoilError]
    unit: int | None = None


class Delay(Struct, frozen=True):
    """The call goes through after this many seconds on ``clock``."""

    clock: Clock
    seconds: float


class Hold(Struct, frozen=True):
    """The call goes through when ``gate`` opens; ``reached`` tells the test that the call is waiting."""

    gate: threading.Event = field(default_factory=threading.Event)
    reached: threading.Event = field(default_factory=threading.Event)


Fault = Fail | FailAfter | Refuse | Delay | Hold


class Faults:
    """Which calls of a :class:`FaultyStore` go wrong. Calls are counted for each method, from 1. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: dict[tuple[str, int], Fault] = {}
        self._storms: dict[str, tuple[random.Random, float, Sequence[Fault]]] = {}
        self._counts: dict[str, int] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each method has been called."""
        with self._lock:
            return dict(self._counts)

    def at(self, method: str, call: int, fault: Fault) -> None:
        """Put a fault at the ``call``-th call of ``method``, counted from the beginning."""
        with self._lock:
            self._planned[method, call] = fault

    def next(self, method: str, fault: Fault) -> None:
        """Put a fault at the next call of ``method``."""
        self.at(method, self.counts.get(method, 0) + 1, fault)

    def storm(self, method: str, share: float, faults: Sequence[Fault], seed: int = 0) -> None:
        """Let a ``share`` of all calls of ``method``, chosen by the seed, meet one of these faults."""
        with self._lock:
            self._storms[method] = (random.Random(seed), share, tuple(faults))  # noqa: S311 - a repeatable test, no secret

    def calm(self) -> None:
        """Take every fault back."""
        with self._lock:
            self._planned.clear()
            self._storms.clear()

    def meet(self, method: str) -> Fault | None:
        """Count a call, and say what it meets."""
        with self._lock:
            count = self._counts[method] = self._counts.get(method, 0) + 1
            planned = self._planned.pop((method, count), None)
            if planned is not None or method not in self._storms:
                return planned
            chance, share, faults = self._storms[method]
            return chance.choice(faults) if chance.random() < share else None


class FaultyStore:
    """A ``Store`` around another one whose calls go wrong as ``faults`` says; without faults it changes nothing.

    Every method but ``capabilities``, ``ledger_id`` and ``now_ms`` can meet a fault. A snapshot's own reads do not.
    """

    def __init__(self, inner: Store, faults: Faults | None = None) -> None:
        self.inner = inner
        self.faults: Faults = Faults() if faults is None else faults

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store within."""
        return self.inner.capabilities

    @property
    def ledger_id(self) -> str:
        """That of the store within."""
        return self.inner.ledger_id

    def now_ms(self) -> int:
        """The clock of the store within."""
        return self.inner.now_ms()

    # ---- writing ----

    def append(self, units: Sequence[Unit]) -> Future[list[Outcome]]:
        """See ``Store.append``; a fault is the future's, as a real store's would be."""
        fault = self.faults.meet("append")
        match fault:
            case Fail(error):
                return _failed(error())
            case Refuse(error, None):
                return _resolved([Refusal(error()) for _ in units])
            case Refuse(error, int(number)) if number < len(units):
                return self._append_without(units, number, error())
            case FailAfter(error):
                return _then(self.inner.append(units), lambda _: error())
            case _:
                _wait(fault)
                return self.inner.append(units)

    def claim(
        self, stream_id: str, owner: str, ttl_ms: int, expect_token: int, unit: Unit | None = None
    ) -> Claimed:
        """See ``Store.claim``."""
        return self._through("claim", lambda: self.inner.claim(stream_id, owner, ttl_ms, expect_token, unit))

    def renew(self, lease: Lease, ttl_ms: int) -> Lease:
        """See ``Store.renew``."""
        return self._through("renew", lambda: self.inner.renew(lease, ttl_ms))

    def release(self, lease: Lease) -> None:
        """See ``Store.release``."""
        self._through("release", lambda: self.inner.release(lease))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """See ``Store.save_checkpoint``."""
        self._through("save_checkpoint", lambda: self.inner.save_checkpoint(checkpoint))

    def rebuild_rows(self, stream_id: str | None, changes: Iterable[RowChange]) -> None:
        """See ``Store.rebuild_rows``."""
        self._through("rebuild_rows", lambda: self.inner.rebuild_rows(stream_id, changes))

    def load(self, items: Iterable[LoadItem], unit: UnitOf | None = None) -> Receipt | None:
        """See ``Store.load``."""
        return self._through("load", lambda: self.inner.load(items, unit))

    def standing(self) -> Standing:
        """See ``Store.standing``."""
        return self._through("standing", self.inner.standing)

    def stand(self, standing: Standing, unit: Unit | None = None) -> Receipt | None:
        """See ``Store.stand``."""
        return self._through("stand", lambda: self.inner.stand(standing, unit))

    def despite(self, standing: Standing) -> None:
        """See ``Store.despite``."""
        self.inner.despite(standing)

    def close(self) -> None:
        """See ``Store.close``."""
        self._through("close", self.inner.close)

    # ---- reading ----

    def head(self, stream_id: str) -> Head | None:
        """See ``Reader.head``."""
        return self._through("head", lambda: self.inner.head(stream_id))

    def stream(self, stream_id: str) -> StoredStream | None:
        """See ``Reader.stream``."""
        return self._through("stream", lambda: self.inner.stream(stream_id))

    def streams(self, tenant: str | None = None, after: str = "", limit: int = 100) -> list[StoredStream]:
        """See ``Reader.streams``."""
        return self._through("streams", lambda: self.inner.streams(tenant, after, limit))

    def read(
        self,
        stream_id: str,
        after: int = 0,
        limit: int = 500,
        types: frozenset[str] | None = None,
        run_id: str | None = None,
        content: bool = True,
        headers: bool = True,
    ) -> list[StoredEvent]:
        """See ``Reader.read``."""
        return self._through(
            "read", lambda: self.inner.read(stream_id, after, limit, types, run_id, content, headers)
        )

    def find(self, stream_id: str, event_ids: Sequence[str]) -> list[StoredEvent]:
        """See ``Reader.find``."""
        return self._through("find", lambda: self.inner.find(stream_id, event_ids))

    def get(self, table: str, key: Key) -> Row | None:
        """See ``Reader.get``."""
        return self._through("get", lambda: self.inner.get(table, key))

    def select(
        self,
        table: str,
        index: str | None = None,
        prefix: Key = (),
        after: Key | None = None,
        limit: int = 100,
        descending: bool = False,
    ) -> list[Row]:
        """See ``Reader.select``."""
        return self._through(
            "select", lambda: self.inner.select(table, index, prefix, after, limit, descending)
        )

    def count(self, table: str, index: str, prefix: Key, most: int) -> int:
        """See ``Reader.count``."""
        return self._through("count", lambda: self.inner.count(table, index, prefix, most))

    def feed(self, cursor: bytes = b"", limit: int = 500) -> FeedPage:
        """See ``Reader.feed``."""
        return self._through("feed", lambda: self.inner.feed(cursor, limit))

    def recent(self, limit: int = 20) -> FeedPage:
        """See ``Reader.recent``."""
        return self._through("recent", lambda: self.inner.recent(limit))

    def checkpoint(self, stream_id: str, projection: str, version: int) -> Checkpoint | None:
        """See ``Reader.checkpoint``."""
        return self._through("checkpoint", lambda: self.inner.checkpoint(stream_id, projection, version))

    def strays(self, limit: int = 100) -> list[Stray]:
        """See ``Reader.strays``."""
        return self._through("strays", lambda: self.inner.strays(limit))

    def snapshot(self) -> AbstractContextManager[Reader]:
        """See ``Store.snapshot``."""
        return self._through("snapshot", self.inner.snapshot)

    # ---- faults ----

    def _through(self, method: str, call: Callable[[], Result]) -> Result:
        fault = self.faults.meet(method)
        match fault:
            case Fail(error) | Refuse(error):
                raise error()
            case FailAfter(error):
                call()
                raise error()
            case _:
                _wait(fault)
                return call()

    def _append_without(
        self, units: Sequence[Unit], number: int, error: CounterfoilError
    ) -> Future[list[Outcome]]:
        def with_refusal(outcomes: list[Outcome]) -> list[Outcome]:
            return [*outcomes[:number], Refusal(error), *outcomes[number:]]

        return _then(self.inner.append([*units[:number], *units[number + 1 :]]), with_refusal)


def _wait(fault: Fault | None) -> None:
    match fault:
        case Delay(clock, seconds):
            clock.sleep(seconds)
        case Hold(gate, reached):
            reached.set()
            if not gate.wait(HOLD_S_MAX):
                raise TimeoutError("the test never opened the gate of a held call")
        case _:
            pass


def _resolved(outcomes: list[Outcome]) -> Future[list[Outcome]]:
    future: Future[list[Outcome]] = Future()
    future.set_result(outcomes)
    return future


def _failed(error: CounterfoilError) -> Future[list[Outcome]]:
    future: Future[list[Outcome]] = Future()
    future.set_exception(error)
    return future


def _then(
    inner: Future[list[Outcome]], change: Callable[[list[Outcome]], list[Outcome] | CounterfoilError]
) -> Future[list[Outcome]]:
    """A future that is answered when ``inner`` is, by what ``change`` makes of the outcomes."""
    outer: Future[list[Outcome]] = Future()
    outer.set_running_or_notify_cancel()

    def answer(done: Future[list[Outcome]]) -> None:
        error = done.exception()
        answered = change(done.result()) if error is None else error
        if isinstance(answered, BaseException):
            outer.set_exception(answered)
        else:
            outer.set_result(answered)

    inner.add_done_callback(answer)
    return outer
