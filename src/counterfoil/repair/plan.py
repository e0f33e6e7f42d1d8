"""The plan of a repair: the calls that undo an effect, written down before the first is made, and how each stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from counterfoil.core import canonical
from counterfoil.core.values import from_json, to_json
from counterfoil.effects.compensation import CALLS_MAX, PlannedCall, repair_key
from counterfoil.effects.identity import Identity, business_identity, successor_index
from counterfoil.effects.past import DECIDING
from counterfoil.effects.standing import Standing, effect_now, key_now, pointed_event
from counterfoil.errors import InputError, ToolInvalid, ToolNotFound
from counterfoil.flow.requests import Flow, Read, Rows
from counterfoil.repair.decide import StepState, step_state
from counterfoil.repair.rows import COMPENSATIONS
from counterfoil.repair.standing import RepairStanding
from counterfoil.store.rows import Index, Key, Row

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool

FindTool = Callable[[str, str | None], "Tool[..., Any] | None"]

BEGUN_MAX = CALLS_MAX * 16
"""Effects that undo one effect which are looked at: all repairs of it, and calls that were tried again."""

SUCCESSORS_MAX = 1_000
"""How often a key may have been handed on after attempts that were confirmed not done."""


class Step(Struct, frozen=True):
    """One call of a plan. ``arguments`` are in their recorded form."""

    tool: str
    tool_version: str
    arguments: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As ``repair.opened`` records it."""
        return {"tool": self.tool, "tool_version": self.tool_version, "arguments": self.arguments}


def planned(calls: Iterable[PlannedCall]) -> tuple[Step, ...]:
    """The calls as steps. Raises InputError for what cannot be recorded, or ToolInvalid for what undoes nothing."""
    steps = tuple(
        Step(call.tool.name, call.tool.version, to_json(dict(call.arguments), f"{call.tool.name} arguments"))
        for call in calls
        if _checked(call)
    )
    if len(steps) > CALLS_MAX:
        raise InputError(f"a repair has at most {CALLS_MAX} calls")
    texts = [canonical.encode([step.tool, step.arguments]) for step in steps]
    if len(set(texts)) < len(texts):
        raise InputError(
            "a repair makes each call once, and this plan has the same one twice",
            hint="give them different arguments, or make one call of both",
        )
    return steps


def _checked(call: PlannedCall) -> bool:
    if not isinstance(call, PlannedCall):
        raise ToolInvalid("the calls of a repair are made with tool.later(…), which performs nothing")
    if call.tool.doubt.kind == "repeat":
        raise ToolInvalid(f"tool {call.tool.name} touches nothing, so it undoes nothing", tool=call.tool.name)
    return True


def steps_of(content: Mapping[str, Any]) -> tuple[Step, ...]:
    """The steps that ``repair.opened`` recorded."""
    return tuple(
        Step(str(step["tool"]), str(step["tool_version"]), step["arguments"])
        for step in content.get("plan", ())
    )


# ---- what a tool says of undoing its effect ----------------------------------------------------------------------


class Declared(Struct, frozen=True):
    """What the tool of an effect says: the calls that undo it, and what nothing undoes."""

    calls: tuple[PlannedCall, ...] = ()
    irreversible: str | None = None


def declared_for(effect: Standing, find_tool: FindTool) -> Flow[Declared]:
    """The declared compensation of this very effect, from what is recorded of it.

    Raises ``ToolNotFound`` without the tool's code, or ``ContentUnavailable`` when the call cannot be read any more.
    """
    intended = yield from pointed_event(effect, effect.first_sequence, {"effect.intended"})
    tool = find_tool(effect.tool, str(intended.data["tool_version"]))
    if tool is None:
        raise ToolNotFound(
            f"no tool {effect.tool} is declared here, so what undoes it is not known", tool=effect.tool
        )
    if tool.compensation is None:
        return Declared(irreversible=tool.irreversible)
    arguments = from_json(dict(intended.content["arguments"]), "arguments")
    result = yield from _result(effect)
    return Declared(tool.compensation.calls(arguments, result), tool.irreversible)


