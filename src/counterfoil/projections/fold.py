"""Folding: events into a state, one after the other, until they end or the fold can go no further."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from counterfoil.core import canonical
from counterfoil.core.catalogue import Registry
from counterfoil.core.upcast import Upcasts
from counterfoil.errors import CounterfoilError, InvalidForm, UnknownEventType
from counterfoil.flow.event import Event
from counterfoil.flow.known import interpreted
from counterfoil.projections.checkpoint import Kept
from counterfoil.projections.declare import Projection
from counterfoil.projections.told import Told


class Stop:
    """Why a projection goes no further: at which event, and what its fold raised there."""

    __slots__ = ("error", "event_type", "sequence", "stream_id")

    def __init__(self, stream_id: str, sequence: int, event_type: str, error: BaseException) -> None:
        self.stream_id: str = stream_id
        self.sequence: int = sequence
        self.event_type: str = event_type
        self.error: BaseException = error

    def __repr__(self) -> str:
        return f"<Stop: {self.why}>"

    @property
    def why(self) -> str:
        """In words: what was raised by its class alone, since its text may hold content."""
        if isinstance(self.error, UnknownEventType):
            return self.error.message
        return f"{type(self.error).__name__} at event {self.sequence} ({self.event_type})"


class Folding:
    """One state under way. ``sequence`` is the last event that is in it; a stop leaves it before the event that failed."""

    def __init__(
        self, projection: Projection, registry: Registry, upcasts: Upcasts, begin: Kept | None
    ) -> None:
        self.projection: Projection = projection
        self.state: Any = projection.first() if begin is None else projection.decoded(begin.state)
        self.sequence: int = 0 if begin is None else begin.sequence
        self.stop: Stop | None = None
        self._registry = registry
        self._upcasts = upcasts

    def take(self, event: Event) -> bool:
        """Fold one more event; False when the projection stops at it. What others fold goes on whatever this one does."""
        try:
            # Judged before it is passed over: what this build does not know may change what it does know (case S22).
            for known in interpreted(self._registry, (event,), self._upcasts):
                if self.projection.wants(known.type):
                    self.state = _returned(self.projection, self.projection.fold(self.state, Told(known)))
        except Exception as error:  # noqa: BLE001 - the application's own fold; whatever it raises stops it alone
            self.stop = Stop(event.stream_id, event.sequence, event.type, error)
            return False
        self.sequence = event.sequence
        return True

    def run(self, events: Iterable[Event]) -> None:
        """Fold them all, or until the projection stops."""
        for event in events:
            if not self.take(event):
                return

    def encoded(self) -> bytes | None:
        """The canonical bytes of the state, or None where it has no form or does not fit the schema: then it stops."""
        if self.stop is not None:
            return None
        try:
            data = self.projection.encoded(self.state)
            wrong = (
                self.projection.misfit(canonical.decode(data)) if self.projection.schema is not None else None
            )
            if wrong is not None:
                raise _misfit(self.projection, *wrong)
        except CounterfoilError as error:
            self.stop = Stop("", self.sequence, "state", error)
            return None
        return data


def _returned(projection: Projection, state: Any) -> Any:
    """What the fold gave back. None is the state that a fold forgot to return, unless the projection names it as one."""
    if state is None and not projection.may_be_none:
        raise InvalidForm(
            f"the fold of {projection.name} returned None",
            hint="return the state; for None as a state, let the schema allow null",
        )
    return state


def _misfit(projection: Projection, path: str, keyword: str) -> CounterfoilError:
    return InvalidForm(
        f"the state of {projection.name} does not fit its schema: {keyword} at {path or '/'}",
        hint="mend the fold, or raise the version with a new schema",
    )
