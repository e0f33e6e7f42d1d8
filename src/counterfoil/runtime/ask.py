"""Asking a model: the exact request is durable before it is sent, the response before it is used (DESIGN 2.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from counterfoil.core.context import Cut, Exact
from counterfoil.core.event import Draft
from counterfoil.errors import InputError, InvalidForm, ModelFailed
from counterfoil.errors.base import text_of
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Call, CallResult, Flow, NewId, Raised, Returned
from counterfoil.runtime import events
from counterfoil.runtime.budgets.check import within_budget
from counterfoil.runtime.events import Said
from counterfoil.runtime.model import (
    PURPOSES,
    Model,
    Request,
    Response,
    request_body,
    response_from_json,
    response_json,
    response_of,
)
from counterfoil.runtime.outcome import MESSAGE_CHARACTERS_MAX, error_content, is_result
from counterfoil.runtime.recording import draft, error_label, shown_name
from counterfoil.runtime.resume import Record, identify
from counterfoil.runtime.slots.book import slots_used
from counterfoil.runtime.spec import check_text
from counterfoil.runtime.step import Attempt, attempted, begin, finish, inside, is_async, started_draft
from counterfoil.runtime.trees import Tree, branch_drafts


@dataclass(frozen=True, slots=True)
class Question:
    """What ``run.ask`` was given, checked and encoded once; ``told`` tells it from every other question."""

    model: Model
    name: str
    provider: str
    purpose: str
    cut: Cut
    body: bytes
    told: bytes
    messages: Sequence[Any]
    tools: Sequence[Any]
    parameters: Mapping[str, Any]


def question(
    model: Model,
    messages: Sequence[Any] | str,
    *,
    name: str | None,
    tools: Sequence[Any],
    purpose: str,
    parameters: Mapping[str, Any],
) -> Question:
    """Check what was asked. Raises an InputError naming the path; nothing is written."""
    if purpose not in PURPOSES:
        raise InvalidForm(f"purpose is one of {', '.join(PURPOSES)}", argument="purpose")
    if not callable(model):
        raise InvalidForm(
            "the model is not callable",
            hint="pass a function that takes a counterfoil.Request",
            argument="model",
        )
    check_text("name", name)
    for argument, value in (("messages", messages), ("tools", tools)):
        if isinstance(value, bytes | bytearray | Mapping) or not isinstance(value, Collection):
            raise InvalidForm(f"{argument} is a list, not {type(value).__name__}", argument=argument)
    spoken = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
    called = name or _name_of(model)
    cut, told = request_body(called, spoken, list(tools), parameters)
    provider = _provider_of(model)
    return Question(
        model, called, provider, purpose, cut, cut.whole(), told, spoken, tuple(tools), dict(parameters)
    )


def _name_of(model: Model) -> str:
    """What the record calls a model that was not named: its ``model`` or ``name``, else its function or class.

    A lambda is just ``model``.
    """
    for attribute in ("model", "name", "__name__"):
        found = getattr(model, attribute, None)
        if isinstance(found, str) and found:
            return "model" if found == "<lambda>" else found
    if isinstance(model, partial):
        return _name_of(model.func)
    return type(model).__name__


def _provider_of(model: Model) -> str:
    found = getattr(model, "provider", None)
    return found if isinstance(found, str) and found else "callable"


def ask_flow(scope: RunScope, asked: Question) -> Flow[Response]:
    """Ask once for this request and occurrence; later entries get the recorded response without a call.

    Raises ``ModelFailed`` when the model raises, on resume too.
    """
    if is_async(asked.model) and not scope.asynchronous:
        raise InputError(
            f"the model {asked.name} is async and was asked in a sync run",
            hint="use `async with ledger.run(…)` and `await run.aask(…)`, or pass a plain function",
        )
    scope.check()
    identity = identify(scope, "model", asked.name, asked.told)
    book = scope.part(Record)
    if (found := book.take(identity)) is not None:
        return _recorded(book, found)
    yield from within_budget(scope)
    attempt = yield from begin(scope, identity)
    call_id: str = yield NewId("cal")
    with scope.in_flight(attempt.step_id), attempted(scope, attempt):
        requested = yield from _before(scope, asked, attempt, call_id)
        scope.check_cancelled()
        request = _request(scope, asked, attempt, call_id)
        answer: CallResult = yield Call(asked.name, inside(identity, asked.model), (request,))
        sent = Sent(asked, attempt, call_id, requested)
        return (yield from _after(scope, sent, answer))


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that is durable and was sent."""

    asked: Question
    attempt: Attempt
    call_id: str
    requested_event_id: str

    def draft(self, scope: RunScope, said: Said) -> Draft:
        """An event that follows from the request."""
        attempt = self.attempt
        return draft(scope, said, attempt.step_id, attempt.number, self.requested_event_id)


