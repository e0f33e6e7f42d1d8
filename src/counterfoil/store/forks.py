"""Files of SQLite and forks: a child must inherit neither a lock that somebody holds nor an open SQLite file.

What SQLite knows about the locks of a file belongs to the process and crosses a fork with it, the locks themselves do
not: a child that opens the file again takes the parent's locks for its own, and what it writes can be lost without a
word. So the file is closed before the fork and opened again where it is next needed, on either side.
"""

from __future__ import annotations

import os
import time
import weakref
from contextlib import suppress
from typing import Final, Protocol

PATIENCE_S: Final = 0.5
"""How long a fork waits for files that are at work; one that is still at it then is left as it is."""


class Forked(Protocol):
    """A journal or an index that has to know of forks."""

    def before_fork(self, timeout_s: float) -> None:
        """Come to rest: nothing is under way until the fork is over, as far as that is had in this time."""
        ...

    def after_fork(self, *, in_child: bool) -> None:
        """Go on. The child has no thread but this one, and every other lock of the parent's is of no use to it."""
        ...


_minding: Final[weakref.WeakSet[Forked]] = weakref.WeakSet()
_resting: Final[list[Forked]] = []


def minds_forks(file: Forked) -> None:
    """From now on this one is told of forks."""
    _minding.add(file)


def _before() -> None:
    until_s = time.monotonic() + PATIENCE_S
    for file in list(_minding):
        _resting.append(file)
        with suppress(Exception):
            file.before_fork(max(0.0, until_s - time.monotonic()))


def _after(*, in_child: bool) -> None:
    while _resting:
        with suppress(Exception):
            _resting.pop().after_fork(in_child=in_child)


os.register_at_fork(
    before=_before,
    after_in_parent=lambda: _after(in_child=False),
    after_in_child=lambda: _after(in_child=True),
)
