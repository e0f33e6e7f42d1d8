"""Doubt as a run sees it: its effects without an outcome, the reviews it waits for, and runs left by their worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from counterfoil.approvals.standing import open_approvals
from counterfoil.effects.rows import EFFECTS, OPEN_STATES, REVIEWS
from counterfoil.effects.state import IN_REVIEW
from counterfoil.flow.requests import Events, Flow, Read, RowOf, Rows
from counterfoil.runtime import events
from counterfoil.runtime.events import Said, WaitCause
from counterfoil.runtime.resume import COUNTED_TYPES, tally_of
from counterfoil.runtime.state import RunState
from counterfoil.store.rows import Key, Row

PAGE_ROWS = 500
WAITS_MAX = 64
"""Ids that ``run.suspended`` names (FORMAT 1: a list of at most 64)."""


def open_effects(stream_id: str, run_id: str) -> Flow[list[Row]]:
    """The run's effects that are in doubt or in review, in the order they were intended."""
    found: list[Row] = []
    after: Key | None = None
    while True:
        page: list[Row] = yield Read(Rows(EFFECTS.name, "by_run", (stream_id, run_id), PAGE_ROWS, after))
        found += [row for row in page if row["state"] in OPEN_STATES]
        if len(page) < PAGE_ROWS:
            return found
        last = page[-1]
        after = (stream_id, run_id, last["first_sequence"], last["effect_id"])


def waiting_on(effects: Sequence[Row]) -> tuple[WaitCause, tuple[str, ...]]:
    """What a run with these open effects waits for: people first, then the outcome of effects."""
    reviews = [str(row["review_id"]) for row in effects if row["state"] in IN_REVIEW and row["review_id"]]
    if reviews:
        return "review", tuple(reviews[:WAITS_MAX])
    return "effect", tuple(str(row["effect_id"]) for row in effects[:WAITS_MAX])


def open_reviews(waits_for: Iterable[str]) -> Flow[tuple[str, ...]]:
    """Those of these ids that are reviews nobody has settled yet."""
    found = []
    for name in waits_for:
        if name.startswith("rev_"):
            row: Row | None = yield Read(RowOf(REVIEWS.name, (name,)))
            if row is not None and row["state"] == "open":
                found.append(name)
    return tuple(found)


def _left_waiting(stream_id: str, run_id: str) -> Flow[tuple[WaitCause, tuple[str, ...]]]:
    """What a run waits for whose worker could not say so itself; its input at least."""
    effects = yield from open_effects(stream_id, run_id)
    if effects:
        return waiting_on(effects)
    asked = yield from open_approvals(run_id)
    waits_for = tuple(approval.approval_id for approval in asked[:WAITS_MAX])
    return ("approval", waits_for) if waits_for else ("input", ())


def parked(stream_id: str, run: RunState) -> Flow[Said]:
    """What becomes of a run whose worker vanished, when another input takes the slot.

    One whose input can be delivered again is suspended and goes on then. Nobody could ask for the other, so it ends
    ``interrupted``; what it left in doubt is recovered all the same (DESIGN 6).
    """
    if run.resumable:
        cause, waits_for = yield from _left_waiting(stream_id, run.run_id)
        return events.run_suspended(cause, waits_for, "its worker vanished; another input took the slot")
    record = yield Read(Events(stream_id, types=COUNTED_TYPES, run_id=run.run_id))
    return events.run_finished("interrupted", tally_of(record).data)
