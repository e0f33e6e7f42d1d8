"""Streamed answers: the chunks go through as they come, and however the stream ends, the turn commits once (seed 000)."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from types import TracebackType
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


class _Stream(Generic[T]):
    """What both kinds have: the source, whose further attributes are the stream's too, and what was heard of it."""

    def __init__(self, source: Any, turn: Commits, text: Callable[[T], str] | None) -> None:
        self._source = source
        self._heard: _Heard[T] = _Heard(turn, text)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._source, name)

    def __del__(self) -> None:
        heard = self.__dict__.get("_heard")
        if heard is not None:
            heard.end("cancelled")

    def _leave(self, error: BaseException | None) -> None:
        """Its block was left: before the end that is an error's, or a cancelled turn."""
        if error is not None:
            self._heard.fail(error)
        self._heard.end("cancelled")


class TurnStream(_Stream[T]):
    """An iterator over the chunks. Closing it, or letting go of it, before its end is a cancelled turn.

    It takes what its source takes: ``send`` and ``throw`` of a generator, a ``with`` block, and attributes of its own.
    """

    def __init__(self, chunks: Iterable[T], turn: Commits, text: Callable[[T], str] | None) -> None:
        # First: what gives no chunks is no stream, and the turn goes on without it.
        self._chunks: Iterator[T] = iter(chunks)
        super().__init__(chunks, turn, text)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return self._step(self._chunks.__next__)

    @property
    def send(self) -> Callable[[Any], T]:
        """As the source's own; AttributeError where it has none."""
        send: Callable[[Any], T] = _own(self._chunks, "send")
        return lambda value: self._step(lambda: send(value))

    @property
    def throw(self) -> Callable[..., T]:
        """As the source's own; AttributeError where it has none."""
        throw: Callable[..., T] = _own(self._chunks, "throw")
        return lambda *error: self._step(lambda: throw(*error))

    def _step(self, step: Callable[[], T]) -> T:
        try:
            chunk = step()
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

    def __enter__(self) -> Self:
        self._source.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._leave(error)
        eaten: bool | None = self._source.__exit__(kind, error, trace)
        return eaten


class AsyncTurnStream(_Stream[T]):
    """As :class:`TurnStream`, for async code; ``asend``, ``athrow``, ``aclose`` and ``async with`` in their place."""

    def __init__(self, chunks: AsyncIterable[T], turn: Commits, text: Callable[[T], str] | None) -> None:
        self._chunks: AsyncIterator[T] = aiter(chunks)
        super().__init__(chunks, turn, text)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await self._step(self._chunks.__anext__)

    @property
    def asend(self) -> Callable[[Any], Awaitable[T]]:
        """As the source's own; AttributeError where it has none."""
        send: Callable[[Any], Awaitable[T]] = _own(self._chunks, "asend")
        return lambda value: self._step(lambda: send(value))

    @property
    def athrow(self) -> Callable[..., Awaitable[T]]:
        """As the source's own; AttributeError where it has none."""
        throw: Callable[..., Awaitable[T]] = _own(self._chunks, "athrow")
        return lambda *error: self._step(lambda: throw(*error))

    async def _step(self, step: Callable[[], Awaitable[T]]) -> T:
        try:
            chunk = await step()
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

    async def __aenter__(self) -> Self:
        await self._source.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._leave(error)
        eaten: bool | None = await self._source.__aexit__(kind, error, trace)
        return eaten


def _own(source: object, name: str) -> Any:
    """An attribute that only generators have; the protocol of iterators does not know it."""
    return getattr(source, name)
