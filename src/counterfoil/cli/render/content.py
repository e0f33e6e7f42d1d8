"""Content as a renderer meets it: a value, or one of the words for what became of it; never an empty value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from counterfoil.cli.render.line import Span, Style
from counterfoil.cli.render.values import shown, spoken
from counterfoil.flow.event import ContentState, Event

LOOKS: Final[Mapping[ContentState, tuple[str, Style]]] = {
    "erased": ("░ erased", "quiet"),
    "withheld": ("▒ withheld", "wait"),
    "missing": ("∅ missing", "failure"),
    "damaged": ("✗ damaged", "failure"),
}
"""The states in which there is no value to show; ``present`` is the fifth, and looks like its value."""


class Content:
    """The content of one event."""

    __slots__ = ("event", "state", "values")

    def __init__(self, event: Event, *, whole: bool = False) -> None:
        """``whole`` reads what moved to artifacts too, where it can be had."""
        self.event: Event = event
        self.state: ContentState = event.content_state
        found = event.content_or_none() if whole else None
        self.values: Mapping[str, Any] = found or event.outline_or_none() or {}

    @property
    def gone(self) -> Span | None:
        """The word for content that cannot be shown, or None."""
        look = LOOKS.get(self.state)
        return None if look is None else Span(*look)

    def get(self, name: str) -> Any:
        """A member, or None; what was sealed under a person's own key stands under ``about``."""
        about = self.values.get("about")
        inner = about if isinstance(about, Mapping) else self.values
        return inner.get(name)

    def text(self, *names: str) -> str | None:
        """The first of these members that holds text."""
        return next((found for name in names if isinstance(found := self.get(name), str)), None)

    def span(self, name: str, *, style: Style = "plain", room: int | None = None) -> Span | None:
        """A member as one line; the word for its state where content is gone; None where there is no such member."""
        if (gone := self.gone) is not None:
            return gone
        value = self.get(name)
        return None if value is None else Span(shown(value, room=room), style)

    def spoken(self, *names: str) -> str:
        """The text of the first of these members that has any."""
        for name in names:
            if text := spoken(self.get(name)):
                return text
        return ""


def name_of(content: Content, shown_name: str, member: str = "name") -> str:
    """A name as it was: the header's label, or, where that is hidden, the full name from content."""
    if shown_name.startswith("~") or shown_name == "unknown":
        return content.text(member) or shown_name
    return shown_name
