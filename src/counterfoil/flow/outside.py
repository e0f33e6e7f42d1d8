"""What others append to a run's conversation, noticed by the gaps between the sequences of the run's own events."""

from __future__ import annotations

from threading import Lock
from typing import Final

from counterfoil.store.unit import Receipt

CANCELLING: Final = frozenset({"run.cancel_requested"})
"""What somebody else may say to a run that is under way."""


class Outside:
    """How much of its conversation a run has looked at: costs nothing while nobody else appends to it.

    Events of the run's own, each learnt of from its receipt, follow one another without a gap. Where one is missing
    somebody else was there, and whoever goes on looks first. Threads may note in any order; a look too many is all
    that comes of it. ``seen`` None: nothing is noticed, as for a recovery.
    """

    def __init__(self, stream_id: str, seen: int | None) -> None:
        self._stream_id = stream_id
        self._seen = seen
        self._unlooked: int | None = None
        self._lock = Lock()

    def noted(self, receipt: object) -> None:
        """Events of the run are recorded."""
        if self._seen is None or not isinstance(receipt, Receipt):
            return
        places = receipt.positions
        if len(places) != 1:
            places = tuple([place for place in places if place.stream_id == self._stream_id])
        if not places or places[0].stream_id != self._stream_id:
            return
        first, last = places[0].sequence, places[-1].sequence
        with self._lock:
            if first > self._seen + 1 and self._unlooked is None:
                self._unlooked = self._seen
            self._seen = max(self._seen, last)

    @property
    def unlooked(self) -> int | None:
        """The sequence behind which somebody else's events have not been looked at; None if there are none."""
        return self._unlooked

    def looked(self, after: int, up_to: int | None) -> None:
        """Whatever stood behind ``after`` when the run last noted ``up_to`` has been looked at."""
        with self._lock:
            if self._unlooked == after and self._seen == up_to:
                self._unlooked = None
            elif self._unlooked == after:
                self._unlooked = up_to

    @property
    def seen(self) -> int | None:
        """The newest sequence that the run knows of."""
        return self._seen
