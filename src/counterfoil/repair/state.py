"""The states of a repair and what moves it: one table that the fold and the rows both follow (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

RepairResult = Literal["repaired", "partial", "irreversible"]
"""``repaired``: undone. ``partial``: some of it is. ``irreversible``: nothing can undo it, whatever followed."""

RepairState = Literal["open", "repaired", "partial", "irreversible"]

RESULTS: Final[tuple[str, ...]] = get_args(RepairResult)
STATES: Final[tuple[str, ...]] = get_args(RepairState)

AGAIN: Final = frozenset({"partial", "irreversible"})
"""Ends after which another repair of the same thing may be opened, with another remedy."""


class Move(NamedTuple):
    """What one kind of event does: the state it leads to, from those states only; any other stays as it is."""

    to: RepairState
    out_of: frozenset[str]


MOVES: Final[Mapping[str, Move]] = {
    f"repair.closed {result}": Move(result, frozenset({"open"})) for result in get_args(RepairResult)
}


def move_of(event_type: str, data: Mapping[str, Any]) -> Move | None:
    """What an event of this type and public data does to its repair, or None."""
    return MOVES.get(f"{event_type} {data.get('result')}")


class Repair(NamedTuple):
    """One repair as its events tell it, from public fields alone (DESIGN 2.7)."""

    repair_id: str
    supersedes: str
    effect_id: str | None
    state: RepairState = "open"
    compensations: tuple[str, ...] = ()


def evolve(repair: Repair | None, event_type: str, data: Mapping[str, Any]) -> Repair | None:
    """The repair after one more of its events. An event that does not fit the state leaves it as it is."""
    if repair is None:
        if event_type != "repair.opened":
            return None
        return Repair(data["repair_id"], data["supersedes"], data.get("effect_id"))
    move = move_of(event_type, data)
    if move is None or repair.state not in move.out_of:
        return repair
    return repair._replace(state=move.to, compensations=tuple(data["compensations"]))
