"""Memoised steps: code whose result is recorded once and handed out again (DESIGN 6)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Struct

from counterfoil.core.event import Draft
from counterfoil.core.values import call_form, from_json, to_json
from counterfoil.errors import InputError, InvalidForm
from counterfoil.flow.context import RunScope, inside_step
from counterfoil.flow.event import Event
from counterfoil.flow.lanes import in_main_lane, main_lane
from counterfoil.flow.loops import comes_from_outside
from counterfoil.flow.requests import Call, CallResult, Flow, NewId, Now, Raised, Returned
from counterfoil.runtime import events
from counterfoil.runtime.open_streams import close_streams
from counterfoil.runtime.outcome import error_content, error_of, is_result
from counterfoil.runtime.recording import draft, record, shown_name
from counterfoil.runtime.resume import (
    Begun,
    Identity,
    Record,
    attempt_event_id,
    identify,
)
from counterfoil.runtime.spec import check_text


class Attempt(Struct):
    """One live attempt at a step; ``ended`` when its result is on record."""

    identity: Identity
    shown: str
    step_id: str
    number: int
    began_ms: int
    started_event_id: str
    first_ms: int
    ended: bool = False


def step_flow(
    scope: RunScope, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Flow[Any]:
    """Run ``fn`` once for this name, these arguments and this occurrence; later entries get its recorded result.

    Raises what ``fn`` raises. Arguments and result need a JSON form (FORMAT 2) and are refused by path otherwise.
    """
    asked = asked_step(scope, name, fn, args, kwargs)
    if asked.recorded is not None:
        return result_of(asked.recorded)
    return (yield from live_step(scope, asked))


class AskedStep(Struct):
    """A step that the code asks for, and what the ledger holds of it."""

    identity: Identity
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    given: Any
    recorded: Event | None


def asked_step(
    scope: RunScope, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> AskedStep:
    """The first half of :func:`step_flow`, which asks nobody for anything: no flow has to be driven for it."""
    check_text("name", name or "")
    check_callable("fn", fn)
    scope.check()
    given, text = call_form(args, kwargs)
    identity = identify(scope, "code", name, text)
    return AskedStep(identity, fn, args, kwargs, given, scope.part(Record).take(identity))


def live_step(scope: RunScope, asked: AskedStep) -> Flow[Any]:
    """The second half of :func:`step_flow`, of a step that has no recorded result."""
    identity = asked.identity
    name = identity.name
    attempt = yield from begin(scope, identity)
    with scope.in_flight(attempt.step_id), attempted(scope, attempt):
        named = {} if attempt.shown == name else {"name": name}
        yield from record(scope, started_draft(scope, attempt, {"input": asked.given, **named}))
        scope.check_cancelled()
        answer: CallResult = yield Call(name, inside(identity, asked.fn), asked.args, dict(asked.kwargs))
        return (yield from _end(scope, attempt, answer))


def check_callable(name: str, fn: Any) -> None:
    """Refuse what cannot be called, before anything is recorded of it."""
    if not callable(fn):
        raise InvalidForm(f"{name} is the function to call, not {type(fn).__name__}", argument=name)


def begin(scope: RunScope, identity: Identity) -> Flow[Attempt]:
    """Go on live with a unit; a unit that an earlier entry left unfinished keeps its step and counts its attempts."""
    yield from close_streams(scope, left=False)
    begun = yield from scope.part(Record).frontier(identity)
    step_id: str = begun.step_id or (yield NewId("stp"))
    now: int = yield Now()
    number = begun.attempts + 1
    event_id = attempt_event_id(scope, identity.memo, number)
    return Attempt(identity, shown_name(scope, identity.name), step_id, number, now, event_id, now)


def again(scope: RunScope, attempt: Attempt) -> Flow[None]:
    """Make this attempt the next one at the same unit, in the same entry."""
    attempt.number += 1
    attempt.began_ms = yield Now()
    attempt.started_event_id = attempt_event_id(scope, attempt.identity.memo, attempt.number)


def started_draft(scope: RunScope, attempt: Attempt, content: Mapping[str, Any]) -> Draft:
    """The ``step.started`` of an attempt, under the id by which a later entry looks for it."""
    identity = attempt.identity
    said = events.step_started(identity.kind, attempt.shown, identity.memo, content)
    return said.draft(
        attempt.started_event_id,
        attempt.began_ms,
        scope.actor,
        run_id=scope.run_id,
        step_id=attempt.step_id,
        attempt=attempt.number,
    )


@contextmanager
def attempted(scope: RunScope, attempt: Attempt) -> Iterator[None]:
    """What ends without a recorded result was an attempt only: called again in this entry, it is the same unit."""
    try:
        yield
    finally:
        without_result(scope, attempt)


def without_result(scope: RunScope, attempt: Attempt) -> None:
    """The attempt is over; unless its result is on record, the next call like it is the same unit."""
    if not attempt.ended:
        begun = Begun(attempt.step_id, attempt.number)
        scope.part(Record).without_result(attempt.identity, begun)


def inside(identity: Identity, fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` one step further down; what it does in order stays in order (see :func:`main_lane`)."""
    ordered = in_main_lane()
    if is_async(fn):
        return _within_async(partial(_descend_async, identity.label, ordered, fn))
    return partial(_descend, identity.label, ordered, fn)


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling this gives a coroutine; callable objects and partials are looked through."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004 - the method itself is wanted