def _before(scope: RunScope, asked: Question, attempt: Attempt, call_id: str) -> Flow[str]:
    """Record the exact request with what it brings to the context tree; the id of ``provider.requested``."""
    hidden = {} if attempt.shown == asked.name else {"name": asked.name}
    started = started_draft(scope, attempt, {**hidden, **attempt.identity.place()})
    provider = shown_name(scope, asked.provider)
    place = (attempt.step_id, attempt.number, started.event_id)
    requested_id: str = yield NewId("evt")

    def drafts(exact: Exact) -> list[Draft]:
        said = events.provider_requested(
            call_id, provider, attempt.shown, asked.purpose, exact, slots_used(scope)
        )
        requested = replace(draft(scope, said, *place), event_id=requested_id)
        return [started, *branch_drafts(scope, exact, *place), requested]

    yield from scope.part(Tree).record(asked.cut, drafts)
    return requested_id


def _request(scope: RunScope, asked: Question, attempt: Attempt, call_id: str) -> Request:
    return Request(
        model=asked.name,
        messages=asked.messages,
        tools=asked.tools,
        parameters=asked.parameters,
        purpose=asked.purpose,
        body=asked.body,
        run_id=scope.run_id,
        step_id=attempt.step_id,
        call_id=call_id,
        attempt=attempt.number,
    )


def _after(scope: RunScope, sent: Sent, answer: CallResult) -> Flow[Response]:
    if isinstance(answer, Raised):
        failure = yield from _failed(scope, sent, answer.error)
        if failure is answer.error:
            raise failure
        raise failure from answer.error
    assert isinstance(answer, Returned), "a model call has no deadline of its own"
    try:
        response = response_of(answer.value)
        said = _responded(scope, sent, response)
    except Exception as refused:
        # An answer that cannot be recorded is a failed call, whatever is wrong with it.
        raise (yield from _failed(scope, sent, refused)) from refused
    served = {"response": said.content["response"]}
    try:
        yield from finish(scope, sent.attempt, "ok", served, sent.draft(scope, said))
    except InputError as refused:
        raise (yield from _failed(scope, sent, refused)) from refused
    scope.part(Record).count(said.type, said.data)
    return response


def _responded(scope: RunScope, sent: Sent, response: Response) -> Said:
    asked = sent.asked
    data: dict[str, Any] = {
        "call_id": sent.call_id,
        "provider": shown_name(scope, response.provider or asked.provider),
        "finish": response.finish,
        "input_tokens": response.input_tokens,
        "output_tokens": response.output_tokens,
    }
    optional = {
        "cached_tokens": response.cached_tokens,
        "reasoning_tokens": response.reasoning_tokens,
        "cost": response.cost,
        "currency": response.currency,
    }
    data.update({name: value for name, value in optional.items() if value is not None})
    named = {"id": response.id, "provider": response.provider}
    content = {
        "response": {name: value for name, value in named.items() if value is not None},
        "model": response.model or asked.name,
        "body": response_json(response),
    }
    return Said("provider.responded", data, content)


def _failed(scope: RunScope, sent: Sent, error: BaseException) -> Flow[BaseException]:
    """Record what became of the attempt; returns what to raise."""
    cancelled = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt, SystemExit))
    answered = is_result(error) or isinstance(error, InputError)
    if not cancelled and not answered:
        return error
    status = getattr(error, "status_code", None)
    said = events.provider_failed(
        sent.call_id,
        shown_name(scope, sent.asked.provider),
        error_label(error),
        retryable=cancelled or isinstance(error, (TimeoutError, ConnectionError)),
        status=status if type(status) is int else None,
        message=text_of(error)[:MESSAGE_CHARACTERS_MAX],
    )
    # A cancelled call was nobody's answer: it is asked again.
    outcome = "error" if answered else "cancelled"
    yield from finish(scope, sent.attempt, outcome, {"error": error_content(error)}, sent.draft(scope, said))
    return (
        error
        if outcome == "cancelled"
        else _model_failed(sent.asked.name, text_of(error), type(error).__name__)
    )


def _model_failed(name: str, message: str, error_class: str) -> ModelFailed:
    return ModelFailed(
        f"model {name} failed with {error_class}: {message[:MESSAGE_CHARACTERS_MAX]}",
        hint="the failure is recorded as provider.failed; ask again to make another attempt",
        error_class=error_class,
    )


def _recorded(book: Record, event: Event) -> Response:
    if event.data["outcome"] == "error":
        error = event.content.get("error", {})
        raise _model_failed(
            str(event.data["name"]), str(error.get("message", "")), str(error.get("class", "error"))
        )
    answered = book.answer(event.header.step_id)
    content = event.content if answered is None else answered.content
    return response_from_json(content.get("body", {}))
