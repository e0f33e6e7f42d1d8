"""Asking a model: the exact request is durable before it is sent, the response before it is used (DESIGN 2.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec.structs import replace

from counterfoil.core.context import Exact
from counterfoil.core.event import Draft
from counterfoil.errors import InputError
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Call, CallResult, Flow, NewId, Raised, Returned
from counterfoil.runtime import events
from counterfoil.runtime.answer import Again, Sent, answered, failed, recorded
from counterfoil.runtime.budgets.check import within_budget
from counterfoil.runtime.chunks import Chunks
from counterfoil.runtime.model import Model, Request, Response, response_of
from counterfoil.runtime.question import Question
from counterfoil.runtime.recording import draft, shown_name
from counterfoil.runtime.resume import Identity, Record, identify
from counterfoil.runtime.slots.book import slots_used
from counterfoil.runtime.step import Attempt, again, attempted, begin, inside, is_async, started_draft
from counterfoil.runtime.trees import Tree, branch_drafts
from counterfoil.runtime.tries import still_due_ms, until_due


def ask_flow(scope: RunScope, asked: Question) -> Flow[Response]:
    """Ask once for this request and occurrence; later entries get the recorded response without a call.

    A failure that its policy tries again is another attempt at the same step. A model that streams is read to its end.
    Raises ``ModelFailed`` when the model raises, on resume too.
    """
    identity = identified(scope, asked)
    book = scope.part(Record)
    if (found := book.take(identity)) is not None:
        return recorded(book, found)
    attempt = yield from begun(scope, identity)
    with attempted(scope, attempt):
        while True:
            with scope.in_flight(attempt.step_id):
                chunks = Chunks()
                sent = yield from sent_request(scope, asked, attempt, chunks)
                read = inside(identity, _gathering(asked.model, chunks))
                answer: CallResult = yield Call(asked.name, read, (request_of(scope, sent),))
                if scope.asynchronous and isinstance(answer, Returned) and hasattr(answer.value, "__aiter__"):
                    # A plain function may return what only the event loop can read.
                    answer = yield Call(asked.name, inside(identity, _adrained), (answer.value, chunks))
                response = yield from _after(scope, sent, answer)
            if isinstance(response, Response):
                return response
            yield from another(scope, attempt, response)


def identified(scope: RunScope, asked: Question) -> Identity:
    """Which call this is, in program order. Raises what keeps the run from asking."""
    if is_async(asked.model) and not scope.asynchronous:
        raise InputError(
            f"the model {asked.name} is async and was asked in a sync run",
            hint="use `async with ledger.run(…)` and `await run.aask(…)`, or pass a plain function",
        )
    scope.check()
    return identify(scope, "model", asked.name, asked.told)


def begun(scope: RunScope, identity: Identity) -> Flow[Attempt]:
    """Begin the next attempt at a call that the record has no answer for; one that is due later is waited for."""
    yield from within_budget(scope)
    attempt = yield from begin(scope, identity)
    due_ms = still_due_ms(scope, attempt.step_id)
    if due_ms is not None:
        yield from until_due(scope, due_ms)
    return attempt


def another(scope: RunScope, attempt: Attempt, due: Again) -> Flow[None]:
    """Wait until the next attempt is due, and make this attempt the next one: retries share their step."""
    yield from until_due(scope, due.due_ms)
    yield from within_budget(scope)
    yield from again(scope, attempt)


def sent_request(scope: RunScope, asked: Question, attempt: Attempt, chunks: Chunks) -> Flow[Sent]:
    """Record the exact request with what it brings to the context tree; what is returned may be sent."""
    call_id: str = yield NewId("cal")
    requested_id: str = yield NewId("evt")
    # Where the call stands in the program is told by the end of its step: a call without an end is made again.
    started = started_draft(scope, attempt, {} if attempt.shown == asked.name else {"name": asked.name})
    provider = shown_name(scope, asked.provider)
    place = (attempt.step_id, attempt.number, started.event_id)

    def drafts(exact: Exact) -> list[Draft]:
        said = events.provider_requested(
            call_id, provider, attempt.shown, asked.purpose, exact, slots_used(scope)
        )
        requested = replace(draft(scope, said, *place), event_id=requested_id)
        return [started, *branch_drafts(scope, exact, *place), requested]

    yield from scope.part(Tree).record(asked.cut, drafts)
    scope.check_cancelled()
    return Sent(asked, attempt, call_id, requested_id, chunks)


def request_of(scope: RunScope, sent: Sent) -> Request:
    """The request as the model is given it."""
    asked = sent.asked
    return Request(
        model=asked.name,
        messages=asked.messages,
        tools=asked.tools,
        parameters=asked.parameters,
        purpose=asked.purpose,
        body=asked.body,
        run_id=scope.run_id,
        step_id=sent.attempt.step_id,
        call_id=sent.call_id,
        attempt=sent.attempt.number,
    )


def _after(scope: RunScope, sent: Sent, answer: CallResult) -> Flow[Response | Again]:
    if isinstance(answer, Raised):
        return (yield from failed(scope, sent, answer.error))
    assert isinstance(answer, Returned), "a model call has no deadline of its own"
    try:
        response = sent.chunks.response() if sent.chunks.open else response_of(answer.value)
    except Exception as refused:  # noqa: BLE001 - an answer that cannot be used is a failed call, whatever is wrong with it
        return (yield from failed(scope, sent, refused, unusable=True, answer=answer.value))
    return (yield from answered(scope, sent, response))


def _gathering(model: Model, chunks: Chunks) -> Callable[..., Any]:
    """The model, and where it streams whatever it streams: kept piece by piece, so that a failure loses none of it."""
    if is_async(model):

        async def agather(request: Request) -> Any:
            answer = await cast("Callable[..., Any]", model)(request)
            return (
                await _adrained(answer, chunks) if hasattr(answer, "__aiter__") else _drained(answer, chunks)
            )

        return agather

    def gather(request: Request) -> Any:
        return _drained(model(request), chunks)

    return gather


def _drained(answer: Any, chunks: Chunks) -> Any:
    if not hasattr(answer, "__next__"):
        return answer
    chunks.open = True
    for chunk in answer:
        chunks.take(chunk)
    return None


async def _adrained(answer: Any, chunks: Chunks) -> Any:
    chunks.open = True
    async for chunk in answer:
        chunks.take(chunk)
    return None
