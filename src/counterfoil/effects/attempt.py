"""One attempt at an effect: the intention durable, the call with its key, the observation (seed 004, DESIGN 7)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct

from counterfoil.core.event import Draft
from counterfoil.core.values import from_json
from counterfoil.effects import events, late
from counterfoil.effects.addresses import NO_ADDRESSES, Addresses
from counterfoil.effects.doubt import DoubtKind
from counterfoil.effects.handle import Handle
from counterfoil.effects.identity import Identity, Occurrence, binding
from counterfoil.effects.lever import LEVER_GATES, Lever
from counterfoil.effects.outcome import NEVER_SENT, Verdict, error_content, judge_call
from counterfoil.effects.permit import UNASKED, Permit
from counterfoil.effects.refusals import effect_held
from counterfoil.effects.retrying import retry_decision
from counterfoil.effects.rows import EFFECTS
from counterfoil.effects.standing import Standing
from counterfoil.effects.state import IN_DOUBT
from counterfoil.errors import (
    CounterfoilError,
    Fenced,
    GuardFailed,
    InputError,
    NotDone,
    StoreBusy,
    StoreError,
)
from counterfoil.flow.context import LEASE_MARGIN_MS, RunScope
from counterfoil.flow.loops import is_cancellation
from counterfoil.flow.requests import (
    Append,
    Call,
    CallResult,
    Entry,
    Flow,
    Now,
    Raised,
    TimedOut,
    UnitDraft,
    Wait,
)
from counterfoil.store.rows import Guard, RowIs

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool

APPEND_TRIES: Final = 4
"""How often an observation is handed to a store that fails in a way that may pass."""

APPEND_PAUSE_S: Final = 0.25

LOOKS_MAX: Final = 64
"""How often an intention is handed in anew because a lever has moved."""


class Work(Struct):
    """An effect this worker is busy with.

    ``recorded`` are the arguments by name as content, ``key`` is the idempotency key as sent,
    ``doubt`` the rule recorded with the intention, ``attempt`` the newest attempt, or the one to come. ``permit`` is
    why it may be made; its events stand in the append of the first intention.
    """

    scope: RunScope
    tool: Tool[..., Any]
    effect_id: str
    key: str
    recorded: Mapping[str, Any]
    doubt: DoubtKind
    handle: Handle
    attempt: int = 1
    intended_event_id: str = ""
    deadline_ms: int = 0
    lookups: int = 0
    schema: str | None = None
    """Digest of the schema that a recorded intention was made for; None for one of this entry."""
    occurrence: Occurrence | None = None
    takes_over: str | None = None
    permit: Permit = UNASKED
    artifacts: Addresses = NO_ADDRESSES
    identity: Identity | None = None
    compensates: str | None = None
    ready: dict[str, Any] | None = None
    """The arguments of the attempt that was intended and is about to be made."""
    intention: tuple[Draft, ...] = ()
    """What the last intention is recorded with, itself the last."""
    guards: tuple[Guard, ...] = ()
    """What had to hold for it, levers apart."""
    began_ms: int = 0
    """When the first attempt was intended, on the store's clock."""
    retry_due_ms: int | None = None
    """When the next attempt is due, if the last one failed and the tool's policy tries again."""

    def fresh_arguments(self) -> dict[str, Any]:
        """The arguments as Python values, made anew from the record.

        Nothing that the caller, the tool or a lookup does to them changes what the next attempt or lookup is given.
        Raises InputError when the record cannot be read back with today's classes.
        """
        return cast("dict[str, Any]", from_json(dict(self.recorded), "arguments"))

    @property
    def schema_changed(self) -> bool:
        """Whether the tool takes other arguments today than those that were recorded with the intention.

        Sending them again under the same key would be another request than the first (seed 004, a changed schema).
        """
        parameters = self.tool.parameters
        return self.schema not in (None, parameters.schema) or not parameters.accepts(self.recorded)

    @property
    def latest(self) -> events.Attempt:
        """The newest attempt, as events name it."""
        return events.Attempt(self.effect_id, self.attempt, self.intended_event_id)

    @property
    def in_doubt(self) -> RowIs:
        """Guard: nothing has ended the doubt meanwhile."""
        return RowIs(EFFECTS.name, (self.effect_id,), IN_DOUBT)


