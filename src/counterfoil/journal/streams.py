"""Streamed answers: the chunks go through as they come, and however the stream ends, the turn commits once (seed 000)."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, Self, TypeVar

T = TypeVar("T")


class Commits(Protocol):
    """What a stream does to its turn."""

    def commit(self, status: str = ..., answer: Any = None) -> None:
        """End the turn."""
        ...


class _Heard(Generic[T]):
    """What was streamed so far, as text; a chunk whose text cannot be had leaves the answer without a digest."""

    def __init__(self, turn: Commits, text: Callable[[T], str] | None) -> None:
        self._turn = turn
        self._text = text
        self._pieces: list[str] | None = []

    def hear(self, chunk: T) -> None:
        if self._pieces is None:
            return
        try:
            piece: Any = chunk if self._text is None else self._text(chunk)
            said = piece if isinstance(piece, str) else None
        except Exception:  # noqa: BLE001 - the stream goes on whatever its text is worth
            said = None
        if said is None:
            self._pieces = None
        else:
            self._pieces.append(said)

    def end(self, status: str = "completed") -> None:
        whole = status == "completed" and self._pieces is not None
        self._turn.commit(status, "".join(self._pieces or ()) if whole else None)

    def fail(self, error: BaseException) -> None:
        from counterfoil.journal.recorder import status_of

        self.end(status_of(error))


class TurnStream(Generic[T]):
    """An iterator over the chunks. Closing it, or letting go of it, before its end is a cancelled turn."""

    def __init__(self, chunks: Iterable[T], turn: Commits, text: Callable[[T], str] | None) -> None:
        self._heard: _Heard[T] = _Heard(turn, text)
        self._chunks: Iterator[T] = iter(chunks)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            chunk = next(self._chunks)
        except StopIteration:
            self._heard.end()
            raise
        except BaseException as error:
            self._heard.fail(error)
            raise
        self._heard.hear(chunk)
        return chunk

    def close(self) -> None:
        """Give the stream up, and what it comes from."""
        self._heard.end("cancelled")
        close = getattr(self._chunks, "close", None)
        if callable(close):
            close()

    def __del__(self) -> None:
        heard = getattr(self, "_heard", None)
        if heard is not None:
            heard.end("cancelled")


class AsyncTurnStream(Generic[T]):
    """As :class:`TurnStream`, for async code; ``aclose`` in place of ``close``."""

    def __init__(self, chunks: AsyncIterable[T], turn: Commits, text: Callable[[T], str] | None) -> None:
        self._heard: _Heard[T] = _Heard(turn, text)
        self._chunks: AsyncIterator[T] = aiter(chunks)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._heard.end()
            raise
        except BaseException as error:
            self._heard.fail(error)
            raise
        self._heard.hear(chunk)
        return chunk

    async def aclose(self) -> None:
        """Give the stream up, and what it comes from."""
        self._heard.end("cancelled")
        close: Any = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()

    def __del__(self) -> None:
        heard = getattr(self, "_heard", None)
        if heard is not None:
            heard.end("cancelled")
