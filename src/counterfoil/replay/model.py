"""The model of a replay: a stub that gives the decisions it was given, in order, and keeps what it was told (seed 000)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from counterfoil.errors import Divergence
from counterfoil.journal.event import TurnEvent


class ToolUse(Struct, frozen=True):
    """The decision to call a tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


class Answer(Struct, frozen=True):
    """The decision to answer, which ends a turn."""

    text: Any


Decision = ToolUse | Answer


class ReplayModel:
    """Gives its decisions one by one; ``told`` holds what it was asked with each time.

    A journal holds digests, so the decisions come from a fixture, a recorded run, or whoever wrote the stub; the
    journal supplies what they are compared with.
    """

    def __init__(self, decisions: Iterable[Decision]) -> None:
        self._left = list(decisions)
        self.told: list[Any] = []

    def __call__(self, told: Any) -> Decision:
        """The next decision. Raises ``Divergence`` when the code asks once more than the record did."""
        self.told.append(told)
        if not self._left:
            raise Divergence(
                f"the code asks its model a {len(self.told)}th time, and there is no decision left",
                hint="the code takes another way than the turn that the decisions were recorded of",
            )
        return self._left.pop(0)

    @property
    def left(self) -> Sequence[Decision]:
        """Decisions that nobody asked for."""
        return tuple(self._left)


class Replayed(Struct, frozen=True):
    """A turn that was run again: its events, and what it answered."""

    events: list[TurnEvent]
    answer: Any
