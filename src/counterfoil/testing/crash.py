"""The derived crash matrix: any agent code stopped before and after every request of its flows, then recovered.

One yield of a flow is one crash boundary (DESIGN 5), so the points need not be written down: a first, undisturbed
pass counts the requests, and each later pass dies at one of them. ``before``: the request was never carried out.
``after``: it was, and its answer was lost. Then a new worker with its own handle recovers and runs the same code
again, and the scenario looks at the ledger and at the world outside::

    class Refunds(crash.Scenario):
        def prepare(self, world):
            self.provider = FakeProvider()
            declare_tools(self.provider)

        def work(self, ledger):
            with ledger.run("refund-agent", conversation="case", message="please", dedupe="m1"):
                refund(order="O-1042", line=1)

        def check(self, world, ledger):
            assert self.provider.booked() <= 1

    crash.run_matrix(Refunds)

``work`` may be ``async def``. A scenario about recovery leaves its doubt in ``prepare``, with :func:`live` and a
:class:`LifeUntil`, and calls ``ledger.recover()`` in ``work``.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.effects.registry import own_tools
from counterfoil.errors import RunWaiting
from counterfoil.flow.drive import watched
from counterfoil.flow.requests import Append, Call, Request, Wait
from counterfoil.testing.manual import ManualClock, SequentialIds
from counterfoil.testing.truth import check_truth

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger
    from counterfoil.client.place import Parts
    from counterfoil.store.contract import Store
    from counterfoil.store.unit import Outcome, Unit

A_LONG_TIME_MS: Final = 3_600_000
"""How far the clock moves between a worker's death and the next one: every lease and deadline has passed."""

ORDERS_MAX: Final = 20
"""How often a scenario is begun anew because its tasks and threads took other turns and did not reach the point. A point
of turns that are never taken again is not in the matrix."""

ROUNDS_MAX: Final = 4
"""How often a scenario is recovered and run again before its end is judged."""

When = Literal["before", "after"]
ScenarioType = TypeVar("ScenarioType", bound="Scenario")


class Crash(BaseException):
    """The process died here. Everything the dead worker still tries raises it again, so nothing can catch it."""


class CrashPoint(Struct, frozen=True):
    """Where a worker dies: before or after its ``number``-th request (counted from 1); ``what`` names the request."""

    number: int
    when: When
    what: str = ""

    def __str__(self) -> str:
        return f"{self.when} request {self.number} ({self.what})"


class Life:
    """One worker's life: counts the requests of its flows, and ends at the given point."""

    def __init__(self, end: CrashPoint | None = None) -> None:
        self.end = end
        self.alive: bool = True
        self.requests: list[str] = []
        # Requests under way, by identity: flows nest and run side by side, so the last one begun is not the one ended.
        self._numbers: dict[int, int] = {}
        self._lock = threading.Lock()

    def before(self, request: Request) -> None:
        """See ``flow.drive.Watcher``."""
        self.check()
        if _is_poll(request):
            return
        with self._lock:
            self.requests.append(name_of(request))
            here = CrashPoint(len(self.requests), "before", self.requests[-1])
            self._numbers[id(request)] = here.number
        self._die_at(here)

    def after(self, request: Request) -> None:
        """See ``flow.drive.Watcher``."""
        self.check()
        if _is_poll(request):
            return
        with self._lock:
            number = self._numbers.pop(id(request))
        self._die_at(CrashPoint(number, "after", name_of(request)))

    def check(self) -> None:
        """Raise :class:`Crash` when this worker is dead."""
        if not self.alive:
            raise Crash(f"this worker died {self.end}")

    def ends_at(self, here: CrashPoint) -> bool:
        """Whether this is where it ends."""
        return self.end is not None and (self.end.number, self.end.when) == (here.number, here.when)

    def end_now(self, what: str) -> NoReturn:
        """Die between two requests."""
        with self._lock:
            if self.alive:
                self.end, self.alive = CrashPoint(len(self.requests), "after", what), False
        raise Crash(f"this worker died {self.end}")

    def _die_at(self, here: CrashPoint) -> None:
        if self.ends_at(here):
            self.end, self.alive = here, False
            self.check()


_living: Final[ContextVar[Life | None]] = ContextVar("counterfoil_life", default=None)
"""The life of the worker whose code this is; a tool's thread has it too."""


