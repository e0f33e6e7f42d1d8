"""The recorder of a turn while the journal is off."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

from counterfoil.journal.event import Stage
from counterfoil.journal.markers import ResultMarkers
from counterfoil.journal.recorder import COMPLETED, Route, TurnRecorder
from counterfoil.journal.summary import Fields

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class NoRecorder(TurnRecorder):
    """The recorder of a turn while the journal is off: wraps no tools, adds no steps, writes nothing.

    The turn's hooks run all the same: what they refuse does not depend on a journal.
    """

    enabled = False

    def __init__(self) -> None:
        self._to_commit = [None]

    def __repr__(self) -> str:
        return "<Turn, not journaled>"

    @property
    def turn_id(self) -> str:
        """Empty: nothing is recorded under it."""
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def answer(self, answer: Any) -> Any:
        """The answer as it is."""
        return answer

    def commit(self, status: str = COMPLETED, answer: Any = None) -> None:
        """Nothing."""

    def failed_over(self, error: BaseException, message: Any, *, attempt: int = 2) -> None:
        """Nothing."""

    def tool(self, fn: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
        """The function itself."""
        return fn

    def tools(self, fns: Iterable[Callable[..., Any]]) -> list[Callable[..., Any]]:
        """The functions themselves."""
        return list(fns)

    def model(
        self,
        fn: Callable[P, R],
        *,
        provider: str,
        model: str,
        route: Route = "primary",
    ) -> Callable[P, R]:
        """The function itself."""
        return fn

    def stream(self, chunks: Iterable[T], *, text: Callable[[T], str] | None = None) -> Iterator[T]:
        """The chunks, by no operator of ours."""
        return iter(chunks)

    def astream(
        self, chunks: AsyncIterable[T], *, text: Callable[[T], str] | None = None
    ) -> AsyncIterator[T]:
        """The chunks, by no operator of ours."""
        return aiter(chunks)

    @property
    def markers(self) -> ResultMarkers:
        """What is registered here marks nothing, as no tool is journaled."""
        return _MARKERS

    @property
    def now_ms(self) -> Callable[[], int]:
        """The system's clock."""
        return lambda: time.time_ns() // 1_000_000

    def _misused(self, what: str) -> None:
        return

    def missed(self, error: BaseException) -> None:
        """Nothing."""

    def _write(
        self, stage: Stage, made: Callable[[], Fields], *, payload: Any = None, hashed: str | None = None
    ) -> None:
        return


_MARKERS: Final = ResultMarkers()
NO_TURN: Final = NoRecorder()
