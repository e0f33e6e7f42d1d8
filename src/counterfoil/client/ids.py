"""Identifiers minted by this process: ULIDs that rise, quick enough to mint in every append."""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import Callable
from typing import Final

from counterfoil.client.clock import SystemClock
from counterfoil.core.ids import RANDOM_BITS, TIME_BITS, make_id

_COUNTED_BITS: Final = 20
_COUNTED: Final = 1 << _COUNTED_BITS
"""Ids of one block: their last four letters count, everything before is shared and made once."""

_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = tuple(high + low for high in _LETTERS for low in _LETTERS)


class UlidIds:
    """An ``Ids`` that mints ULIDs (FORMAT 1): never backwards inside a process, from any number of threads.

    Each millisecond begins a block with 80 fresh random bits, of which the last 20 then count upwards. A clock that
    went back is not followed: ids stay at the latest millisecond seen until the clock has caught up. After a fork
    the child begins a block of its own, so parent and child never mint the same id.
    """

    __slots__ = ("__weakref__", "_counter", "_heads", "_lock", "_now_ms", "_stem", "_time_ms")

    def __init__(self, now_ms: Callable[[], int] | None = None) -> None:
        self._now_ms = SystemClock().now_ms if now_ms is None else now_ms
        self._time_ms = -1
        self._lock = threading.Lock()
        self._counter = _COUNTED
        self._stem = 0
        self._heads: dict[str, str] = {}
        _MINTS.add(self)

    def new(self, prefix: str) -> str:
        """The next id with this prefix. Raises InvalidId for a prefix that FORMAT 1 does not list."""
        now = self._now_ms()
        with self._lock:
            if now > self._time_ms or self._counter >= _COUNTED:
                self._begin_block(now)
            counter = self._counter
            self._counter = counter + 1
            head = self._heads.get(prefix) or self._make_head(prefix)
        return head + _PAIRS[counter >> 10] + _PAIRS[counter & 1023]

    def _begin_block(self, now_ms: int) -> None:
        # A block used up inside its millisecond, or begun on a clock that stands still, borrows from the next one.
        self._time_ms = max(now_ms, self._time_ms + 1) & (1 << TIME_BITS) - 1
        random = secrets.randbits(RANDOM_BITS)
        self._stem = random >> _COUNTED_BITS << _COUNTED_BITS
        # Starting in the lower half leaves every block at least half a million ids.
        self._counter = (random & _COUNTED - 1) >> 1
        self._heads = {}

    def _make_head(self, prefix: str) -> str:
        head = make_id(prefix, self._time_ms, self._stem)[:-4]
        self._heads[prefix] = head
        return head

    def _begin_anew(self) -> None:
        # The lock may have been held by a thread that does not exist in a forked child.
        self._lock = threading.Lock()
        self._counter = _COUNTED


_MINTS: Final[weakref.WeakSet[UlidIds]] = weakref.WeakSet()


def _begin_anew_in_child() -> None:
    for mint in list(_MINTS):
        mint._begin_anew()  # noqa: SLF001 - the same module


os.register_at_fork(after_in_child=_begin_anew_in_child)
