"""Recovery of one effect whose worker is gone: its doubt ended by the recorded rule, or its due retry made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from counterfoil.core.event import Draft
from counterfoil.core.forms import time_text
from counterfoil.effects import events
from counterfoil.effects.attempt import Overtaken, Work, append, append_patiently, intend, send
from counterfoil.effects.decide import Case, ReviewCause
from counterfoil.effects.handle import Handle
from counterfoil.effects.identity import successor_index
from counterfoil.effects.permit import Permit
from counterfoil.effects.resolve import Parked, first_case, resolve
from counterfoil.effects.retrying import retry_due_ms
from counterfoil.effects.rows import EFFECT_KEYS, EFFECTS
from counterfoil.effects.standing import Standing, effect_now, pointed_event
from counterfoil.effects.state import IN_DOUBT
from counterfoil.errors import EffectHeld, Fenced, GuardFailed, InputError, NotDone
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow, Now
from counterfoil.store.rows import Absent as KeyFree
from counterfoil.store.rows import Row, RowIs

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool


class Recovered(Struct, frozen=True):
    """What a recovery did to one effect.

    ``done``: ``decided`` (its outcome is now known), ``review`` (a human has been asked), ``left`` (still in doubt, or
    its retry not made; ``why`` says what it needs), ``retrying`` (it was tried and failed again, and is due later),
    ``given_up`` (no retry is made any more), ``nothing`` (there was nothing to do any more). ``state`` is the effect's
    state now.
    """

    effect_id: str
    done: Literal["decided", "review", "left", "retrying", "given_up", "nothing"]
    state: str
    why: str = ""


def recover_effect(row: Row, tool: Tool[..., Any] | None, scope: RunScope) -> Flow[Recovered]:
    """End the doubt of one effect, in the name of a worker that holds the lease of its conversation.

    ``row`` is the effect's row as the scan found it; ``tool`` the declaration that is loaded, or None: then only what
    needs no code is done, and the rest is left. The provider is asked only after the intention's deadline: waiting for
    it is the caller's affair, so an effect that is not due is ``left`` at once. Any number of recoveries may run at the
    same time; fencing and guards let one of them write. Drive it with ``adrive`` when ``tool.asynchronous``.
    Raises ``LeaseLost`` when the lease was taken over.
    """
    effect_id = str(row["effect_id"])
    effect = yield from effect_now(effect_id)
    if effect is None or effect.state not in IN_DOUBT:
        return Recovered(effect_id, "nothing", effect.state if effect is not None else "unknown")
    now: int = yield Now()
    if effect.deadline_ms is not None and now < effect.deadline_ms:
        return Recovered(effect_id, "left", effect.state, "its call may be under way until its deadline")
    intended = yield from pointed_event(effect, effect.first_sequence, {"effect.intended"})
    content = intended.content_or_none()
    if content is None:
        return (yield from _ask(scope, effect, "key_missing"))
    if tool is None:
        return (yield from _without_tool(scope, effect))
    try:
        work = _work(scope, effect, tool, content, intended.data)
    except InputError:
        return (yield from _ask(scope, effect, "schema_changed"))
    return (yield from _resolved(work, first_case(work, ended=False)))


def retry_effect(row: Row, tool: Tool[..., Any] | None, scope: RunScope, *, ended: bool) -> Flow[Recovered]:
    """Make the retry of one effect that its policy has decided on, in the name of a worker that holds the lease.

    ``row`` is the effect's row; ``ended`` says that its run has, so that nobody wants it done any more. A retry that
    cannot be made (its content is gone, the arguments do not fit the tool any more, another run has taken the key over)
    is given up on record, and the effect keeps its outcome. Raises as :func:`recover_effect`.
    """
    effect_id = str(row["effect_id"])
    effect = yield from effect_now(effect_id)
    due_ms = yield from retry_due_ms(effect_id)
    if effect is None or effect.state != "failed" or due_ms is None:
        return Recovered(effect_id, "nothing", "unknown" if effect is None else effect.state)
    now: int = yield Now()
    if now < due_ms:
        return Recovered(effect_id, "left", effect.state, f"its next attempt is due at {time_text(due_ms)}")
    if ended:
        return (yield from _give_up(scope, effect, "RunEnded", "its run has ended"))
    if tool is None:
        return Recovered(effect_id, "left", effect.state, _undeclared(effect))
    intended = yield from pointed_event(effect, effect.first_sequence, {"effect.intended"})
    content = intended.content_or_none()
    if content is None:
        return (yield from _give_up(scope, effect, "KeyMissing", "its arguments cannot be read any more"))
    try:
        work = _work(scope, effect, tool, content, intended.data)
    except InputError:
        return (yield from _give_up(scope, effect, "SchemaChanged", "its arguments cannot be read back"))
    if work.schema_changed:
        return (
            yield from _give_up(scope, effect, "SchemaChanged", "its arguments do not fit the tool any more")
        )
    return (yield from _tried(work, effect))


def _tried(work: Work, effect: Standing) -> Flow[Recovered]:
    """One more attempt under the same key, unless another run has taken the key over or the effect has moved."""
    follower = (work.scope.ports.tenant, successor_index(work.scope.ports.index, effect.effect_id))
    work.attempt += 1
    try:
        yield from intend(work, KeyFree(EFFECT_KEYS.name, follower), effect.unchanged)
    except EffectHeld as held:
        return Recovered(effect.effect_id, "left", effect.state, held.message)
    except GuardFailed as moved:
        if moved.fields["table"] == EFFECT_KEYS.name:
            return (yield from _give_up(work.scope, effect, "KeyTaken", "another run has taken its key over"))
        return _overtaken(
            effect.effect_id, None if moved.fields["row"] is None else Standing.of(moved.fields["row"])
        )
    try:
        verdict, observation = yield from send(work)
    except Overtaken as other:
        return _overtaken(effect.effect_id, other.effect)
    except NotDone as late:
        return Recovered(effect.effect_id, "left", "failed", late.message)
    if verdict.outcome == "unknown":
        return (yield from _resolved(work, first_case(work, ended=True), observation))
    return _decided(work, verdict.outcome)


def _give_up(scope: RunScope, effect: Standing, error_class: str, why: str) -> Flow[Recovered]:
    latest = events.Attempt(effect.effect_id, effect.attempt, effect.intended_event_id)
    draft = events.retry_decided(scope, latest, error_class, 0, {}, retry=False, attempts_max=effect.attempt)
    try:
        yield from append_patiently(append(scope, (draft,), effect.unchanged))
    except Fenced as fenced:
        raise scope.latch(scope.lost()) from fenced
    except GuardFailed as moved:
        row = moved.fields["row"]
        return _overtaken(effect.effect_id, None if row is None else Standing.of(row))
    return Recovered(effect.effect_id, "given_up", effect.state, f"{why}: it is not tried again")


def _decided(work: Work, outcome: str) -> Recovered:
    if work.retry_due_ms is not None:
        why = f"not done; its next attempt is due at {time_text(work.retry_due_ms)}"
        return Recovered(work.effect_id, "retrying", outcome, why)
    return Recovered(work.effect_id, "decided", outcome)


def _work(
    scope: RunScope,
    effect: Standing,
    tool: Tool[..., Any],
    content: Mapping[str, Any],
    data: Mapping[str, Any],
) -> Work:
    """The effect as its intention recorded it. Raises InputError when its arguments cannot be read back."""
    work = Work(
        scope=scope,
        tool=tool,
        effect_id=effect.effect_id,
        key=str(content["idempotency_key"]),
        recorded=content["arguments"],
        doubt=effect.doubt,
        handle=Handle(),
        attempt=effect.attempt,
        intended_event_id=effect.intended_event_id,
        deadline_ms=effect.deadline_ms or 0,
        lookups=effect.lookups,
        schema=effect.schema,
        began_ms=effect.intended_at_ms,
        permit=Permit(effect.effect_id, data.get("approval_id"), proposed=content.get("proposed")),
        compensates=data.get("compensates"),
    )
    work.fresh_arguments()
    return work


def _resolved(work: Work, case: Case, *news: Draft) -> Flow[Recovered]:
    try:
        resolution = yield from resolve(work, case, *news)
    except Overtaken as other:
        return _overtaken(work.effect_id, other.effect)
    except NotDone:
        # The further attempt was intended and never sent: its deadline passed meanwhile. That is on record.
        return _decided(work, "failed")
    if isinstance(resolution, Parked):
        if resolution.cause == "review":
            return Recovered(work.effect_id, "review", "in_review", resolution.why)
        return Recovered(work.effect_id, "left", "unknown", resolution.why)
    return _decided(work, resolution.outcome)


def _overtaken(effect_id: str, effect: Standing | None) -> Recovered:
    return Recovered(
        effect_id, "nothing", "unknown" if effect is None else effect.state, "its answer came meanwhile"
    )


def _without_tool(scope: RunScope, effect: Standing) -> Flow[Recovered]:
    """Without the tool's code only a rule that needs none can be followed."""
    if effect.doubt == "review":
        return (yield from _ask(scope, effect, "by_review"))
    return Recovered(effect.effect_id, "left", effect.state, _undeclared(effect))


def _undeclared(effect: Standing) -> str:
    return f"no tool {effect.tool} is declared here; name its module as `app` in counterfoil.toml"


def _ask(scope: RunScope, effect: Standing, cause: ReviewCause) -> Flow[Recovered]:
    """Hand an effect to a human for a reason that no provider can help with."""
    latest = events.Attempt(effect.effect_id, effect.attempt, effect.intended_event_id)
    draft = events.review_requested(scope, latest, cause, {"attempts": effect.attempt})
    try:
        yield from append_patiently(
            append(scope, (draft,), RowIs(EFFECTS.name, (effect.effect_id,), IN_DOUBT))
        )
    except Fenced as fenced:
        raise scope.latch(scope.lost()) from fenced
    except GuardFailed as moved:
        row = moved.fields["row"]
        return _overtaken(effect.effect_id, None if row is None else Standing.of(row))
    return Recovered(effect.effect_id, "review", "in_review", f"a human is asked how it ended ({cause})")