class LifeUntil(Life):
    """A life that ends at the first request whose name begins with ``what``: ``call payment.refund``."""

    def __init__(self, what: str, when: When = "after") -> None:
        super().__init__()
        self._what = what
        self._when = when

    def ends_at(self, here: CrashPoint) -> bool:
        """See :class:`Life`."""
        return here.when == self._when and here.what.startswith(self._what)


def _is_poll(request: Request) -> bool:
    # Where it happens, and how often, differs from pass to pass; the requests before and after it are boundaries.
    return isinstance(request, Wait) and request.polling


def name_of(request: Request) -> str:
    """A request in words: what an append records, what is called."""
    match request:
        case Append(unit, claim):
            types = [draft.event_type for entry in unit.entries for draft in entry.drafts]
            return f"append {', '.join(types)}{' with a claim' if claim is not None else ''}"
        case Call(name):
            return f"call {name}"
        case _:
            return type(request).__name__.lower()


class MortalStore:
    """A store handle that dies with its worker: what a dead worker still tries never reaches the store."""

    def __init__(self, store: Store, life: Life) -> None:
        self._store = store
        self._life = life

    def __getattr__(self, name: str) -> Any:
        self._life.check()
        return getattr(self._store, name)

    def append(self, units: Sequence[Unit]) -> Future[list[Outcome]]:
        """See ``Store.append``; a dead worker's future holds its crash, since it may be awaited anywhere."""
        if self._life.alive:
            return self._store.append(units)
        dead: Future[list[Outcome]] = Future()
        dead.set_exception(Crash("this worker is dead"))
        return dead

    def close(self) -> None:
        """Nothing: the store outlives its workers."""


