"""The recorder of a turn while the journal is off."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

from counterfoil.journal.event import Stage
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

    def _write(self, stage: Stage, fields: Fields, *, payload: Any = None, hashed: str | None = None) -> None:
        return


NO_TURN: Final = NoRecorder()
