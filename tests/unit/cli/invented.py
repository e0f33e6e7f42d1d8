"""Invented events for the renderers: a story told by hand, at times set by hand, without any ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterfoil.cli.render.draw import timeline_lines
from counterfoil.cli.render.model import Gap, Note, Pair, Timeline
from counterfoil.cli.render.timeline import timeline
from counterfoil.core.event import Header
from counterfoil.core.forms import time_text
from counterfoil.flow.event import Event, Opened
from counterfoil.testing.manual import START_MS, SequentialIds

STREAM = "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"
RUN = "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR"
EFFECT = "eff_01J9ZC3Y3V7W2R5T8QK4M6N0PF"
REVIEW = "rev_01J9ZC3Y3V7W2R5T8QK4M6N0PF"
START = START_MS


class Story:
    """Events in order. ``later`` moves the clock by hand."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now_ms = START
        self._ids = SequentialIds()

    def later(self, milliseconds: int) -> Story:
        """Time passes."""
        self.now_ms += milliseconds
        return self

    def add(
        self,
        event_type: str,
        data: Mapping[str, Any] | None = None,
        content: Mapping[str, Any] | None = None,
        *,
        state: str | None = None,
        run: str | None = RUN,
        step: str | None = None,
        attempt: int | None = None,
        actor: Mapping[str, str] | None = None,
        fault: str = "",
    ) -> Event:
        """One more event; ``state`` is a state of its content in which there is nothing to show."""
        sequence = len(self.events) + 1
        members: dict[str, Any] = {
            "stream_id": STREAM,
            "stream_sequence": sequence,
            "event_id": self._ids.new("evt"),
            "event_type": event_type,
            "event_schema_version": 1,
            "occurred_at": time_text(self.now_ms),
            "recorded_at": time_text(self.now_ms),
            "actor": actor or {"type": "agent", "id": "refund-agent"},
            "data": dict(data or {}),
        }
        given = {"run_id": run, "step_id": step, "attempt": attempt}
        members |= {name: value for name, value in given.items() if value is not None}
        if state is not None:
            opened = Opened(state, (), f"it is {state}")
        else:
            opened = Opened("none") if content is None else Opened("present", (content,))
        event = Event(STREAM, sequence, self.now_ms, Header(members), bytes(32), lambda: opened, fault)
        self.events.append(event)
        return event

    # ---- usual stretches ----

    def intended(
        self, *, doubt: str = "lookup", attempt: int = 1, deadline_ms: int = 10_000, **more: Any
    ) -> Event:
        """An intention to refund."""
        data = {
            "effect_id": EFFECT,
            "tool": "payment.refund",
            "tool_version": "2026-08-01",
            "doubt": doubt,
            "binding": "0" * 64,
            "deadline": time_text(self.now_ms + deadline_ms),
        }
        content = {
            "arguments": {"order": "O-1042", "line": 1, "amount": {"$decimal": "184.00"}},
            "idempotency_key": "refund:O-1042:1",
        }
        return self.add("effect.intended", data | more, content, attempt=attempt)

    def observed(self, outcome: str = "succeeded", *, late: bool = False, **data: Any) -> Event:
        """What became of it."""
        content = {"result": {"id": "re_7Q2M4K"}, "provider_effect_id": "re_7Q2M4K"}
        if outcome != "succeeded":
            content = {"error": {"class": "Rejected", "message": "member_closed"}}
        kind = "effect.late_observed" if late else "effect.observed"
        return self.add(kind, {"effect_id": EFFECT, "outcome": outcome, "source": "call", **data}, content)

    def unknown(self, **data: Any) -> Event:
        """No answer came."""
        found = {"effect_id": EFFECT, "outcome": "unknown", "source": "call", "error_class": "TimeoutError"}
        return self.add(
            "effect.observed", found | data, {"error": {"class": "TimeoutError", "message": "none"}}
        )

    def review(self, cause: str = "by_review") -> Event:
        """A person is asked."""
        data = {"effect_id": EFFECT, "review_id": REVIEW, "cause": cause}
        return self.add("effect.review_requested", data, {"attempts": 1})

    # ---- reading it ----

    def timeline(self, **options: Any) -> Timeline:
        """The rows of the whole story as it looks now."""
        return timeline(self.events, now_ms=self.now_ms, **options)

    def text(self, columns: int = 120, *, full: bool = False, **options: Any) -> str:
        """The story as a person without colour reads it."""
        drawn = self.timeline(**options)
        return "\n".join(
            line.rstrip().text for line in timeline_lines(drawn, columns, self.now_ms, full=full)
        )

    def pair(self, **options: Any) -> Pair:
        """The only pair."""
        (pair,) = (row for row in self.timeline(**options).rows if isinstance(row, Pair))
        return pair

    def notes(self, **options: Any) -> list[Note]:
        """The rows of one line."""
        return [row for row in self.timeline(**options).rows if isinstance(row, Note)]

    def gaps(self, **options: Any) -> list[Gap]:
        """The pauses."""
        return [row for row in self.timeline(**options).rows if isinstance(row, Gap)]


def words(text: str) -> str:
    """The text on one line with single spaces, so that a sentence is found wherever it was wrapped."""
    inner = "".join(" " if character in "┌┐└┘│┊─\u2571" else character for character in text)
    return " ".join(inner.split())


def right_half(text: str) -> str:
    """What stands right of the perforation, on one line."""
    return words("\n".join(line.partition("┊")[2] for line in text.split("\n")))
