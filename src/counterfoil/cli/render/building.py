"""A timeline under construction: the rows so far, and which row each step, effect and run has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from counterfoil.cli.render.line import Style
from counterfoil.cli.render.model import AnyRow, Note, Row
from counterfoil.core.forms import time_ms as time_ms_of
from counterfoil.errors import InvalidForm
from counterfoil.flow.event import Event

if TYPE_CHECKING:
    from counterfoil.cli.render.effect_rows import EffectBuild
    from counterfoil.cli.render.step_rows import StepBuild


class Build(Struct):
    """What the handlers of :mod:`.timeline` share."""

    now_ms: int
    ledger_option: str = ""
    by_occurred: bool = False
    live: bool = True
    rows: list[AnyRow] = field(default_factory=list)
    steps: dict[str, StepBuild] = field(default_factory=dict)
    effects: dict[str, EffectBuild] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    suspended: dict[str, int] = field(default_factory=dict)
    spoken: Note | None = None
    proposals: dict[str, Note] = field(default_factory=dict)
    children: dict[str, str] = field(default_factory=dict)
    """The agent of each child by its stream."""
    repairs: dict[str, str] = field(default_factory=dict)
    """What is undone, by the id of its repair and by that of each effect that undoes it."""
    places: dict[str, int] = field(default_factory=dict)
    """The sequence of each event by its id."""
    outside: bool = False
    latest_ms: int = 0
    waiting: str = ""
    first: int = 0
    last: int = 0
    events: int = 0

    def time(self, event: Event) -> int:
        """When the event is shown to have happened."""
        if self.by_occurred and not event.fault:
            try:
                return time_ms_of(event.header.occurred_at)
            except InvalidForm:
                return event.recorded_at_ms
        return event.recorded_at_ms

    def see(self, event: Event) -> None:
        """Count an event; those from outside the stretch do not count."""
        self.places[event.event_id] = event.sequence
        if self.outside:
            return
        self.first = self.first or event.sequence
        self.last = event.sequence
        self.events += 1
        self.latest_ms = self.time(event)

    def note(self, event: Event, glyph: str, title: str, *, style: Style = "plain") -> Note:
        """A new row of one line for this event."""
        note = Note(event.sequence, self.time(event), glyph=glyph, title=title, style=style)
        self.add(note)
        return note

    def add(self, row: AnyRow) -> None:
        """Put a row at the end, unless its event is from outside the stretch."""
        if not self.outside:
            self.rows.append(row)

    def reach(self, row: Row, event: Event) -> None:
        """One more event of a row."""
        row.reach(event.sequence, self.time(event))

    def command(self, words: str) -> str:
        """A command line that finds this ledger."""
        return f"counterfoil {words}{self.ledger_option}"
