"""A failure that its policy tries again: decided in the append of the observation, and made when it is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterfoil.core.event import Draft
from counterfoil.effects import events
from counterfoil.effects.outcome import NEVER_SENT, Verdict, error_label
from counterfoil.effects.retry import CHANCE_BITS, Decision, decide, waits_in_place
from counterfoil.effects.rows import RETRIES
from counterfoil.flow.requests import Flow, Now, Random, Read, RowOf, Wait
from counterfoil.store.rows import Row

if TYPE_CHECKING:
    from counterfoil.effects.attempt import Work


def retry_decision(work: Work, verdict: Verdict) -> Flow[tuple[Draft, ...]]:
    """What the tool's policy says to this outcome, to be recorded together with it; nothing without a policy.

    Only what is confirmed not done is tried again: an unknown outcome is the doubt rule's affair (DESIGN 7).
    """
    work.retry_due_ms = None
    policies = work.tool.retry
    if not policies or verdict.outcome != "failed" or verdict.error_class == NEVER_SENT:
        return ()
    bits: int = yield Random(CHANCE_BITS)
    now: int = yield Now()
    said = decide(policies, verdict.error, work.attempt, work.began_ms, now, bits / 2**CHANCE_BITS)
    if said.retry:
        work.retry_due_ms = now + said.delay_ms
    return (decided(work, said, verdict.error_class or error_label(verdict.error or Exception())),)


def decided(work: Work, said: Decision, error_class: str) -> Draft:
    """The decision as an event of the attempt that failed."""
    return events.retry_decided(
        work.scope,
        work.latest,
        error_class,
        said.delay_ms,
        {},
        retry=said.retry,
        attempts_max=said.attempts_max,
    )


def until_due(work: Work, due_ms: int) -> Flow[None]:
    """Wait for a retry in place, or park the run until it is due. Raises what parked it, or ended it, meanwhile."""
    scope = work.scope
    now: int = yield Now()
    ends_ms = scope.deadline_ms
    if now < due_ms:
        if not waits_in_place(work.tool.retry, due_ms - now) or (ends_ms is not None and due_ms >= ends_ms):
            raise scope.suspend(
                f"effect {work.effect_id} of tool {work.tool.name} was not done and is tried again later",
                cause="effect",
                waits_for=(work.effect_id,),
            )
        yield from work.handle.interruptibly(Wait((due_ms - now) / 1000))
    scope.check()


def retry_due_ms(effect_id: str) -> Flow[int | None]:
    """When a retry of this effect is due that was decided and not made; None if there is none."""
    row: Row | None = yield Read(RowOf(RETRIES.name, (effect_id,)))
    return None if row is None else due_of(row)


def due_of(row: Row) -> int:
    """When the retry of this row of ``retries`` is due, in milliseconds of the store's clock (DESIGN 7)."""
    return int(row["decided_at_ms"] or 0) + int(row["delay_ms"] or 0)