class Overtaken(Exception):
    """The doubt ended by another way while this worker was at it; ``effect`` says how it stands, if it is known.

    ``agreed`` is what this worker's own call came to, where that is the same success: the caller gets its value.
    """

    def __init__(self, effect: Standing | None, verdict: Verdict | None = None) -> None:
        super().__init__("overtaken")
        self.effect = effect
        agree = verdict is not None and effect is not None and effect.state == verdict.outcome == "succeeded"
        self.agreed: Verdict | None = verdict if agree else None


def intend(work: Work, *guards: Guard) -> Flow[None]:
    """Make the intention durable. Nothing has been sent when this raises.

    The deadline lies before the lease's end, so nobody recovers the effect while its call may be under way.
    Raises ``GuardFailed``, ``EffectHeld``, ``LeaseLost``, ``RunClosed``, an InputError when the arguments cannot be
    read back from their recorded form, or what parked the run.
    """
    try:
        yield from _intend(work, *guards)
    except StoreError:
        work.handle.unrecorded = work
        raise


def _intend(work: Work, *guards: Guard) -> Flow[None]:
    scope, tool = work.scope, work.tool
    # Before anything is written: what cannot be read back is not intended either.
    work.ready = work.fresh_arguments()
    now: int = yield Now()
    work.deadline_ms = now + round(tool.timeout_s * 1000)
    work.began_ms = work.began_ms or now
    yield from scope.held(work.deadline_ms + LEASE_MARGIN_MS)
    draft = events.intended(scope, work.effect_id, work.attempt, work.deadline_ms, _intention(work))
    draft.hint = work.identity
    # Looked at last: between here and the append nothing else of this flow runs.
    if work.handle.left:
        import asyncio

        raise asyncio.CancelledError
    permit = work.permit
    scope.frontier(f"effect {tool.name}", approved=permit.approval_id is not None)
    work.intention, work.guards = (*permit.drafts, draft), (*guards, *permit.guards)
    try:
        yield from _unless_held(work, work.intention, work.guards)
    except Fenced as fenced:
        raise scope.latch(scope.lost()) from fenced
    work.intended_event_id = draft.event_id
    work.permit = permit.spent()


def _unless_held(work: Work, drafts: tuple[Draft, ...], guards: tuple[Guard, ...]) -> Flow[None]:
    """Append an intention under the guard that no lever has moved since this run looked. Raises ``EffectHeld``."""
    lever, tool = work.scope.part(Lever), work.tool.name
    for _ in range(LOOKS_MAX):
        if lever.holding(tool) is not None:
            # What held it may have been released since.
            yield from lever.look()
        held = lever.holding(tool)
        if held is not None:
            raise effect_held(work.effect_id, tool, held.scope, held.event_id)
        try:
            yield from append_patiently(append(work.scope, drafts, *guards, lever.guard))
        except GuardFailed as moved:
            if moved.fields["table"] != LEVER_GATES.name:
                raise
            yield from lever.look()
        else:
            return
    raise StoreBusy("levers kept moving while an intention was recorded; nothing was sent")


def _intention(work: Work) -> events.Intention:
    tool = work.tool
    material = work.scope.ports.material(work.scope.stream_id)
    artifacts = work.artifacts.found()
    return events.Intention(
        tool=tool.name,
        tool_version=tool.version,
        schema=tool.parameters.schema,
        identity=tool.identity,
        doubt=work.doubt,
        touches=tool.touches,
        arguments=work.recorded,
        idempotency_key=work.key,
        binding=binding(material, work.effect_id, tool.name, tool.version, work.recorded, artifacts),
        occurrence=work.occurrence,
        takes_over=work.takes_over,
        approval_id=work.permit.approval_id,
        proposed=work.permit.proposed,
        compensates=work.compensates,
    )


def append(scope: RunScope, drafts: tuple[Draft, ...], *guards: Guard) -> Append:
    """The request that records these for the run, under its fencing token."""
    unit = UnitDraft((Entry(scope.stream_id, drafts, token=scope.token),), guards)
    return Append(unit, noted=scope.outside.noted)


