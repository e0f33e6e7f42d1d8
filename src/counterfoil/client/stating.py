"""The state slots of conversations, read from outside a run, as they are or as they were at a sequence."""

from __future__ import annotations

from typing import Any

from counterfoil.client.handle import Handle
from counterfoil.core.bounds import check_limit, check_texts
from counterfoil.core.forms import hidden_name, is_label
from counterfoil.core.values import from_json
from counterfoil.errors import InvalidForm
from counterfoil.flow.drive import drive
from counterfoil.flow.event import Event
from counterfoil.runtime.slots.reading import event_of, name_in, slots_at, versions_of
from counterfoil.runtime.slots.rows import SLOTS
from counterfoil.runtime.slots.state import Mark

LAST = 2**53 - 1
"""Later than any sequence."""


class Slot:
    """A state slot as one event left it: its public fields, and the value when it is asked for."""

    def __init__(self, mark: Mark, event: Event) -> None:
        self._mark = mark
        self.event: Event = event
        """The ``state.set`` that set it, or the ``state.cleared`` that cleared it."""

    def __repr__(self) -> str:
        return f"<Slot {self._mark.slot} version {self.version} at sequence {self.sequence}>"

    @property
    def name(self) -> str:
        """The name the code gave it; where that stands in content that cannot be had, its keyed digest (``~…``)."""
        return name_in(self.event.outline_or_none() or {}, self._mark.slot)

    @property
    def holds(self) -> bool:
        """Whether it holds a value; False for one that was cleared."""
        return self._mark.holds

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
        """The run that set or cleared it."""
        return self.event.header.run_id

    @property
    def value(self) -> Any:
        """What it holds, None where it was cleared.

        Raises ``ContentUnavailable`` where that is erased, withheld, missing or damaged.
        """
        if not self.holds:
            return None
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
        stream_id = self.stream_named(stream)
        marks = drive(slots_at(stream_id, LAST if at is None else at), self.ports)
        return [Slot(mark, drive(event_of(stream_id, mark), self.ports)) for mark in marks if mark.holds]

    def slot_history(self, stream: str, name: str, limit: int | None = None) -> list[Slot]:
        """Every version of one slot, the newest first: what set or cleared it, and when; ``name`` as the code gave it.

        The keyed digest (``~…``) that stands in the open for a name that is no label names it too. Empty for a slot that was
        never set. Raises ``StreamNotFound``.
        """
        check_limit(limit)
        check_texts("what a slot is found by", (stream, name))
        stream_id = self.stream_named(stream)
        versions = drive(versions_of(stream_id, self._slot_named(stream_id, name), limit), self.ports)
        return [Slot(mark, drive(event_of(stream_id, mark), self.ports)) for mark in versions]

    def _slot_named(self, stream_id: str, name: str) -> str:
        """What stands for a name in the open."""
        if is_label(name) or self.store.get(SLOTS, (stream_id, name)) is not None:
            return name
        return hidden_name(self.ports.material(stream_id), name)
