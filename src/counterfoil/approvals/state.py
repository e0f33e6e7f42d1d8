"""The states of an approval and what moves it: one table that the fold and the rows both follow (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

NEEDED_MAX: Final = 8
"""People who have to agree, at most."""

Awaits = Literal["answer", "use", "nothing"]
"""What an approval waits for: people, its run, or nothing any more."""


def pending(missing: int) -> str:
    """The state in which so many people have yet to agree: ``pending`` for one, ``pending_2`` for two, …

    The count is part of the state, so that a grant moves it by one whatever the writer knew (DESIGN 2.7).
    """
    return "pending" if missing == 1 else f"pending_{missing}"


PENDING: Final = frozenset(pending(missing) for missing in range(1, NEEDED_MAX + 1))
OPEN: Final = PENDING | {"granted"}
"""States in which it may still be used, now or after an answer."""

REFUSED: Final = frozenset({"denied", "revoked", "expired"})
STATES: Final = ("pending", "granted", "denied", "revoked", "expired", "consumed")
"""States as people see them; ``pending`` stands for all of :data:`PENDING`."""


class Move(Struct, frozen=True):
    """What one kind of event does: the state it leads to, from those states only; any other stays as it is."""

    to: str
    out_of: frozenset[str]
    missing: int = 0

    @property
    def awaits(self) -> Awaits:
        """What the approval waits for afterwards."""
        return "answer" if self.missing else "use" if self.to == "granted" else "nothing"


# From the last missing grant to the first, so that of these moves, made in order, only one applies.
_GRANTS: Final = tuple(
    Move(pending(missing - 1) if missing > 1 else "granted", frozenset({pending(missing)}), missing - 1)
    for missing in range(1, NEEDED_MAX + 1)
)

MOVES: Final[Mapping[str, tuple[Move, ...]]] = {
    "approval.granted": _GRANTS,
    "approval.denied": (Move("denied", PENDING),),
    # An approval for a whole run has been used and may be used again, so it can still be taken back.
    "approval.revoked": (Move("revoked", OPEN | {"consumed"}),),
    "approval.expired": (Move("expired", OPEN),),
    "approval.consumed": (Move("consumed", frozenset({"granted"})),),
}
"""``approval.mismatched`` changes no state: what was approved may still be done, and nothing else."""


class Approval(Struct, frozen=True):
    """One approval as its events tell it, from public fields alone (DESIGN 2.7)."""

    approval_id: str
    effect_id: str
    binding: str
    scope: str
    state: str
    missing: int


def evolve(approval: Approval | None, event_type: str, data: Mapping[str, Any]) -> Approval | None:
    """The approval after one more of its events. An event that does not fit the state leaves it as it is."""
    if approval is None:
        return _requested(data) if event_type == "approval.requested" else None
    for move in MOVES.get(event_type, ()):
        if approval.state in move.out_of:
            return replace(approval, state=move.to, missing=move.missing)
    return approval


def _requested(data: Mapping[str, Any]) -> Approval:
    return Approval(
        approval_id=data["approval_id"],
        effect_id=data["effect_id"],
        binding=data["binding"],
        scope=data["scope"],
        state=pending(data["needed"]),
        missing=data["needed"],
    )
