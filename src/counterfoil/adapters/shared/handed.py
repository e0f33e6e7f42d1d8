"""What a caller hands to a transaction piece by piece; what it raises there reaches the caller as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Handed(Generic[T]):
    """An iterator of the caller's that remembers what it raised.

    The writer takes an error inside a transaction for a fault of the store's; this one is the caller's own.
    """

    def __init__(self, source: Iterable[T]) -> None:
        self._source = iter(source)
        self._raised: BaseException | None = None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            return next(self._source)
        except StopIteration:
            raise
        except BaseException as error:
            self._raised = error
            raise

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        """Around the transaction: whatever became of the caller's error on its way, the caller gets that one."""
        try:
            yield
        except BaseException as error:
            if self._raised is None or self._raised is error:
                raise
            raise self._raised from self._raised.__cause__
