"""Results whose work is still to be done: generators and coroutines are told of when they end, and not when they are made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

Ended = Callable[[Any, BaseException | None], None]
"""Told once: what the work gave (None for what it yielded), or what ended it."""


def at_its_end(result: Any, ended: Ended) -> Any | None:
    """An object of the same kind that does the same and then tells; None where there is no work to wait for.

    One that nobody ever begins tells nothing. An iterator of a class of its own stays itself: it may have more to it
    than its chunks, and :meth:`TurnRecorder.stream` is for that.
    """
    kind = type(result)
    if kind is GeneratorType:
        return _generator(result, ended)
    if kind is AsyncGeneratorType:
        return _async_generator(result, ended)
    if kind is CoroutineType:
        return _coroutine(result, ended)
    return None


def _generator(inner: Generator[Any, Any, Any], ended: Ended) -> Generator[Any, Any, Any]:
    try:
        value = yield from inner
    except BaseException as error:
        ended(None, _failure(error))
        raise
    ended(value, None)
    return value


async def _async_generator(inner: AsyncGenerator[Any, Any], ended: Ended) -> AsyncGenerator[Any, Any]:
    step = inner.asend(None)
    try:
        while True:
            try:
                item = await step
            except StopAsyncIteration:
                break
            try:
                step = inner.asend((yield item))
            except GeneratorExit:
                await inner.aclose()
                raise
            except BaseException as thrown:  # noqa: BLE001 - handed on to whom it was thrown at
                step = inner.athrow(thrown)
    except BaseException as error:
        ended(None, _failure(error))
        raise
    ended(None, None)


async def _coroutine(inner: Coroutine[Any, Any, Any], ended: Ended) -> Any:
    try:
        value = await inner
    except BaseException as error:
        ended(None, error)
        raise
    ended(value, None)
    return value


def _failure(error: BaseException) -> BaseException | None:
    """Whoever has had enough of a generator closes it, which is no failure."""
    return None if issubclass(type(error), GeneratorExit) else error
