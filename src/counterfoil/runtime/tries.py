"""Which failures of a model are tried again, and when: the policies of tools, for provider calls (DESIGN 6, 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from counterfoil.effects.retry import CHANCE_BITS, Decision, Retry, decide, waits_in_place
from counterfoil.errors import InvalidForm, NotDone
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow, Now, Random, Wait
from counterfoil.runtime.events import Said

PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
SERVER_STATUSES: Final = range(500, 600)
"""What a provider answers when the same request may well be served a little later."""


def model_policies(given: Any) -> tuple[Retry, ...]:
    """The policies of a model: one, several (the first that covers the error counts), or none. Raises InvalidForm."""
    if given is None:
        return ()
    listed = given if isinstance(given, list | tuple) else (given,)
    if not all(isinstance(policy, Retry) for policy in listed):
        raise InvalidForm(
            "retry is a Retry(…) or several of them",
            hint="from counterfoil.effects import Retry",
            argument="retry",
        )
    return tuple(listed)


def is_passing(error: BaseException) -> bool:
    """Whether the same request may succeed later: a timeout, a lost connection, a status that says so, or ``NotDone``."""
    said = getattr(error, "retryable", None)
    if isinstance(said, bool) and not isinstance(error, NotDone):
        return said
    status = status_of(error)
    if status is not None:
        return status in PASSING_STATUSES or status in SERVER_STATUSES
    return isinstance(error, (TimeoutError, ConnectionError, NotDone))


def status_of(error: BaseException) -> int | None:
    """The HTTP status of an error, where it has one as clients give it."""
    status = getattr(error, "status_code", None)
    return status if type(status) is int else None


def decision(
    policies: Sequence[Retry], error: BaseException, attempt: int, began_ms: int
) -> Flow[Decision | None]:
    """What the policies say to a failure; None without any.

    A policy without ``on`` of its own is for whatever may pass (:func:`is_passing`). A pause that would be longer than
    a call waits in place is none: the failure is the answer, and the agent decides.
    """
    if not policies:
        return None
    bits: int = yield Random(CHANCE_BITS)
    now: int = yield Now()
    covering = [replace(policy, on=Exception) for policy in policies if _covers(policy, error)]
    said = decide(covering[:1], error, attempt, began_ms, now, bits / 2**CHANCE_BITS)
    if said.retry and not waits_in_place(covering[:1], said.delay_ms):
        return Decision(retry=False, attempts_max=said.attempts_max, delay_ms=said.delay_ms)
    return said


def _covers(policy: Retry, error: BaseException) -> bool:
    return is_passing(error) if policy.on is NotDone else isinstance(error, policy.on)


def decided(said: Decision, call_id: str, error_class: str) -> Said:
    """The decision as an event; the same request goes out again, so there is no key to keep."""
    data = {
        "call_id": call_id,
        "error_class": error_class,
        "retry": said.retry,
        "attempts_max": said.attempts_max,
        "delay_ms": said.delay_ms,
        "same_key": False,
    }
    return Said("retry.decided", data)


def until_due(scope: RunScope, due_ms: int) -> Flow[None]:
    """Wait for another attempt. Raises what ended or parked the run meanwhile."""
    now: int = yield Now()
    ends_ms = scope.deadline_ms
    if now < due_ms:
        until = due_ms if ends_ms is None else min(due_ms, ends_ms)
        yield Wait((until - now) / 1000)
    scope.check()
    scope.check_cancelled()


def still_due_ms(scope: RunScope, step_id: str) -> int | None:
    """When an attempt of an earlier entry is due that was decided and not made; None if there is none."""
    due: int | None = None
    for event in scope.history:
        if event.type == "retry.decided" and event.header.step_id == step_id and event.data["retry"]:
            due = event.recorded_at_ms + int(event.data["delay_ms"])
    return due
