"""Typed constructors of the events about repairs and corrections: public fields named, the rest content (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.core.event import Draft, Part
from counterfoil.core.values import to_json
from counterfoil.flow.drafting import Person, Writes
from counterfoil.repair.state import RepairResult


class Case(Struct, frozen=True):
    """What ``repair.opened`` says. ``plan`` are the calls to be made, each ``{tool, tool_version, arguments}``.

    ``irreversible`` is what the tool's declaration says that nothing can undo.
    """

    repair_id: str
    supersedes: str
    effect_id: str | None
    reason: Any
    opener: Person
    owner: Person
    evidence: Any = None
    residual_impact: Any = None
    irreversible: str | None = None
    plan: Sequence[Mapping[str, Any]] = ()


def opened(by: Writes, case: Case) -> Draft:
    """The case begins. Whoever opens it and whoever owns it stand in parts of their own, under their own keys."""
    data: dict[str, Any] = {"repair_id": case.repair_id, "supersedes": case.supersedes}
    if case.effect_id is not None:
        data["effect_id"] = case.effect_id
    same = case.owner.name == case.opener.name
    content: dict[str, Any] = {
        "by": {"$part": 1},
        "owner": {"$part": 1 if same else 2},
        "reason": to_json(case.reason, "reason"),
        "plan": list(case.plan),
    }
    if case.evidence is not None:
        content["evidence"] = to_json(case.evidence, "evidence")
    if case.residual_impact is not None:
        content["residual_impact"] = to_json(case.residual_impact, "residual_impact")
    if case.irreversible is not None:
        content["irreversible"] = to_json(case.irreversible, "irreversible")
    people = (case.opener,) if same else (case.opener, case.owner)
    return _with_people(by.draft("repair.opened", data, content, causation_event_id=case.supersedes), people)


class End(Struct, frozen=True):
    """What ``repair.closed`` says. ``compensations`` are the effects that undid something."""

    repair_id: str
    opened_event_id: str
    result: RepairResult
    compensations: Sequence[str]
    residual_impact: Any = None
    reason: Any = None
    closer: Person | None = None


def closed(by: Writes, end: End) -> Draft:
    """The case ends; what remains of what was done is said again here, where it is final."""
    data = {
        "repair_id": end.repair_id,
        "result": end.result,
        "compensations": list(end.compensations),
    }
    content: dict[str, Any] = {}
    if end.residual_impact is not None:
        content["residual_impact"] = to_json(end.residual_impact, "residual_impact")
    if end.reason is not None:
        content["reason"] = to_json(end.reason, "reason")
    if end.closer is not None:
        content["by"] = {"$part": 1}
    draft = by.draft("repair.closed", data, content, causation_event_id=end.opened_event_id)
    return _with_people(draft, () if end.closer is None else (end.closer,))


def corrected(by: Writes, corrects: str, value: Any, reason: Any, evidence: Any, person: Person) -> Draft:
    """The right value beside a recorded fact, which stays as it was recorded (seed 004)."""
    content: dict[str, Any] = {
        "by": {"$part": 1},
        "reason": to_json(reason, "reason"),
        "value": to_json(value, "value"),
    }
    if evidence is not None:
        content["evidence"] = to_json(evidence, "evidence")
    draft = by.draft("fact.corrected", {"corrects": corrects}, content, causation_event_id=corrects)
    return _with_people(draft, (person,))


def _with_people(draft: Draft, people: Sequence[Person]) -> Draft:
    named = [Part({"name": to_json(person.name, "by")}, key=person.key) for person in people]
    return replace(draft, parts=(*draft.parts, *named))
