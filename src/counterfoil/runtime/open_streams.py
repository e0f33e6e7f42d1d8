"""The streams of a run that nobody has read to their end yet, and what is recorded of them when nobody will."""

from __future__ import annotations

from typing import Protocol

from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow


class Open(Protocol):
    """A stream under way. ``abandoned``: its reader let go of it."""

    abandoned: bool

    @property
    def order(self) -> str:
        """What open streams are recorded in the order of."""
        ...

    def closed(self, *, asked_again: bool) -> Flow[None]:
        """Record what was delivered; ``asked_again``: it was not the reader who stopped, so the call has no result."""
        ...


class Streams:
    """The open streams of one entry into a run (``scope.part(Streams)``)."""

    def __init__(self, scope: RunScope) -> None:
        del scope
        self.open: set[Open] = set()


def close_streams(scope: RunScope, *, left: bool) -> Flow[None]:
    """Record what came of streams that nobody read to their end: those let go of, or all when the run is ``left``."""
    if not scope.part(Streams).open:
        return
    for stream in sorted(scope.part(Streams).open, key=lambda each: each.order):
        if left or stream.abandoned:
            yield from stream.closed(asked_again=left)