class World:
    """A ledger that several workers live and die on, with a clock moved by hand.

    ``directory`` None keeps it in memory; otherwise it lies there, in a directory or at the address of a server, and
    every worker opens it anew.
    """

    def __init__(self, directory: Path | str | None = None) -> None:
        from counterfoil.client.features import TABLES
        from counterfoil.client.place import MEMORY, open_parts

        self.clock: ManualClock = ManualClock()
        self.ids: SequentialIds = SequentialIds()
        self._open_parts: Callable[[], Parts] = partial(
            open_parts,
            directory or MEMORY,
            tables=TABLES,
            create=True,
            read_only=False,
            clock=self.clock,
            ids=self.ids,
        )
        self._shared = self._open_parts() if directory is None else None
        self._opened: list[Parts] = []

    def open(self, life: Life | None = None) -> Ledger:
        """A worker's own handle on the ledger."""
        from counterfoil.client.ledger import Ledger

        parts = self._shared
        if parts is None:
            parts = self._open_parts()
            self._opened.append(parts)
        mortal = cast("Store", MortalStore(parts.store, life or Life()))
        return Ledger(
            replace(parts, store=mortal), tenant="default", content=None, clock=self.clock, ids=self.ids
        )

    def dies(self, work: Callable[[Ledger], Any]) -> bool:
        """One worker's life: ``work(ledger)``, until it ends, waits, or dies at :func:`crash_here`; whether it died.

        ``work`` may be a coroutine function. Any other error is raised.
        """
        life = Life()
        live(self, life, work)
        return not life.alive

    def time_passes(self) -> None:
        """Every lease and every deadline passes."""
        self.clock.advance(A_LONG_TIME_MS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all handles."""
        for parts in self._opened:
            parts.store.close()
            parts.key_store.close()


class Scenario(ABC):
    """Code to be stopped at every point, and what must hold whatever happened. A fresh one is made for each point."""

    @abstractmethod
    def prepare(self, world: World) -> None:
        """Set up the world outside, declare tools, and leave in the ledger what the work starts from."""

    @abstractmethod
    def work(self, ledger: Ledger) -> Any:
        """What is stopped at every point; may be a coroutine function. Run again afterwards, so it must resume."""

    def recover(self, ledger: Ledger) -> None:
        """What the next worker does before it runs the work again."""
        ledger.recover()

    @abstractmethod
    def check(self, world: World, ledger: Ledger) -> None:
        """Assert what must be true outside and in the ledger after recovery, wherever the worker died."""


class Matrix(Struct, frozen=True):
    """The points that were tried; each passed, since the first that does not raises."""

    points: tuple[CrashPoint, ...]

    def __len__(self) -> int:
        return len(self.points)


def run_matrix(
    make: Callable[[], Scenario],
    *,
    directory: Path | str | None = None,
    worlds: Callable[[], World] | None = None,
    choose: Callable[[list[CrashPoint]], list[CrashPoint]] = list,
) -> Matrix:
    """Stop a scenario before and after every request, recover, and check; returns the points.

    ``directory`` (a fresh one) tries it on SQLite, or on PostgreSQL when it is an address that ends with the name of a
    schema, which each point's own name is added to. ``worlds`` makes an empty world for each point in its place.
    ``choose`` picks some of the points where all would take long. An assertion that fails is raised with a note that
    names the point.
    """
    seen = points_of(make, _place(directory, "count"), worlds)
    reached: list[CrashPoint] = []
    for number, point in enumerate(choose(seen)):
        places = (f"point-{number}", *(f"point-{number}-{again}" for again in range(1, ORDERS_MAX)))
        make_worlds = [worlds or partial(World, _place(directory, name)) for name in places]
        try:
            if any(_reaches(make(), point, make_world, seen) for make_world in make_worlds):
                reached.append(point)
        except BaseException as failure:
            failure.add_note(f"the worker had died {point}")
            raise
    return Matrix(tuple(reached))


def points_of(
    make: Callable[[], Scenario],
    directory: Path | str | None = None,
    worlds: Callable[[], World] | None = None,
) -> list[CrashPoint]:
    """Every point at which the scenario's work can be stopped, from an undisturbed pass that must end well itself."""
    scenario = make()
    with _world(worlds or partial(World, directory)) as world:
        scenario.prepare(world)
        life = Life()
        live(world, life, scenario.work)
        _finish(scenario, world)
    whens: tuple[When, ...] = ("before", "after")
    return [CrashPoint(number, when, what) for number, what in enumerate(life.requests, 1) for when in whens]


def _reaches(
    scenario: Scenario, point: CrashPoint, make_world: Callable[[], World], seen: Sequence[CrashPoint]
) -> bool:
    """Try one point. False if it was not reached because what runs side by side took other turns than were ``seen``."""
    with _world(make_world) as world:
        scenario.prepare(world)
        life = Life(point)
        live(world, life, scenario.work)
        if life.alive:
            same = point not in seen or life.requests == [other.what for other in seen[::2]]
            assert not same, f"the work ended without reaching {point}"
            return False
        _finish(scenario, world)
        return True


def live(world: World, life: Life, work: Callable[[Ledger], Any]) -> None:
    """One worker's life: its own handle, the work until it ends, waits, or dies. Any other error is raised."""
    ledger = world.open(life)
    token = _living.set(life)
    with watched(life):
        try:
            _carry(work(ledger))
        except RunWaiting:
            pass
        except BaseException as error:
            if life.alive or not _is_crash(error):
                raise
        finally:
            _living.reset(token)


def crash_here(what: str = "crash_here") -> None:
    """The process dies here, for a tool of one's own: in :meth:`World.dies` and :func:`crash_everywhere`.

    Everywhere else it does nothing, so the workers that come after pass by::

        def refund(order: str, *, idempotency_key: str = "") -> dict:
            receipt = bank.send(idempotency_key=idempotency_key, order=order)
            crash_here()  # the money has moved, and nobody here will ever be told
            return receipt
    """
    life = _living.get()
    if life is not None:
        life.end_now(what)


def _finish(scenario: Scenario, world: World) -> None:
    """The next workers: time has passed, what is in doubt is recovered, the same code goes on; then the check."""
    for _ in range(ROUNDS_MAX):
        world.time_passes()
        ledger = world.open()
        scenario.recover(ledger)
        try:
            _carry(scenario.work(ledger))
        except RunWaiting:
            continue
        break
    ledger = world.open()
    check_truth(ledger)
    scenario.check(world, ledger)


def _carry(work: Any) -> None:
    if inspect.iscoroutine(work):
        asyncio.run(work)


def _is_crash(error: BaseException | None) -> bool:
    """Whether an exception is the worker's death, also inside a group or behind what a framework made of it."""
    while error is not None:
        if isinstance(error, Crash):
            return True
        if isinstance(error, BaseExceptionGroup) and any(map(_is_crash, error.exceptions)):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def _world(make: Callable[[], World]) -> Iterator[World]:
    with own_tools():
        world = make()
        try:
            yield world
        finally:
            world.close()


def _place(directory: Path | str | None, name: str) -> Path | str | None:
    if isinstance(directory, str):
        return f"{directory}_{name.replace('-', '_')}"
    return None if directory is None else directory / name
