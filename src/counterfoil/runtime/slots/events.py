"""The events of state slots as typed constructors: what is public, what is content (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from counterfoil.runtime.events import Said

SET: Final = "state.set"
CLEARED: Final = "state.cleared"
TYPES: Final = frozenset({SET, CLEARED})


def state_set(slot: str, version: int, tag: str, content: Mapping[str, Any]) -> Said:
    """A slot holds another value. ``tag`` tells equal values of one slot, and nothing else about them."""
    return Said(SET, {"slot": slot, "version": version, "value": tag}, content)


def state_cleared(slot: str, version: int, content: Mapping[str, Any]) -> Said:
    """A slot holds nothing any more; clearing counts as a version."""
    return Said(CLEARED, {"slot": slot, "version": version}, content)
