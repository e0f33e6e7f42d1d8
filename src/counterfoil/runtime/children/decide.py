"""What the end of a run means for the children of its conversation: the fate table of ADR 0175 as a pure rule."""

from __future__ import annotations

from typing import Final, Literal, get_args

from counterfoil.core.event_types import TERMINALS

ChildState = Literal["spawned", "running", "suspended", "settled", "stopped", "lost", "purged"]
CHILD_STATES: Final[tuple[ChildState, ...]] = get_args(ChildState)
"""``spawned``: on record and not begun; ``settled``: its run ended by itself; ``purged``: its conversation is gone."""

OVER: Final = frozenset({"settled", "stopped", "lost"})
STOPPING: Final = frozenset({"interrupted", "cancelled", "timeout", "shutdown"})
"""Terminals that stop the conversation's work on purpose. After every other one the conversation goes on, a retry may
follow, or the run that took this one's place has the children now."""

Fate = Literal["stopped", "lost", "left", "kept"]


def fate(terminal: str, state: ChildState, *, reachable: bool) -> Fate:
    """What becomes of a child when a run of its parent conversation ends so; ``kept``: it is over already.

    Reachable is a child that can be ended for certain: nobody carries it out, so the ledger ends it on record, or its
    host has reached whoever does.
    """
    if terminal not in TERMINALS:
        raise ValueError(f"{terminal} is no terminal of a run")
    if state in OVER:
        return "kept"
    if terminal not in STOPPING:
        return "left"
    return "stopped" if reachable else "lost"
