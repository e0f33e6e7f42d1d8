"""Closing a repair: by itself when everything is undone, else by a person who says how far it came (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from msgspec import Struct

from counterfoil.errors import GuardFailed, RepairClosed, RepairUnsettled
from counterfoil.flow.drafting import Outsider, Person
from counterfoil.flow.requests import Append, Entry, Flow, NewId, Now, UnitDraft
from counterfoil.repair import events
from counterfoil.repair.decide import StepState, judge_closing
from counterfoil.repair.look import Look, look_at
from counterfoil.repair.plan import FindTool
from counterfoil.repair.standing import RepairStanding
from counterfoil.repair.state import RepairResult
from counterfoil.store.rows import Index, RowIs

OPEN = frozenset({"open"})

TRIES_MAX = 16
"""How often a closing looks again because the repair moved between reading and writing."""


class Word(Struct, frozen=True):
    """What a person says who closes a repair by hand."""

    closer: Person
    reason: Any
    residual_impact: Any = None


def close_repair(look: Look, result: RepairResult, word: Word | None = None) -> Flow[bool]:
    """Close a repair; False if it was closed like this before. Without a ``word`` it closes by itself.

    Raises ``RepairClosed`` for another result, ``RepairUnsettled`` while a compensation has no outcome or a run of it is
    open, or ``GuardFailed`` when the repair moved meanwhile.
    """
    repair = look.repair
    states: list[StepState] = [step.state for step in look.steps]
    judged = judge_closing(repair.state, result, states, run_open=look.run_open, by_hand=word is not None)
    if judged == "same":
        return False
    if judged != "close":
        _refuse(judged, look)
    residual = None if word is None else word.residual_impact
    end = events.End(
        repair.repair_id,
        repair.opened_event_id,
        result,
        [step.effect_id for step in look.steps if step.state == "done" and step.effect_id is not None],
        look.told.residual_impact if residual is None else residual,
        None if word is None else word.reason,
        None if word is None else word.closer,
    )
    event_id: str = yield NewId("evt")
    now: int = yield Now()
    person = None if word is None else word.closer
    draft = events.closed(Outsider(event_id, now, look.told.event.header.run_id, person), end)
    yield Append(UnitDraft((Entry(repair.stream_id, (draft,)),), _guards(repair)))
    return True


def _guards(repair: RepairStanding) -> tuple[RowIs, ...]:
    unchanged = repair.unchanged
    return (RowIs(unchanged.table, unchanged.key, OPEN, unchanged.version),)


def _refuse(judged: str, look: Look) -> NoReturn:
    repair = look.repair
    if judged == "closed":
        raise RepairClosed(
            f"repair {repair.repair_id} is closed as {repair.state}",
            hint="what was closed stays; correct the closing event, or repair the compensation",
            repair_id=repair.repair_id,
            state=repair.state,
        )
    if judged == "running":
        raise RepairUnsettled(
            f"run {look.run_id} of repair {repair.repair_id} is open{_waits(look.waits_for)}",
            hint=f"end it first: answer what it waits for, then `counterfoil repair resume {repair.repair_id}`",
            repair_id=repair.repair_id,
            run_id=look.run_id,
        )
    unsettled = [step.effect_id for step in look.steps if step.state in ("in_doubt", "in_review")]
    raise RepairUnsettled(
        f"compensation {unsettled[0]} of repair {repair.repair_id} has no outcome yet",
        hint="`counterfoil recover` and `counterfoil review ls` lead out of the doubt",
        repair_id=repair.repair_id,
        effect_id=unsettled[0],
    )


def _waits(waits_for: Sequence[str]) -> str:
    return f" and waits for {', '.join(waits_for)}" if waits_for else ""


def close_by_hand(
    index: Index, repair_id: str, find_tool: FindTool, result: RepairResult, word: Word
) -> Flow[bool]:
    """Close a repair as a person says, by how it stands when that is recorded. Raises as :func:`close_repair`."""
    for _ in range(TRIES_MAX):
        look = yield from look_at(index, repair_id, find_tool)
        try:
            return (yield from close_repair(look, result, word))
        except GuardFailed:
            continue
    raise RepairUnsettled(
        f"repair {repair_id} kept changing while it was closed", hint="look at it and decide again"
    )


def closes_as(look: Look) -> RepairResult:
    """How a repair closes by itself whose every call is done. What nothing undoes stays so, whatever followed."""
    return "irreversible" if look.told.irreversible else "repaired"


def close_by_itself(look: Look) -> Flow[None]:
    """Close a repair whose every call is done; somebody else may be a moment faster."""
    try:
        yield from close_repair(look, closes_as(look))
    except GuardFailed:
        return