def send(work: Work) -> Flow[tuple[Verdict, Draft]]:
    """Call the tool and judge what came. A known outcome is recorded; an unknown one is handed back as a draft.

    The draft of an unknown outcome goes into the append of whatever is done about it. Raises what interrupted the
    call, after recording it as unknown.
    """
    scope, tool = work.scope, work.tool
    began = scope.ports.now_ms()
    # What is left of the time that the intention promised; a slow append does not move the deadline.
    left_ms = work.deadline_ms - began
    if work.handle.left or left_ms <= 0 or scope.cancelled() is not None:
        yield from _never_sent(work)
    assert work.ready is not None, "an attempt is intended before it is made"
    arguments, work.ready = tool.parameters.arguments_for_call(work.ready, work.key), None
    call = Call(tool.name, tool.fn, kwargs=arguments, timeout_s=left_ms / 1000, shielded=True)
    result: CallResult = yield from work.handle.interruptibly(call)
    verdict = judge_call(tool, result)
    observation = events.observed(scope, work.latest, verdict, latency_ms=scope.ports.now_ms() - began)
    if isinstance(result, Raised) and not isinstance(result.error, Exception):
        yield from _interrupted(work, result, observation)
    if isinstance(result, TimedOut):
        late.watch(work, result.late)
    if verdict.outcome != "unknown":
        yield from observe(work, verdict, observation)
    return verdict, observation


def observe(work: Work, verdict: Verdict, *drafts: Draft) -> Flow[None]:
    """Record a known outcome; the last draft is the observation. What the retry policy says of it goes with it.

    Raises ``LeaseLost`` when the run was taken over (what came is then kept as late), :class:`Overtaken` when the
    doubt ended by another way, and parks the run when the store cannot record what has happened.
    """
    decision = (yield from retry_decision(work, verdict)) if verdict.outcome == "failed" else ()
    try:
        yield from record(work, (*drafts, *decision))
    except Fenced as fenced:
        yield from late.record_late(work, verdict)
        raise work.scope.latch(work.scope.lost()) from fenced
    except GuardFailed as moved:
        raise Overtaken((yield from late.record_late(work, verdict)), verdict) from moved
    except InputError as refused:
        last = drafts[-1].data
        again = events.observed(
            work.scope, work.latest, verdict.without_result(refused), last["source"], last.get("latency_ms")
        )
        yield from record(work, (*drafts[:-1], again))


def record(work: Work, drafts: tuple[Draft, ...]) -> Flow[None]:
    """Append to an effect in doubt. A store that goes on failing parks the run.

    The ledger then holds an intention without its observation, and no framework may turn that into a text for the
    model. Raises ``GuardFailed`` when the doubt has ended by another way, ``Fenced`` when the run was taken over.
    """
    if not drafts:
        return
    try:
        yield from append_patiently(append(work.scope, drafts, work.in_doubt))
    except StoreError as failed:
        raise suspended(work, f"the ledger cannot record what became of it: {failed.message}") from failed


def append_patiently(request: Append) -> Flow[None]:
    """Hand an append to the store again, with the same ids, while its failure may pass."""
    for tried in range(1, APPEND_TRIES):
        try:
            yield request
        except StoreError as failed:
            if not failed.retryable:
                raise
            yield Wait(APPEND_PAUSE_S * 2 ** (tried - 1))
        else:
            return
    yield request


def suspended(work: Work, why: str) -> BaseException:
    """Park the run for this effect; returns what to raise."""
    return work.scope.suspend(
        f"effect {work.effect_id} of tool {work.tool.name} is in doubt: {why}",
        cause="effect",
        waits_for=(work.effect_id,),
    )


def _interrupted(work: Work, result: Raised, observation: Draft) -> Flow[None]:
    """Cancelled, or the process is asked to stop: say that the outcome is unknown, then get out of the way.

    Whether it can be recorded or not, an intention without a known outcome stands in the ledger.
    """
    late.watch(work, result.late, in_flight=is_cancellation(result.error))
    with suppress(CounterfoilError):
        yield append(work.scope, (observation,), work.in_doubt)
    raise result.error


def _never_sent(work: Work) -> Flow[None]:
    """Caller or run was cancelled, or time ran out, while the intention was written: nothing was sent, for certain."""
    cancelled = work.scope.cancelled()
    if work.handle.left:
        why = "its caller was cancelled"
    elif cancelled is not None:
        why = "its run was cancelled"
    else:
        why = "its deadline passed while the intention was recorded"
    error = NotDone(f"{work.tool.name}: {why} before the call was made")
    verdict = Verdict("failed", {"error": error_content(error)}, NEVER_SENT, None, error)
    yield from observe(work, verdict, events.observed(work.scope, work.latest, verdict))
    if work.handle.left:
        import asyncio

        raise asyncio.CancelledError
    raise cancelled or error
