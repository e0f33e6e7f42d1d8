"""An event as the fold of an application is told it: what is stored, and a marker where content cannot be had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from counterfoil.errors import ContentUnavailable
from counterfoil.flow.event import ContentState, Event


class AbsentContent(Mapping[str, Any]):
    """Stands where content is ``erased``, ``withheld``, ``missing`` or ``damaged``: false, empty, and says which."""

    __slots__ = ("reason", "state")

    def __init__(self, state: ContentState, reason: str) -> None:
        self.state: ContentState = state
        self.reason: str = reason

    def __repr__(self) -> str:
        return f"<AbsentContent {self.state}>"

    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


NO_CONTENT: Final[Mapping[str, Any]] = {}


class Told:
    """One event for a fold. ``data`` are the public fields, ``content`` opens when it is first looked at."""

    __slots__ = ("_content", "event")

    def __init__(self, event: Event) -> None:
        self.event: Event = event
        """The event as readers see it; its ``content`` raises where :attr:`content` gives a marker."""
        self._content: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<Told {self.type} at {self.sequence}>"

    @property
    def type(self) -> str:
        """The event type."""
        return self.event.type

    @property
    def sequence(self) -> int:
        """Its place in its conversation."""
        return self.event.sequence

    @property
    def conversation(self) -> str:
        """``str_…``: the stream that it stands in."""
        return self.event.stream_id

    @property
    def event_id(self) -> str:
        """``evt_…``"""
        return self.event.event_id

    @property
    def run_id(self) -> str | None:
        """``run_…``, where it is of a run."""
        return self.event.header.run_id

    @property
    def recorded_at_ms(self) -> int:
        """The store's clock when it was recorded."""
        return self.event.recorded_at_ms

    @property
    def actor(self) -> Mapping[str, str]:
        """Who acted: ``type`` and ``id``."""
        return self.event.header.actor

    @property
    def data(self) -> Mapping[str, Any]:
        """The public fields, which no erasure touches."""
        return self.event.data

    @property
    def content(self) -> Mapping[str, Any]:
        """The content in its JSON form; empty where the event has none, :class:`AbsentContent` where it cannot be had."""
        if self._content is None:
            self._content = self._opened()
        return self._content

    def _opened(self) -> Mapping[str, Any]:
        opened = self.event.opened
        if opened.state == "none":
            return NO_CONTENT
        try:
            return self.event.content
        except ContentUnavailable as gone:
            state: ContentState = gone.fields.get("state", "missing")
            return AbsentContent(state, gone.message)
