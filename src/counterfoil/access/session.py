"""A read session: what one recorded decision lets somebody see, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from counterfoil.abc.authorizer import AccessRequest, Actor
from counterfoil.core.event_types import CLASSES
from counterfoil.errors import AccessRefused

if TYPE_CHECKING:
    from counterfoil.access.decide import Recorded

DEFAULT_CEILING: Final = "confidential"
"""The highest class that a session shows unless it asked for more; what events are by default."""


class Session:
    """What a decision covers: a conversation or all, a range of sequences, classes up to the one asked for.

    Thread-safe: it is only ever closed.
    """

    def __init__(
        self, request: AccessRequest, recorded: Recorded, after: int = 0, up_to: int | None = None
    ) -> None:
        self.request = request
        self.recorded = recorded
        self.after = after
        self.up_to = up_to
        self._open = True

    @property
    def actor(self) -> Actor:
        """Who reads."""
        return self.request.actor

    def close(self) -> None:
        """The session has ended: what it handed out opens no more content."""
        self._open = False

    def withholds(self, stream_id: str, sequence: int, event_id: str, klass: str) -> str | None:
        """Why this content is not shown in this session; None if it is."""
        request = self.request
        if not self._open:
            return "the reading that it was opened in has ended"
        if request.stream_id not in (None, stream_id) or request.event_id not in (None, event_id):
            return "it is not what this reading was opened for"
        if sequence <= self.after or (self.up_to is not None and sequence > self.up_to):
            return "it is outside of the range that this reading was opened for"
        if request.klass is None or klass not in CLASSES[: CLASSES.index(request.klass) + 1]:
            return f"it is {klass}, and this reading was opened for {request.klass} at most"
        return None

    def withholds_whole(self, klass: str, stream_id: str | None = None) -> str | None:
        """Why what belongs to no single event, such as a companion or an artifact, is not shown; None if it is.

        ``stream_id`` is the stream that it belongs to, None where the caller has seen to that.
        """
        request = self.request
        first = self.after + 1
        whole = self.after == 0 and self.up_to is None and request.event_id is None
        if stream_id is not None and not whole:
            return "it belongs to no event, and this reading was opened for a range of them"
        return self.withholds(stream_id or request.stream_id or "", first, request.event_id or "", klass)

    def check(self, stream_id: str) -> None:
        """Raise AccessRefused for another conversation than the session was opened for."""
        if not self._open:
            raise AccessRefused("the reading has ended", hint="open a new one", rule="ended")
        if self.request.stream_id not in (None, stream_id):
            raise AccessRefused(
                "this reading was opened for another conversation",
                hint="open one for this conversation: each is decided and recorded by itself",
                rule="other-conversation",
            )
