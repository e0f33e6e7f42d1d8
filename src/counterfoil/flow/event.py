"""An event as readers see it: the parsed header, and content that is opened only when it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from counterfoil.core.event import Header
from counterfoil.errors import AccessError, ArtifactDamaged, ContentUnavailable

ContentState = Literal["none", "present", "erased", "withheld", "missing", "damaged"]
"""``none``: the event has no content. The other five are the words of FORMAT 6; never an empty value."""


WAYS_OUT: Final[Mapping[str, str]] = {
    "damaged": "`counterfoil verify` names everything that is damaged; restore it from a backup",
    "missing": "`counterfoil verify` names everything that is missing; restore it from a backup",
    "withheld": "open the ledger with its keys, and where reading is restricted in a session that may show it",
    "erased": "it was erased on purpose and nothing brings it back; what needs it has to begin anew",
}
"""What to do about content in each state in which it cannot be read."""


class Opened:
    """What became of an event's content: its state, the parts that could be opened, and why not."""

    __slots__ = ("parts", "reason", "restore", "state")

    def __init__(
        self,
        state: ContentState,
        parts: tuple[Mapping[str, Any] | None, ...] = (),
        reason: str = "",
        restore: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    ) -> None:
        self.state: ContentState = state
        self.parts: tuple[Mapping[str, Any] | None, ...] = parts
        self.reason: str = reason
        # Puts values back that moved to artifacts; None where none did.
        self.restore: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = restore


class Event:
    """One recorded event. Header members read as attributes of ``header``; ``content`` opens on first use."""

    __slots__ = (
        "_header",
        "_keeps",
        "_open",
        "_opened",
        "_whole",
        "fault",
        "hash",
        "recorded_at_ms",
        "sequence",
        "stream_id",
        "type",
    )

    def __init__(
        self,
        stream_id: str,
        sequence: int,
        recorded_at_ms: int,
        header: Header,
        hash: bytes,
        open_content: Callable[[], Opened],
        fault: str = "",
        keeps: bool = True,
    ) -> None:
        self.stream_id: str = stream_id
        self.sequence: int = sequence
        self.recorded_at_ms: int = recorded_at_ms
        self._header: Header | None = header
        self.type: str = header.event_type
        """The event type, such as ``effect.intended``. An attribute, because folds ask each event for it."""
        self.hash: bytes = hash
        self._open = open_content
        self._opened: Opened | None = None
        self._whole: Mapping[str, Any] | None = None
        # One of a long record does not keep what was opened: who made it does, as long as it is likely to be wanted.
        self._keeps = keeps
        self.fault: str = fault
        """Why the header cannot be read, if it cannot; then its members are the index columns (DESIGN 2.9)."""

    @property
    def header(self) -> Header:
        """The parsed header."""
        assert self._header is not None, (
            "only an event that parses its header when it is asked for begins without"
        )
        return self._header

    @property
    def event_id(self) -> str:
        """``evt_…``"""
        return self.header.event_id

    @property
    def version(self) -> int:
        """The version of the event type."""
        return self.header.event_schema_version

    @property
    def data(self) -> Mapping[str, Any]:
        """The public fields."""
        return self.header.data

    @property
    def opened(self) -> Opened:
        """The content with its state; opened once and kept, unless the event is one of a long record."""
        if not self._keeps:
            return self._open()
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    @property
    def content_state(self) -> ContentState:
        """One of the words of FORMAT 6."""
        return self.opened.state

    @property
    def content(self) -> Mapping[str, Any]:
        """Part 0 in its JSON form, with ``{"$part": n}`` resolved; ``{}`` if the event has none.

        Values that moved to artifacts are read from there, once. Raises :class:`counterfoil.errors.ContentUnavailable`
        when any of it is erased, withheld, missing or damaged.
        """
        opened = self.opened
        if opened.restore is None:
            return self._outline(opened)
        if not self._keeps:
            return self._restored(opened, opened.restore)
        if self._whole is None:
            self._whole = self._restored(opened, opened.restore)
        return self._whole

    @property
    def outline(self) -> Mapping[str, Any]:
        """As :attr:`content`, with what moved to artifacts as references (``$spilled``): nothing more is read for it."""
        return self._outline(self.opened)

    def _outline(self, opened: Opened) -> Mapping[str, Any]:
        if opened.state == "none":
            return {}
        if opened.state != "present" or not opened.parts or opened.parts[0] is None:
            raise ContentUnavailable(
                f"content of event {self.event_id} (sequence {self.sequence}) is {opened.state}: {opened.reason}",
                hint=WAYS_OUT.get(opened.state),
                state=opened.state,
                event_id=self.event_id,
                sequence=self.sequence,
            )
        return opened.parts[0]

    def content_or_none(self) -> Mapping[str, Any] | None:
        """As :attr:`content`, with None in place of the error."""
        try:
            return self.content
        except ContentUnavailable:
            return None

    def outline_or_none(self) -> Mapping[str, Any] | None:
        """As :attr:`outline`, with None in place of the error."""
        try:
            return self.outline
        except ContentUnavailable:
            return None

    def _restored(
        self, opened: Opened, restore: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        try:
            return restore(self._outline(opened))
        except (AccessError, ArtifactDamaged) as error:
            refused = "damaged" if isinstance(error, ArtifactDamaged) else "withheld"
            state = error.fields.get("state", refused)
            raise ContentUnavailable(
                f"content of event {self.event_id} (sequence {self.sequence}) is {state}: {error.message}",
                hint=error.hint or WAYS_OUT.get(state),
                state=state,
                event_id=self.event_id,
                sequence=self.sequence,
            ) from error
