"""Calls that are made although the ledger cannot be written: what a tool has declared for it, and nothing else (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from counterfoil.effects import events
from counterfoil.effects.attempt import Work, append, suspended
from counterfoil.effects.doubt import DoubtRule
from counterfoil.effects.handle import Handle
from counterfoil.effects.outcome import judge_call
from counterfoil.effects.perform import perform
from counterfoil.effects.suitable import RESTS_ON_KEY
from counterfoil.errors import CounterfoilError, StoreClosed, StoreError, ToolInvalid
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Call, CallResult, Flow, Raised

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool

LedgerDown = Literal["refuse", "call"]
"""What a tool does when its intention cannot be recorded: nothing, or its call all the same."""

REFUSE: Final[LedgerDown] = "refuse"
CALL: Final[LedgerDown] = "call"


def ledger_down_of(
    given: object, name: str, *, touches: tuple[str, ...], doubt: DoubtRule, has_key: bool
) -> LedgerDown:
    """The switch of a tool: what was declared; else reading goes on and everything else is refused (DESIGN 7).

    What touches anything may go on only under a business key that its provider deduplicates by, because whoever
    resumes the run finds no record of the call and makes it again. Raises ``ToolInvalid``.
    """
    if given is None:
        return REFUSE if touches else CALL
    if given == REFUSE:
        return REFUSE
    if given != CALL:
        raise ToolInvalid(
            f"tool {name} cannot be declared: when_ledger_down is {' or '.join(get_args(LedgerDown))}",
            tool=name,
        )
    if touches and not (has_key and doubt.kind in RESTS_ON_KEY):
        raise ToolInvalid(
            f"tool {name} cannot be declared: called without a record, it would be called again by whoever resumes the run",
            hint="give it a business key, and a doubt rule that rests on its provider's deduplication: by_key()",
            tool=name,
        )
    return CALL


def perform_or_call(
    scope: RunScope, tool: Tool[..., Any], arguments: Mapping[str, Any], handle: Handle
) -> Flow[Any]:
    """As :func:`counterfoil.effects.perform.perform`; a tool that says so is called also when that cannot be recorded.

    What a lever holds, a policy refuses or people have to permit is refused as ever; a lever that was pulled since
    cannot be seen. Afterwards both records are handed in once more. If the ledger is still down, nothing tells of it.
    """
    try:
        return (yield from perform(scope, tool, arguments, handle))
    except StoreError as down:
        work = handle.unrecorded
        if (
            work is None
            or tool.when_ledger_down != CALL
            or isinstance(down, StoreClosed)
            # A permission is used in the append of the intention, or not at all.
            or work.permit.approval_id is not None
        ):
            raise
        scope.check()
        return (yield from _call(work, down))


def _call(work: Work, down: StoreError) -> Flow[Any]:
    scope, tool = work.scope, work.tool
    handed = tool.parameters.arguments_for_call(work.fresh_arguments(), work.key)
    call = Call(tool.name, tool.fn, kwargs=handed, timeout_s=tool.timeout_s, shielded=True)
    result: CallResult = yield from work.handle.interruptibly(call)
    if isinstance(result, Raised) and not isinstance(result.error, Exception):
        raise result.error
    verdict = judge_call(tool, result)
    with suppress(CounterfoilError):
        # With the same ids: the first try may have landed although nobody could say so.
        if work.intention:
            yield append(scope, work.intention, *work.guards)
            work.intended_event_id = work.intention[-1].event_id
            yield append(scope, (events.observed(scope, work.latest, verdict),), work.in_doubt)
    if verdict.outcome == "unknown":
        raise suspended(
            work, f"the ledger cannot record what became of it: {down.message}"
        ) from verdict.error
    return verdict.hand_out()
