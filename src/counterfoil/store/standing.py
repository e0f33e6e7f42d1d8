"""Standing: whether a ledger may be written, or is a copy under way, has moved on, or came out of a backup (FORMAT 14)."""

from __future__ import annotations

from typing import Final, Literal

from counterfoil.errors import ConflictError, CopyUnfinished, LedgerMoved, LossNotAccepted

Standing = Literal["open", "copying", "moved", "restored"]

STANDINGS: Final[tuple[Standing, ...]] = ("copying", "moved", "restored")
"""Those in which nobody appends."""

MARK: Final = "!"
"""Begins the name under which an engine keeps a standing, beside the names of its row tables."""

MARK_VERSION: Final = 1_000_003
"""Larger than any sum of table versions, so that a writer that adds them up sees at once that something is new."""


def standing_of(names: set[str]) -> Standing:
    """The standing that these marks tell."""
    for standing in STANDINGS:
        if MARK + standing in names:
            return standing
    return "open"


def refusal(standing: Standing, shown: str) -> ConflictError | None:
    """Why nothing is appended in this standing; None where it may be."""
    match standing:
        case "copying":
            return CopyUnfinished(
                f"{shown} is a copy that is not whole yet; nothing is appended to it", place=shown
            )
        case "moved":
            return LedgerMoved(f"{shown} was copied to another place and goes on there", place=shown)
        case "restored":
            return LossNotAccepted(
                f"{shown} came out of a backup: what was recorded since is not in it, and nobody has accepted that",
                place=shown,
            )
        case _:
            return None
