"""The slots of a conversation folded from header data alone (DESIGN 2.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from counterfoil.runtime.slots.events import CLEARED, TYPES

IS_SET: Final = "set"
IS_CLEARED: Final = "cleared"


class Mark(Struct, frozen=True):
    """Where a slot stands: ``set`` or ``cleared``, by which version, recorded at which sequence."""

    slot: str
    state: str
    version: int
    sequence: int

    @property
    def holds(self) -> bool:
        """Whether there is a value."""
        return self.state == IS_SET


Slots = Mapping[str, Mark]


def evolve(slots: Slots, event_type: str, data: Mapping[str, Any], sequence: int) -> Slots:
    """The slots after one more event. Events of other features leave them as they are; needs no content."""
    if event_type not in TYPES:
        return slots
    state = IS_CLEARED if event_type == CLEARED else IS_SET
    return {**slots, data["slot"]: Mark(data["slot"], state, data["version"], sequence)}
