"""Identifiers minted by this process: ULIDs that rise, quick enough to mint in every append."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

from counterfoil.client.clock import SystemClock
from counterfoil.core.ids import TIME_BITS, check_prefix

_COUNTED: Final = 1 << 20
"""Ids of one block: their last four letters count, everything before is shared and made once."""

_STEM_BYTES: Final = 12
_START_BYTES: Final = 3
"""Random bytes of a block: one for each letter before the last four, and those that the count begins with."""

_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = tuple(high + low for high in _LETTERS for low in _LETTERS)
_LETTER_OF: Final = _LETTERS.encode() * (256 // len(_LETTERS))
"""For each byte a letter: as many bytes for one letter as for any other."""

_TIME_SHIFTS: Final = (40, 30, 20, 10, 0)


class UlidIds:
    """An ``Ids`` that mints ULIDs (FORMAT 1): never backwards inside a process, from any number of threads.

    Each millisecond begins a block with 80 fresh random bits, of which the last 20 then count upwards. A clock that
    went back is not followed: ids stay at the latest millisecond seen until the clock has caught up. After a fork
    the child begins a block of its own, so parent and child never mint the same id.
    """

    __slots__ = ("__weakref__", "_counter", "_lock", "_now_ms", "_stem", "_time_ms")

    def __init__(self, now_ms: Callable[[], int] | None = None) -> None:
        self._now_ms = SystemClock().now_ms if now_ms is None else now_ms
        self._time_ms = -1
        self._lock = threading.Lock()
        self._counter = _COUNTED
        self._stem = ""
        _MINTS.add(self)

    def new(self, prefix: str) -> str:
        """The next id with this prefix. Raises InvalidId for a prefix that FORMAT 1 does not list."""
        check_prefix(prefix)
        now = self._now_ms()
        with self._lock:
            if now > self._time_ms or self._counter >= _COUNTED:
                self._begin_block(now)
            counter = self._counter
            self._counter = counter + 1
            stem = self._stem
        return f"{prefix}_{stem}{_PAIRS[counter >> 10]}{_PAIRS[counter & 1023]}"

    def _begin_block(self, now_ms: int) -> None:
        # A block used up inside its millisecond, or begun on a clock that stands still, borrows from the next one.
        time_ms = self._time_ms = max(now_ms, self._time_ms + 1) & (1 << TIME_BITS) - 1
        random = os.urandom(_STEM_BYTES + _START_BYTES)
        letters = random[:_STEM_BYTES].translate(_LETTER_OF).decode()
        self._stem = "".join([_PAIRS[time_ms >> shift & 1023] for shift in _TIME_SHIFTS]) + letters
        # Starting in the lower half leaves every block at least half a million ids.
        self._counter = (int.from_bytes(random[_STEM_BYTES:]) & _COUNTED - 1) >> 1

    def _begin_anew(self) -> None:
        # The lock may have been held by a thread that does not exist in a forked child.
        self._lock = threading.Lock()
        self._counter = _COUNTED


_MINTS: Final[weakref.WeakSet[UlidIds]] = weakref.WeakSet()


def _begin_anew_in_child() -> None:
    for mint in list(_MINTS):
        mint._begin_anew()  # noqa: SLF001 - the same module


os.register_at_fork(after_in_child=_begin_anew_in_child)
