"""The slots of a conversation as the code of a run reads and sets them: ``run.state``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from counterfoil.core.values import from_json
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow, HeadOf, Read
from counterfoil.runtime.slots.book import Book, look_at, names_seen
from counterfoil.runtime.slots.change import clear_flow, set_flow
from counterfoil.runtime.spec import check_text
from counterfoil.runtime.step import step_flow
from counterfoil.store.unit import Head

T = TypeVar("T")

REFRESH: Final = "counterfoil.state"
"""Name of the memoised step in which a run looks again at what others set."""


class State:
    """Named values that belong to the conversation and outlive its runs; each change is an event with a version.

    A run sees them as they were when it began, and what it set itself since; :meth:`refresh` looks again. Values need a
    JSON form, and come back as what they were. A name that is no label stands in the open as a keyed digest.

    >>> ledger = counterfoil.open(":memory:")
    >>> with ledger.run("agent", conversation="case-8472") as run:
    ...     run.state["plan"] = ["look up the order", "refund it"]
    >>> with ledger.run("agent", conversation="case-8472") as run:
    ...     run.state["plan"], run.state.version("plan"), run.state.get("mood", "calm")
    (['look up the order', 'refund it'], 1, 'calm')
    >>> ledger.close()
    """

    def __init__(
        self,
        scope: Callable[[], RunScope],
        drive: Callable[[Flow[Any]], Any],
        adrive: Callable[[Flow[Any]], Coroutine[Any, Any, Any]],
    ) -> None:
        self._scope = scope
        self._drive = drive
        self._adrive = adrive

    # ---- as a mapping ----

    def __getitem__(self, name: str) -> Any:
        found = self.get(name, _MISSING)
        if found is _MISSING:
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(name, value)

    def __delitem__(self, name: str) -> None:
        if self.clear(name) is None:
            raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name, _MISSING) is not _MISSING

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    # ---- by name ----

    def get(self, name: str, default: Any = None) -> Any:
        """The slot's value as this run sees it, or ``default`` where it holds none."""
        return self._drive(_get(self._scope(), name, default))

    def set(self, name: str, value: Any) -> int:
        """Let the slot hold this value; returns its version, 1 for the first one.

        Raises :class:`counterfoil.errors.SlotMoved` if another run has changed the slot since this one looked: refresh,
        look at it and decide again.
        """
        return int(self._drive(set_flow(self._scope(), name, value)))

    def clear(self, name: str) -> int | None:
        """Let the slot hold nothing; returns the version that this made, None where it held nothing. Raises as :meth:`set`."""
        cleared: int | None = self._drive(clear_flow(self._scope(), name))
        return cleared

    def version(self, name: str) -> int:
        """Version of the slot as this run sees it; 0 where it was never set. Clearing counts."""
        return int(self._drive(_version(self._scope(), name)))

    def names(self) -> list[str]:
        """Names of the slots that hold a value, sorted."""
        found: list[str] = self._drive(_names(self._scope()))
        return found

    def refresh(self) -> None:
        """See what others have set up to now. A memoised step: code that runs again sees the same."""
        self._drive(_refresh(self._scope(), self._drive))

    # ---- for tasks ----

    async def aget(self, name: str, default: Any = None) -> Any:
        """As :meth:`get`, for tasks."""
        return await self._adrive(_get(self._scope(), name, default))

    async def aset(self, name: str, value: Any) -> int:
        """As :meth:`set`, for tasks."""
        return int(await self._adrive(set_flow(self._scope(), name, value)))

    async def aclear(self, name: str) -> int | None:
        """As :meth:`clear`, for tasks."""
        cleared: int | None = await self._adrive(clear_flow(self._scope(), name))
        return cleared

    async def aversion(self, name: str) -> int:
        """As :meth:`version`, for tasks."""
        return int(await self._adrive(_version(self._scope(), name)))

    async def anames(self) -> list[str]:
        """As :meth:`names`, for tasks."""
        found: list[str] = await self._adrive(_names(self._scope()))
        return found

    async def arefresh(self) -> None:
        """As :meth:`refresh`, for tasks."""
        await self._adrive(_refresh(self._scope(), self._drive))


_MISSING: Final = object()


def _get(scope: RunScope, name: str, default: Any) -> Flow[Any]:
    check_text("slot", name or "")
    scope.check()
    held = yield from look_at(scope, name)
    return from_json(held.value) if held.holds else default


def _version(scope: RunScope, name: str) -> Flow[int]:
    check_text("slot", name or "")
    scope.check()
    return (yield from look_at(scope, name)).version


def _names(scope: RunScope) -> Flow[list[str]]:
    scope.check()
    return (yield from names_seen(scope))


def _refresh(scope: RunScope, drive: Callable[[Flow[Any]], Any]) -> Flow[None]:
    def look() -> int:
        return int(drive(_head(scope)))

    sequence: int = yield from step_flow(scope, REFRESH, look, (), {})
    scope.part(Book).moved_to(sequence)


def _head(scope: RunScope) -> Flow[int]:
    head: Head = yield Read(HeadOf(scope.stream_id))
    return head.sequence
