"""The rules about repairs, pure: what may be repaired, what comes next, and when a repair may be closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from counterfoil.effects.state import IN_DOUBT, IN_REVIEW
from counterfoil.repair.state import AGAIN

# ---- may it be repaired? -----------------------------------------------------------------------------------------

NOT_DONE: Final = frozenset({"rejected", "failed"})
"""Outcomes after which there is nothing to undo."""

Opening = Literal["open", "same", "open_already", "repaired", "in_doubt", "in_review", "nothing_done"]


class Before(Struct, frozen=True):
    """The last repair of the same thing. ``same``: it was opened by this person for this reason."""

    state: str
    same: bool


def judge_opening(state: str | None, outcome: str | None, before: Before | None) -> Opening:
    """Whether a repair may be opened. ``state`` and ``outcome`` are the effect's; None for any other fact.

    What is in doubt is not undone: first it must be known whether it happened. An effect that was given up without
    being known (``abandoned``) may be: that is a person's decision, and stands with their name and reason.
    """
    if before is not None and before.same:
        return "same"
    if before is not None and before.state == "open":
        return "open_already"
    if before is not None and before.state not in AGAIN:
        return "repaired"
    if state in IN_DOUBT:
        return "in_doubt"
    if state in IN_REVIEW:
        return "in_review"
    if state is not None and (state in NOT_DONE or outcome in NOT_DONE):
        return "nothing_done"
    return "open"


# ---- what comes next? --------------------------------------------------------------------------------------------

StepState = Literal["to_do", "done", "in_doubt", "in_review", "refused"]
"""``to_do`` also after an attempt that was confirmed not done; ``refused`` is final without success."""


def step_state(state: str | None, outcome: str | None) -> StepState:
    """How a compensation stands whose effect is in this state; None: it was never intended."""
    if state is None or state == "failed":
        return "to_do"
    if state in IN_DOUBT:
        return "in_doubt"
    if state in IN_REVIEW:
        return "in_review"
    return "done" if outcome == "succeeded" else "refused"


Next = Literal["close", "play", "review", "refused", "by_hand"]


def next_step(steps: Sequence[StepState], *, run_open: bool) -> Next:
    """What to do about an open repair.

    ``run_open``: a run of it has begun and not ended, so that one is gone on with, and ends as it must. A refused
    compensation is never sent again: a person closes the repair, and may open another with another remedy.
    """
    if run_open:
        return "play"
    if not steps:
        return "by_hand"
    first = next((step for step in steps if step != "done"), None)
    match first:
        case None:
            return "close"
        case "in_review":
            return "review"
        case "refused":
            return "refused"
        case _:
            return "play"


# ---- may it be closed? -------------------------------------------------------------------------------------------

Closing = Literal["close", "same", "closed", "unsettled", "running"]


def judge_closing(
    state: str, result: str, steps: Sequence[StepState], *, run_open: bool, by_hand: bool
) -> Closing:
    """Whether a repair may be closed with this result.

    Not while a compensation is in doubt or in review: that would hide an open question behind a closed case. Nor, by
    hand, while a run of it is open: its end would act on a closed case.
    """
    if state != "open":
        return "same" if state == result else "closed"
    if any(step in ("in_doubt", "in_review") for step in steps):
        return "unsettled"
    return "running" if by_hand and run_open else "close"
