"""What a run's turn is folded from: ledger events, recorded or about to be, with the content that digests are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from counterfoil.core.event import Draft
from counterfoil.core.forms import time_ms
from counterfoil.flow.event import Event

TURN_TYPES: Final = frozenset(
    {
        "admission.accepted",
        "approval.denied",
        "approval.requested",
        "decision.proposed",
        "effect.intended",
        "effect.late_observed",
        "effect.observed",
        "effect.settled",
        "policy.evaluated",
        "provider.failed",
        "provider.requested",
        "provider.responded",
        "run.finished",
        "step.finished",
        "turn.checked",
        "turn.committed",
    }
)
"""What a turn is folded from, and where its head was kept."""

WITH_CONTENT: Final = TURN_TYPES - {
    "approval.denied",
    "approval.requested",
    "policy.evaluated",
    "provider.failed",
    "provider.requested",
    "provider.responded",
    "turn.checked",
}
"""Those whose content a digest is made of."""

READABLE: Final = frozenset({"present", "none"})


class Source(Struct, frozen=True):
    """A ledger event as the fold sees it, recorded or about to be.

    ``person_key`` is the key of the person whom its content is about, where it is not the stream's own.
    """

    event_id: str
    type: str
    at_ms: int
    data: Mapping[str, Any]
    content: Mapping[str, Any] | None
    state: str = "present"
    person_key: str | None = None

    @classmethod
    def of_event(cls, event: Event) -> Source:
        """A recorded event; its content is opened where a digest is made of it."""
        at_ms = time_ms(event.header.occurred_at)
        if event.type not in WITH_CONTENT or event.data.get("kind") in {"model", "code"}:
            return cls(event.event_id, event.type, at_ms, event.data, None)
        content = event.content_or_none()
        state = event.content_state if content is not None or not event.header.content else _unread(event)
        keys = [part.key for part in event.header.content if part.key is not None]
        person = keys[0] if keys and event.type == "admission.accepted" else None
        return cls(event.event_id, event.type, at_ms, event.data, content, state, person)

    @classmethod
    def closed(cls, event: Event) -> Source:
        """A recorded event whose content is not opened: enough to count stages."""
        return cls(event.event_id, event.type, time_ms(event.header.occurred_at), event.data, None, "none")

    @classmethod
    def of_draft(cls, draft: Draft) -> Source:
        """An event that is about to be recorded."""
        content = draft.parts[0].value if draft.parts else {}
        return cls(draft.event_id, draft.event_type, time_ms(draft.occurred_at), draft.data, content)


def _unread(event: Event) -> str:
    """The state of content that could not be had whole, what moved to artifacts included."""
    state = event.content_state
    return "missing" if state == "present" else state


def about(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an event says, whoever's key it was sealed under."""
    inner = content.get("about")
    return inner if isinstance(inner, Mapping) else content
