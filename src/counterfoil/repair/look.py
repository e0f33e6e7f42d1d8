"""Looking at a repair as a whole: its case, how each call of its plan stands, and the run that makes them."""

from __future__ import annotations

from msgspec import Struct

from counterfoil.flow.requests import Flow, Read, RowOf
from counterfoil.repair.plan import FindTool, StepStanding, begun, steps_now, steps_of
from counterfoil.repair.standing import RepairStanding, Told, repair_now, told
from counterfoil.runtime import rows
from counterfoil.runtime.state import ABSORBED, FINISHED, REJECTED, SUPERSEDED
from counterfoil.store.rows import Index, Row

TRIES_MAX = 10_000
"""Runs of one repair, at most; each ended without success, or there would be no next."""


class Look(Struct, frozen=True):
    """A repair as it stands. ``dedupe`` names the run to enter: the open one, else the next.

    Where its content is gone nobody knows the plan: then ``steps`` are the compensations that were begun.
    """

    repair: RepairStanding
    told: Told
    steps: tuple[StepStanding, ...]
    dedupe: str
    run_open: bool = False
    run_id: str | None = None
    waits_for: tuple[str, ...] = ()


def look_at(index: Index, repair_id: str, find_tool: FindTool) -> Flow[Look]:
    """Everything there is to know before the next move.

    Raises ``RepairNotFound``.
    """
    repair = yield from repair_now(repair_id)
    opening = yield from told(repair)
    if opening.readable:
        steps = yield from steps_now(index, repair, steps_of(opening.content), find_tool)
    else:
        steps = yield from begun(repair)
    for number in range(1, TRIES_MAX):
        dedupe = f"{repair_id}/{number}"
        admission = yield from _admission(index, repair, dedupe)
        if admission is None:
            return Look(repair, opening, tuple(steps), dedupe)
        if admission["state"] in {ABSORBED, SUPERSEDED, REJECTED}:
            continue
        run: Row | None = yield Read(RowOf(rows.RUNS, (admission["run_id"] or "",)))
        if run is None:
            return Look(repair, opening, tuple(steps), dedupe, run_open=True)
        if run["state"] != FINISHED:
            waits = str(run["waits_for"] or "").split()
            return Look(repair, opening, tuple(steps), dedupe, True, str(run["run_id"]), tuple(waits))
    raise AssertionError(f"repair {repair_id} was tried {TRIES_MAX} times")


def _admission(index: Index, repair: RepairStanding, dedupe: str) -> Flow[Row | None]:
    key = rows.key_index(index, dedupe, repair.stream_id)
    found: Row | None = yield Read(RowOf(rows.ADMISSION_KEYS, (repair.tenant, key)))
    if found is None:
        return None
    admission: Row | None = yield Read(RowOf(rows.ADMISSIONS, (found["admission_id"],)))
    return admission
