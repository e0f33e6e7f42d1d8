"""What became of a request: the response, the failure, or that it is tried again (DESIGN 6)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from counterfoil.core.event import Draft
from counterfoil.errors import InputError, ModelFailed
from counterfoil.errors.base import text_of
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.loops import comes_from_outside
from counterfoil.flow.requests import Flow, Now
from counterfoil.runtime import events
from counterfoil.runtime.chunks import Chunks
from counterfoil.runtime.events import Said
from counterfoil.runtime.model import Response, answer_json, response_from_json, response_json
from counterfoil.runtime.outcome import MESSAGE_CHARACTERS_MAX, error_content, is_result
from counterfoil.runtime.question import Question
from counterfoil.runtime.recording import draft, error_label, record, shown_name
from counterfoil.runtime.resume import Record
from counterfoil.runtime.step import Attempt, finish
from counterfoil.runtime.trees import Tree
from counterfoil.runtime.tries import decided, decision, is_passing, status_of


def is_no_answer(error: object) -> bool:
    """Whether this ends a call without being its answer: it is asked again when the run goes on."""
    return isinstance(error, GeneratorExit) or comes_from_outside(error)


class Sent(Struct, frozen=True):
    """A request that is durable and was sent; ``chunks`` is what its answer has streamed so far."""

    asked: Question
    attempt: Attempt
    call_id: str
    requested_event_id: str
    chunks: Chunks

    def draft(self, scope: RunScope, said: Said) -> Draft:
        """An event that follows from the request."""
        attempt = self.attempt
        return draft(scope, said, attempt.step_id, attempt.number, self.requested_event_id)


class Again(Struct, frozen=True):
    """The attempt failed, and another one is due at this time."""

    due_ms: int


def answered(scope: RunScope, sent: Sent, response: Response) -> Flow[Response | Again]:
    """Record the response, in one unit with the end of its step.

    One that cannot be recorded is a failed call, whatever is wrong with it.
    """
    try:
        said = _responded(scope, sent, response)
    except Exception as refused:  # noqa: BLE001 - a response holds whatever a model put into it
        return (yield from failed(scope, sent, refused, unusable=True, answer=response))
    served = {"response": said.content["response"]}
    event = sent.draft(scope, said)
    try:
        yield from finish(scope, sent.attempt, "ok", served, event)
    except InputError as refused:
        return (yield from failed(scope, sent, refused, unusable=True))
    scope.part(Record).count(said.type, said.data)
    scope.part(Tree).responded(event.event_id, response.text)
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
        "chunks": sent.chunks.count if sent.chunks.open else None,
    }
    data.update({name: value for name, value in optional.items() if value is not None})
    named = {"id": response.id, "provider": response.provider}
    content = {
        "response": {name: value for name, value in named.items() if value is not None},
        "model": response.model or asked.name,
        "body": response_json(response),
    }
    if sent.chunks.open:
        content["chunks"] = sent.chunks.form(response.text)
    return Said("provider.responded", data, content)


def failed(
    scope: RunScope,
    sent: Sent,
    error: BaseException,
    *,
    unusable: bool = False,
    answer: Any = None,
    seen: bool = False,
    stopped: bool = False,
) -> Flow[Again]:
    """Record a failure with what was streamed before it; another attempt where a policy says so.

    ``unusable``: the model answered, and the answer is no response; it is kept as it came. ``seen``: somebody has read chunks of it. Neither
    is tried again. ``stopped``: the call is no result and will be asked again. Raises ``ModelFailed``, or what ended the
    call from outside.
    """
    cancelled = stopped or is_no_answer(error)
    if not cancelled and not is_result(error) and not isinstance(error, InputError):
        # The ledger gave up, not the model: nothing is known about its answer.
        raise error
    label = error_label(error)
    said = events.provider_failed(
        sent.call_id,
        shown_name(scope, sent.asked.provider),
        label,
        retryable=cancelled or is_passing(error),
        status=status_of(error),
        message=text_of(error)[:MESSAGE_CHARACTERS_MAX],
        partial=sent.chunks.partial() if sent.chunks.count else None,
        answer=None if answer is None else answer_json(answer),
    )
    policies = () if cancelled or unusable or seen or isinstance(error, InputError) else sent.asked.retry
    attempt = sent.attempt
    retry = yield from decision(policies, error, attempt.number, attempt.first_ms)
    drafts = [sent.draft(scope, said)]
    if retry is not None:
        drafts.append(sent.draft(scope, decided(retry, sent.call_id, label)))
        if retry.retry:
            yield from record(scope, *drafts)
            now: int = yield Now()
            return Again(now + retry.delay_ms)
    yield from finish(
        scope, attempt, "cancelled" if cancelled else "error", {"error": error_content(error)}, *drafts
    )
    if cancelled:
        raise error
    raise model_failed(sent.asked.name, text_of(error), type(error).__name__) from error


def model_failed(name: str, message: str, error_class: str) -> ModelFailed:
    """The error of a call that failed, now or in the record."""
    return ModelFailed(
        f"model {name} failed with {error_class}: {message[:MESSAGE_CHARACTERS_MAX]}",
        hint="the failure is recorded as provider.failed; ask again to make another attempt",
        error_class=error_class,
    )


def recorded(book: Record, event: Event) -> Response:
    """The response behind the recorded end of a step. Raises ``ModelFailed`` where that was a failure."""
    if event.data["outcome"] == "error":
        raise recorded_failure(event)
    found = book.answer(event.header.step_id)
    content = event.content if found is None else found.content
    return response_from_json(content.get("body", {}))


def recorded_failure(event: Event) -> ModelFailed:
    """The failure that a step ended with."""
    error = event.content.get("error", {})
    name = str(event.data["name"])
    return model_failed(name, str(error.get("message", "")), str(error.get("class", "error")))
