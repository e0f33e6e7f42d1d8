"""What a run sees of the slots: those of the moment it began, or last refreshed, and what it set itself since.

So code that runs again sees what it saw, without a record of every look: nobody but the run itself changes a slot
while it holds the conversation, and what others did while it waited shows after ``run.state.refresh()``, which is a
memoised step.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from counterfoil.errors import RunNotFound
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow, Read, RowOf
from counterfoil.runtime.recording import shown_name
from counterfoil.runtime.rows import RUNS
from counterfoil.runtime.slots.events import TYPES
from counterfoil.runtime.slots.reading import event_of, name_in, slot_at, slots_at
from counterfoil.runtime.slots.state import Mark
from counterfoil.store.rows import Row


class Held(Struct, frozen=True):
    """A slot as a run sees it. ``value`` is in its JSON form; ``holds`` False: it was never set, or was cleared."""

    version: int
    holds: bool = False
    value: Any = None


_NEVER: Final = Held(0)


class Book:
    """The slots of one entry into a run (``scope.part(Book)``)."""

    def __init__(self, scope: RunScope) -> None:
        self._history = scope.history
        self.base: int | None = None
        self.own: dict[str, Held] = {}
        self.names: dict[str, str] = {}
        self.read: dict[str, Held] = {}
        self.used: dict[str, int] = {}

    def changed(self, slot: str, name: str, held: Held) -> None:
        """The run itself set or cleared it. Siblings that run again may come in another order: the last version counts."""
        if (known := self.own.get(slot)) is not None and known.version > held.version:
            return
        self.own[slot] = held
        self.names[slot] = name
        self.used[slot] = held.version

    def made_before(self, slot: str) -> set[int]:
        """The versions of this slot that earlier entries of the run made."""
        return {
            int(event.data["version"])
            for event in self._history
            if event.type in TYPES and event.data["slot"] == slot
        }

    def moved_to(self, sequence: int) -> None:
        """From here on the run sees the slots as of this sequence, which has its own changes too."""
        self.base = sequence
        self.own.clear()
        self.read.clear()


def slots_used(scope: RunScope) -> dict[str, int]:
    """The version of each slot that the run has read or set so far, for ``provider.requested``; asks nothing."""
    return dict(sorted(scope.part(Book).used.items()))


def look_at(scope: RunScope, name: str) -> Flow[Held]:
    """A slot as this run sees it now."""
    book = scope.part(Book)
    slot = shown_name(scope, name)
    held = book.own.get(slot) or book.read.get(slot)
    if held is None:
        mark = yield from slot_at(scope.stream_id, slot, (yield from base_of(scope)))
        held = _NEVER if mark is None else (yield from held_by(scope, mark))
        book.read[slot] = held
    if held.version:
        book.used[slot] = held.version
    return held


def names_seen(scope: RunScope) -> Flow[list[str]]:
    """Names of the slots that hold a value, as this run sees them."""
    book = scope.part(Book)
    found: dict[str, str] = {}
    for mark in (yield from slots_at(scope.stream_id, (yield from base_of(scope)))):
        if mark.slot not in book.own and mark.holds:
            found[mark.slot] = yield from _name(scope, mark)
    found.update({slot: book.names[slot] for slot, held in book.own.items() if held.holds})
    return sorted(found.values())


def base_of(scope: RunScope) -> Flow[int]:
    """The sequence as of which the run sees what others set: that of its ``run.started``, or of the last refresh."""
    book = scope.part(Book)
    if book.base is None:
        row: Row | None = yield Read(RowOf(RUNS, (scope.run_id,)))
        if row is None:
            raise RunNotFound(f"there is no row of run {scope.run_id}", run_id=scope.run_id)
        book.base = int(row["started_sequence"] or 0)
    return book.base


def held_by(scope: RunScope, mark: Mark) -> Flow[Held]:
    """What a slot held at this mark, with its value."""
    if not mark.holds:
        return Held(mark.version)
    event = yield from event_of(scope.stream_id, mark)
    return Held(mark.version, holds=True, value=event.content["value"])


def _name(scope: RunScope, mark: Mark) -> Flow[str]:
    if not mark.slot.startswith("~"):
        return mark.slot
    event = yield from event_of(scope.stream_id, mark)
    return name_in(event.outline, mark.slot)
