"""Opening a repair: what is superseded, why, by whom and with which plan, on record before anything is undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from msgspec import Struct

from counterfoil.core.values import to_json
from counterfoil.effects.compensation import PlannedCall
from counterfoil.effects.past import DECIDING
from counterfoil.effects.standing import Standing, effect_now, pointed_event
from counterfoil.effects.state import review_of
from counterfoil.errors import GuardFailed, InputError, NotRepairable, RepairedAlready
from counterfoil.flow.drafting import Outsider, Person
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Append, Entry, EventsById, Flow, NewId, Now, Read, UnitDraft
from counterfoil.repair import events
from counterfoil.repair.decide import Before, judge_opening
from counterfoil.repair.plan import Declared, FindTool, declared_for, planned
from counterfoil.repair.rows import subject_of
from counterfoil.repair.standing import Last, last_repair, told

TRIES_MAX = 16
"""How often an opening looks again because the effect or its repairs moved between reading and writing."""


class Target(Struct, frozen=True):
    """What is to be repaired: an effect, or any other event of this stream."""

    stream_id: str
    effect_id: str | None = None
    event_id: str | None = None


class Wanted(Struct, frozen=True):
    """What whoever opens a repair says. ``calls`` None: those that the effect's tool declares."""

    opener: Person
    owner: Person
    reason: str
    evidence: Any = None
    residual_impact: Any = None
    calls: Sequence[PlannedCall] | None = None


class Opened(Struct, frozen=True):
    """The repair that was opened. ``repeated``: by the same person for the same reason before."""

    repair_id: str
    repeated: bool = False


def open_repair(target: Target, wanted: Wanted, find_tool: FindTool) -> Flow[Opened]:
    """Open a repair. Opening it again, by the same person for the same reason, gives the same one.

    Raises ``RepairedAlready``, ``NotRepairable`` for what is in doubt, in review or was not done, ``ToolNotFound`` or an
    InputError; nothing is written then.
    """
    for _ in range(TRIES_MAX):
        effect = None if target.effect_id is None else (yield from effect_now(target.effect_id))
        supersedes, run_id = yield from _superseded(target, effect)
        last = yield from last_repair(subject_of(supersedes, target.effect_id))
        before = yield from _before(last, wanted)
        judged = judge_opening(
            None if effect is None else effect.state, None if effect is None else effect.outcome, before
        )
        if judged == "same":
            assert last.repair is not None, "there is one before"
            return Opened(last.repair.repair_id, repeated=True)
        if judged != "open":
            _refuse(judged, effect, last)
        declared = yield from _declared(effect, wanted, find_tool)
        steps = planned(declared.calls)
        repair_id: str = yield NewId("rep")
        case = events.Case(
            repair_id,
            supersedes,
            target.effect_id,
            wanted.reason,
            wanted.opener,
            wanted.owner,
            wanted.evidence,
            wanted.residual_impact,
            declared.irreversible,
            [step.to_json() for step in steps],
        )
        event_id: str = yield NewId("evt")
        now: int = yield Now()
        draft = events.opened(Outsider(event_id, now, run_id, wanted.opener), case)
        guards = (*last.guards, *(() if effect is None else (effect.unchanged,)))
        try:
            yield Append(UnitDraft((Entry(target.stream_id, (draft,)),), guards))
        except GuardFailed:
            continue
        return Opened(repair_id)
    raise RepairedAlready("what is to be repaired kept changing", hint="look at it and decide again")


def _superseded(target: Target, effect: Standing | None) -> Flow[tuple[str, str | None]]:
    """The event that is superseded, which is the one that decided the effect, and its run."""
    if effect is not None:
        sequence = effect.outcome_sequence
        if sequence is None:
            return effect.intended_event_id, effect.run_id
        decided = yield from pointed_event(effect, sequence, DECIDING)
        return decided.event_id, effect.run_id
    assert target.event_id is not None, "an effect that is named has a row"
    found: list[Event] = yield Read(EventsById(target.stream_id, (target.event_id,)))
    return target.event_id, found[0].header.run_id if found else None


def _before(last: Last, wanted: Wanted) -> Flow[Before | None]:
    if last.repair is None:
        return None
    opening = yield from told(last.repair)
    same = (opening.opener, opening.reason) == (wanted.opener.name, to_json(wanted.reason, "reason"))
    return Before(last.repair.state, same)


def _declared(effect: Standing | None, wanted: Wanted, find_tool: FindTool) -> Flow[Declared]:
    if wanted.calls is None:
        return Declared() if effect is None else (yield from declared_for(effect, find_tool))
    tool = None if effect is None else find_tool(effect.tool, None)
    return Declared(tuple(wanted.calls), None if tool is None else tool.irreversible)


def _refuse(judged: str, effect: Standing | None, last: Last) -> NoReturn:
    repair_id = None if last.repair is None else last.repair.repair_id
    if judged in ("open_already", "repaired"):
        assert last.repair is not None, "a repair before this one refuses it"
        is_open = judged == "open_already"
        raise RepairedAlready(
            f"{last.repair.subject} {'is being repaired' if is_open else 'was repaired'} by {repair_id}",
            hint=f"`counterfoil repair {'resume' if is_open else 'show'} {repair_id}`"
            + (" goes on with it" if is_open else " shows how; repair its compensation if that was wrong"),
            repair_id=repair_id,
            state=last.repair.state,
        )
    if effect is None:
        raise InputError("only an effect is judged by its state")
    about = {"effect_id": effect.effect_id, "state": effect.state}
    match judged:
        case "in_doubt":
            raise NotRepairable(
                f"effect {effect.effect_id} is in doubt, and what may not have happened is not undone",
                hint="`counterfoil recover` finds out what became of it",
                **about,
            )
        case "in_review":
            review_id = review_of(effect.effect_id)
            why = "is in review"
            if effect.state == "contradicted":
                why = "has two answers on record that contradict each other"
            raise NotRepairable(
                f"effect {effect.effect_id} {why}: a person has to say first whether it happened",
                hint=f"`counterfoil review show {review_id}` says how to settle it",
                review_id=review_id,
                **about,
            )
        case _:
            raise NotRepairable(
                f"effect {effect.effect_id} was not carried out ({effect.outcome or effect.state}),"
                " so there is nothing to undo",
                hint="if the record is wrong, correct it: `counterfoil repair correct EVENT`",
                **about,
            )
