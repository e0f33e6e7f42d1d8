"""What it means that an effect stands in a book or does not: a pure rule (DESIGN 7)."""

from __future__ import annotations

from typing import Final, Literal

from counterfoil.effects.state import IN_DOUBT

Kind = Literal[
    "matched",
    "not_done",
    "under_way",
    "settles",
    "in_doubt",
    "only_in_ledger",
    "only_in_book",
    "amount_differs",
    "booked_twice",
    "booked_all_the_same",
    "contradicted",
    "erased",
    "elsewhere",
]

AGREE: Final = frozenset({"matched", "not_done", "erased", "elsewhere", "under_way"})
"""Ledger and book do not differ, as far as can be told."""

OPEN: Final = frozenset({"settles", "in_doubt", "contradicted"})
"""The ledger does not know yet, or a person has to say."""

DIFFER: Final = frozenset(
    {"only_in_ledger", "only_in_book", "amount_differs", "booked_twice", "booked_all_the_same"}
)
"""Ledger and book say different things."""


def judge_effect(
    state: str, outcome: str | None, *, lines: int, same_amount: bool, under_way: bool = False
) -> Kind:
    """What an effect in this state means that stands on so many booked lines.

    ``same_amount`` is True where no amounts are compared. An effect whose call may be under way is nobody's mistake.
    """
    if lines > 1:
        return "booked_twice"
    if state == "contradicted":
        return "contradicted"
    if lines and not same_amount:
        return "amount_differs"
    if state in IN_DOUBT or state == "in_review":
        if under_way:
            return "under_way"
        return "settles" if lines else "in_doubt"
    if state == "succeeded" or (state == "settled" and outcome == "succeeded"):
        return "matched" if lines else "only_in_ledger"
    return "booked_all_the_same" if lines else "not_done"