def _descend(label: str, ordered: bool, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with inside_step(label):
        if not ordered:
            return fn(*args, **kwargs)
        with main_lane():
            return fn(*args, **kwargs)


async def _descend_async(label: str, ordered: bool, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with inside_step(label):
        if not ordered:
            return await fn(*args, **kwargs)
        with main_lane():
            return await fn(*args, **kwargs)


def _within_async(call: Callable[..., Any]) -> Callable[..., Any]:
    async def within(*args: Any, **kwargs: Any) -> Any:
        return await call(*args, **kwargs)

    return within


def _end(scope: RunScope, attempt: Attempt, answer: CallResult) -> Flow[Any]:
    if isinstance(answer, Raised):
        yield from _failed(scope, attempt, answer.error)
        raise answer.error
    assert isinstance(answer, Returned), "a step has no deadline of its own"
    try:
        result = to_json(_plain(answer.value, attempt), "result")
        yield from finish(scope, attempt, "ok", {"result": result})
    except InputError as refused:
        # The code ran and its result cannot be kept. No result is recorded, so that mended code runs it again.
        yield from finish(scope, attempt, "cancelled", {"error": error_content(refused)})
        raise
    return answer.value


def _failed(scope: RunScope, attempt: Attempt, error: BaseException) -> Flow[None]:
    if is_result(error):
        yield from finish(scope, attempt, "error", {"error": error_content(error)})
    elif comes_from_outside(error):
        yield from finish(scope, attempt, "cancelled", {"error": error_content(error)})


def finish(
    scope: RunScope, attempt: Attempt, outcome: str, content: Mapping[str, Any], *before: Any
) -> Flow[None]:
    """Record the end of a step, with the drafts that belong ``before`` it in the same unit."""
    now: int = yield Now()
    identity = attempt.identity
    said = events.step_finished(
        identity.kind,
        attempt.shown,
        identity.memo,
        outcome,
        max(0, now - attempt.began_ms),
        {**content, **identity.place()},
    )
    ended = draft(scope, said, attempt.step_id, attempt.number, attempt.started_event_id)
    yield from record(scope, *before, ended)
    attempt.ended = outcome != "cancelled"
    scope.part(Record).count(said.type, said.data)


def _plain(value: Any, attempt: Attempt) -> Any:
    if inspect.iscoroutine(value):
        value.close()
        raise InputError(
            f"step {attempt.identity.name} returned a coroutine that nobody awaits",
            hint="pass the async function itself to run.astep",
        )
    return value


def result_of(event: Event) -> Any:
    """What a recorded step came to. Raises the error that it ended with."""
    content = event.content
    if event.data["outcome"] == "error":
        raise error_of(content.get("error", {}))
    return from_json(content["result"])
