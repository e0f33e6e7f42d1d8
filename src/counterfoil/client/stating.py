"""The state slots of conversations, read from outside a run, as they are or as they were at a sequence."""

from __future__ import annotations

from typing import Any

from counterfoil.client.handle import Handle
from counterfoil.core.values import from_json
from counterfoil.errors import InvalidForm, StreamNotFound
from counterfoil.flow.drive import drive
from counterfoil.flow.event import Event
from counterfoil.runtime.slots.reading import event_of, name_in, slots_at
from counterfoil.runtime.slots.state import Mark

LAST = 2**53 - 1
"""Later than any sequence."""


class Slot:
    """A state slot that holds a value: its event's public fields, and the value when it is asked for."""

    def __init__(self, mark: Mark, event: Event) -> None:
        self._mark = mark
        self.event: Event = event
        """The ``state.set`` that set it."""

    def __repr__(self) -> str:
        return f"<Slot {self._mark.slot} version {self.version} at sequence {self.sequence}>"

    @property
    def name(self) -> str:
        """The name the code gave it; where that stands in content that cannot be had, its keyed digest (``~…``)."""
        return name_in(self.event.outline_or_none() or {}, self._mark.slot)

    @property
    def version(self) -> int:
        """1 for the first value; clearing counts too."""
        return self._mark.version

    @property
    def sequence(self) -> int:
        """Where in the conversation it was set."""
        return self._mark.sequence

    @property
    def run_id(self) -> str | None:
        """The run that set it."""
        return self.event.header.run_id

    @property
    def value(self) -> Any:
        """What it holds. Raises ``ContentUnavailable`` where that is erased, withheld, missing or damaged."""
        return from_json(self.event.content["value"])


class Stating(Handle):
    """The state slots of a ledger's conversations."""

    def slots(self, stream: str, at: int | None = None) -> list[Slot]:
        """The state slots of a conversation that hold a value, by name or stream id; ``at`` a sequence as they were then.

        Found by rows: nothing but the events that set them is read. Raises ``StreamNotFound``.

        >>> ledger = counterfoil.open(":memory:")
        >>> with ledger.run("agent", conversation="case-8472") as run:
        ...     run.state["plan"] = "look up the order"
        >>> [(slot.name, slot.version, slot.value) for slot in ledger.slots("case-8472")]
        [('plan', 1, 'look up the order')]
        >>> ledger.close()
        """
        if at is not None and (type(at) is not int or at < 0):
            raise InvalidForm("at is a sequence: 0 or more", argument="at")
        stream_id = self._find(stream)
        if stream_id is None:
            raise StreamNotFound(
                f"there is no conversation {stream!r} for tenant {self.tenant} in {self.place}",
                hint="`counterfoil ls` lists them",
            )
        marks = drive(slots_at(stream_id, LAST if at is None else at), self.ports)
        return [Slot(mark, drive(event_of(stream_id, mark), self.ports)) for mark in marks if mark.holds]