def _result(effect: Standing) -> Flow[Any]:
    """What the tool returned; None where that was not kept or is not known."""
    if effect.outcome_sequence is None:
        return None
    decided = yield from pointed_event(effect, effect.outcome_sequence, DECIDING)
    return from_json(decided.content.get("result"))


# ---- how the steps stand -----------------------------------------------------------------------------------------


class StepStanding(Struct, frozen=True):
    """A step with the effect that it became, if it was begun."""

    step: Step
    state: StepState
    effect: Standing | None = None

    @property
    def effect_id(self) -> str | None:
        """The compensation, ``eff_…``."""
        return None if self.effect is None else self.effect.effect_id


def steps_now(
    index: Index, repair: RepairStanding, steps: Sequence[Step], find_tool: FindTool
) -> Flow[list[StepStanding]]:
    """How each step of a repair stands. A step is known by its key, whichever run began it.

    Without a tool's code its own keys cannot be made, and its compensations are known by tool and arguments.
    """
    found: list[StepStanding] = []
    for step in steps:
        tool = find_tool(step.tool, step.tool_version)
        if tool is None:
            effect = yield from _by_arguments(index, repair, step)
        else:
            effect = yield from _by_key(index, repair, step, tool)
        state = step_state(None, None) if effect is None else step_state(effect.state, effect.outcome)
        found.append(StepStanding(step, state, effect))
    return found


def _identity(index: Index, repair: RepairStanding, step: Step, key: str | None = None) -> Identity:
    own = key or repair_key(index, repair.repair_id, step.tool, step.arguments)
    return business_identity(index, own, step.arguments)


def _by_key(index: Index, repair: RepairStanding, step: Step, tool: Tool[..., Any]) -> Flow[Standing | None]:
    key = tool.key_of(from_json(dict(step.arguments), "arguments"))
    identity = _identity(index, repair, step, key)
    row: Key = (repair.tenant, identity.key_index)
    last: Standing | None = None
    for _ in range(SUCCESSORS_MAX):
        owner = yield from key_now(row)
        effect = (
            None if owner is None or owner.effect_id is None else (yield from effect_now(owner.effect_id))
        )
        if effect is None:
            break
        last = effect
        if effect.state != "failed":
            break
        row = (repair.tenant, successor_index(index, effect.effect_id))
    if last is not None and (last.tool, last.arguments_index) != (step.tool, identity.arguments_index):
        # The key belongs to another effect; the call that is made says so.
        return None
    return last


def _by_arguments(index: Index, repair: RepairStanding, step: Step) -> Flow[Standing | None]:
    identity = _identity(index, repair, step)
    for effect in reversed((yield from _compensations(repair))):
        if (effect.tool, effect.arguments_index) == (step.tool, identity.arguments_index):
            return effect
    return None


def _compensations(repair: RepairStanding) -> Flow[list[Standing]]:
    """The effects that were begun since the repair was opened, to undo what it is about."""
    if repair.effect_id is None:
        return []
    rows: list[Row] = yield Read(Rows(COMPENSATIONS.name, "by_compensated", (repair.effect_id,), BEGUN_MAX))
    found: list[Standing] = []
    for row in rows:
        if int(row["sequence"] or 0) > repair.opened_sequence:
            effect = yield from effect_now(str(row["effect_id"]))
            found += [] if effect is None else [effect]
    return found


def begun(repair: RepairStanding) -> Flow[list[StepStanding]]:
    """What was begun of a plan that cannot be read any more: tools and outcomes, without arguments."""
    found = yield from _compensations(repair)
    return [
        StepStanding(Step(effect.tool, "", {}), step_state(effect.state, effect.outcome), effect)
        for effect in found
    ]
