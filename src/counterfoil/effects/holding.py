"""Calls that a lever refuses, on record as refusals of their run; and levers pulled and released by people (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.abc.policy import Ruling
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import is_label
from counterfoil.core.values import to_json
from counterfoil.effects import events, lever
from counterfoil.effects.attempt import Work, append, append_patiently, intend
from counterfoil.effects.decisions import Decided
from counterfoil.effects.lever import HELD, LEVERS, RELEASED, Held, LeverScope
from counterfoil.effects.refusals import LEVER_POLICY, effect_held
from counterfoil.errors import EffectHeld, Fenced, GuardFailed, InvalidForm, StoreBusy
from counterfoil.flow.drafting import Outsider, Person
from counterfoil.flow.requests import Append, Entry, Flow, NewId, Now, Read, RowOf, UnitDraft
from counterfoil.store.rows import Absent, Guard, Row, RowIs

if TYPE_CHECKING:
    from counterfoil.effects.asked import Asked

TRIES_MAX: Final = 16
"""How often moving a lever looks again because somebody else moved it between reading and writing."""


# ---- a call that is refused ----------------------------------------------------------------------------------------


def intend_unless_held(asked: Asked, work: Work, *guards: Guard) -> Flow[None]:
    """As :func:`counterfoil.effects.attempt.intend`; that a lever refused the call is recorded before it is raised.

    So whoever resumes the run is handed the same refusal in the same place, also after the lever was released.
    """
    try:
        yield from intend(work, *guards)
    except EffectHeld as held:
        if work.attempt == 1:
            asked.past.forget(asked.identity.key_index, work.effect_id)
        yield from _record(asked, work.effect_id, work.permit.drafts, held)
        raise


def refuse_held(asked: Asked, effect_id: str, ruled: Sequence[Draft], held: Held) -> Flow[EffectHeld]:
    """Record that a lever refused a call before it came to be intended; what to raise.

    ``ruled`` are the proposal and its ruling, if they are not on record yet.
    """
    error = effect_held(effect_id, asked.tool.name, held.scope, held.event_id)
    yield from _record(asked, effect_id, ruled, error)
    return error


def _record(asked: Asked, effect_id: str, ruled: Sequence[Draft], held: EffectHeld) -> Flow[None]:
    """The refusal as a ruling: what was proposed, and that the lever denied it. A grant that was not used stays."""
    scope = asked.scope
    known = asked.decisions.of(asked.identity.key_index, asked.tool)
    binding = asked.binding(effect_id) if known is None else known.binding
    drafts = [draft for draft in ruled if draft.event_type in _RULED]
    if known is None and not drafts:
        drafts.append(
            events.decision_proposed(
                scope,
                effect_id,
                asked.tool.name,
                asked.tool.version,
                binding,
                asked.recorded,
                asked.occurrence,
                None,
            )
        )
    refused = Decided(effect_id, asked.tool.name, asked.identity, binding)
    if known is not None:
        refused = replace(known, proposed=None, recorded=None)
    refused.policy, refused.revision = LEVER_POLICY, held.fields["lever"]
    refused.outcome, refused.rules = "deny", (held.fields["scope"],)
    ruling = Ruling("deny", rules=refused.rules)
    content = {"reasons": [held.message]}
    drafts.append(
        events.policy_evaluated(
            scope, effect_id, (LEVER_POLICY, refused.revision), ruling, asked.binding(effect_id), content
        )
    )
    try:
        yield from append_patiently(append(scope, tuple(drafts)))
    except Fenced as fenced:
        raise scope.latch(scope.lost()) from fenced
    asked.decisions.keep(refused)
    asked.past.calls(effect_id).failed_here += 1


_RULED: Final = frozenset({"decision.proposed", "policy.evaluated"})


# ---- people who move levers ------------------------------------------------------------------------------------------

Command = Literal["hold", "release"]


class LeverMoved(Struct, frozen=True):
    """A lever after somebody moved it. ``repeated``: it stood like that already, and nothing was written."""

    tenant: str
    scope: LeverScope
    tool: str
    state: str
    repeated: bool = False


def judge_lever(state: str | None, command: Command) -> str | None:
    """The state that a command leads to; None when the lever stands like that already. ``state`` None: never moved."""
    wanted = HELD if command == "hold" else RELEASED
    return None if wanted == (state or RELEASED) else wanted


def move_lever(
    command: Command,
    scope: LeverScope,
    tool: str,
    *,
    tenant: str,
    stream_id: str,
    person: Person,
    reason: str,
) -> Flow[LeverMoved]:
    """Pull or release a lever in the name of a person; ``stream_id`` is the tenant's stream of settings.

    Whatever is intended after this returns has seen it. What is under way is not touched. Moving a lever to where it
    stands changes nothing. Raises ``InvalidForm`` for a tool whose name is no label.
    """
    if (scope == "tool") != bool(tool) or (tool and not is_label(tool)):
        raise InvalidForm("a lever on a tool takes the tool's name, any other lever none", argument="tool")
    to: Literal["held", "released"] = "held" if command == "hold" else "released"
    key = (tenant, scope, tool)
    for _ in range(TRIES_MAX):
        row: Row | None = yield Read(RowOf(LEVERS.name, key))
        state = None if row is None else str(row["state"])
        if judge_lever(state, command) is None:
            return LeverMoved(tenant, scope, tool, state or RELEASED, repeated=True)
        guard = Absent(LEVERS.name, key) if row is None else RowIs(LEVERS.name, key, frozenset({str(state)}))
        event_id: str = yield NewId("evt")
        now: int = yield Now()
        draft = lever.moved(Outsider(event_id, now, None, person), to, scope, tool, to_json(reason, "reason"))
        try:
            yield Append(UnitDraft((Entry(stream_id, (_named(draft, person),)),), (guard,)))
        except GuardFailed:
            continue
        return LeverMoved(tenant, scope, tool, to)
    raise StoreBusy("the lever kept moving while it was being moved", hint="look at it and decide again")


def _named(draft: Draft, person: Person) -> Draft:
    """The person's name stands in a part of its own, under their own key (FORMAT 6)."""
    return replace(draft, parts=(*draft.parts, Part({"name": to_json(person.name, "by")}, key=person.key)))
