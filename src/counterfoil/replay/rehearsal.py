"""A run rehearsed with another model or policy: a new run whose effects are answered from the record or blocked (DESIGN 6)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.abc import ChildLink
from counterfoil.core import canonical
from counterfoil.core.values import comparable, from_json, to_json
from counterfoil.effects.asked import understood
from counterfoil.effects.handle import Handle
from counterfoil.effects.outcome import answer_of_event
from counterfoil.effects.permitting import judged
from counterfoil.effects.refusals import policy_denied
from counterfoil.effects.standin import StandIn
from counterfoil.effects.tool import Tool
from counterfoil.errors import ContentUnavailable, EffectBlocked
from counterfoil.flow.context import RunScope, step_path
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Flow
from counterfoil.replay.difference import RunDifference
from counterfoil.replay.original import Missing, Original
from counterfoil.runtime.block import RunHost
from counterfoil.runtime.children.state import link_in
from counterfoil.runtime.children.wait import output_of
from counterfoil.runtime.chunks import recorded_chunks
from counterfoil.runtime.inputs import STEP_NAME
from counterfoil.runtime.model import Model, Request, Response, StreamingModel, response_from_json
from counterfoil.runtime.outcome import error_content, error_of
from counterfoil.runtime.recording import record
from counterfoil.runtime.resume import identify
from counterfoil.runtime.run import Run
from counterfoil.runtime.spec import RunSpec, check_seconds
from counterfoil.runtime.step import attempted, begin, finish, is_async, started_draft
from counterfoil.runtime.streaming import AsyncStream, Stream

Steps = Literal["run", "block"]

RECORDED: Final = "recorded"
"""The provider that an answer from the record is recorded under: it was asked nothing, and counts nothing."""

BLOCKED_MAX: Final = 1000
"""Blocked calls that are kept to be told; the run's own record has all."""


class Blocked(Struct, frozen=True):
    """A call that a rehearsal neither made nor answered, and why."""

    kind: str
    name: str
    why: str


class Counts(Struct):
    """What a rehearsal's code was given, and from where."""

    answers_recorded: int = 0
    answers_live: int = 0
    steps_recorded: int = 0
    steps_run: int = 0
    calls_answered: int = 0
    calls_denied: int = 0
    children_answered: int = 0
    blocked: list[Blocked] = field(default_factory=list)


class Understudy:
    """Answers in the place of models, steps and tools; tasks and threads may ask at the same time.

    With a ``model`` every question goes to it. Without one the recorded answer is given to the same request, and the
    agent's own model is asked anything else. A step gets its recorded result, and is run where there is none unless
    ``steps`` is ``block``. A call of a tool gets its recorded outcome or is blocked, whatever it touches.
    """

    def __init__(self, original: Original, model: Model | None, steps: Steps) -> None:
        self.original: Original = original
        self.model: Model | None = model
        self.steps: Steps = steps
        self.counts: Counts = Counts()
        self._lock = threading.Lock()

    # ---- models ----

    def ask(self, model: Any, *, streams: bool = False) -> Any:
        """The model to ask in place of this one; ``streams``: its answer is read as a stream."""
        if self.model is not None:
            self.counts.answers_live += 1
            return self.model
        kind = _AsyncRecordedModel if is_async(model) else _RecordedModel
        return kind(self, model, streams=streams)

    def renamed(self, given: dict[str, Any]) -> dict[str, Any]:
        """What ``ask`` was given; another model goes by its own name and not by the one that the code gives its model."""
        return given if self.model is None else {**given, "name": None}

    def answer(self, request: Request, *, streams: bool) -> Any:
        """The recorded answer to this request, None if there is none; a recorded failure is raised."""
        with self._lock:
            event = self.original.model(request.body)
            self.counts.answers_recorded += event is not None
            self.counts.answers_live += event is None
        if event is None:
            return None
        content = event.content
        if event.type == "provider.failed":
            return _failed_again(event, content, streams=streams)
        response = replace(
            response_from_json(content.get("body", {})),
            provider=RECORDED,
            input_tokens=0,
            output_tokens=0,
            cached_tokens=None,
            reasoning_tokens=None,
            cost=None,
            currency=None,
        )
        if streams and "chunks" in content:
            return chain(recorded_chunks(response.text, content["chunks"]), (response,))
        return response

    # ---- steps ----

    def step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Callable[..., Any]:
        """The function to call in place of this step's."""
        given = to_json({"args": list(args), "kwargs": dict(kwargs)}, "arguments")
        with self._lock:
            event = self.original.step(step_path(), name, given)
            self.counts.steps_recorded += event is not None
            if event is None and self.steps == "run":
                self.counts.steps_run += 1
        if event is not None:
            return partial(_recorded_step, event)
        if self.steps == "run":
            return fn
        return partial(self._refuse_step, name)

    def _refuse_step(self, name: str, *_: Any, **__: Any) -> Any:
        raise self.block("step", name, "the rehearsed run has no result of it with these arguments")

    # ---- tools ----

    def perform(
        self, scope: RunScope, tool: Tool[..., Any], arguments: Mapping[str, Any], handle: Handle
    ) -> Flow[Any]:
        """Answer a call: judged by the policy, recorded as a step of kind ``tool``, and never intended."""
        asked = understood(scope, tool, arguments, handle)
        asked.check_sendable()
        ruling = yield from judged(asked)
        recorded = asked.recorded
        if ruling is not None:
            recorded = ruling.recorded
            yield from record(scope, *ruling.drafts)
            if ruling.enforced and ruling.ruling.outcome == "deny":
                self.counts.calls_denied += 1
                raise policy_denied(
                    ruling.effect_id,
                    tool.name,
                    ruling.policy,
                    ruling.revision,
                    ruling.ruling.rules,
                    ruling.ruling.reasons,
                )
        return (yield from self._answer(scope, tool, recorded))

    def _answer(self, scope: RunScope, tool: Tool[..., Any], recorded: Mapping[str, Any]) -> Flow[Any]:
        identity = identify(scope, "tool", tool.name, canonical.encode(comparable(recorded)))
        attempt = yield from begin(scope, identity)
        with self._lock:
            found = self.original.call(tool.name, recorded)
        with scope.in_flight(attempt.step_id), attempted(scope, attempt):
            hidden = {} if attempt.shown == tool.name else {"name": tool.name}
            yield from record(scope, started_draft(scope, attempt, {"input": recorded, **hidden}))
            try:
                result = self._outcome(tool, found)
                content: dict[str, Any] = {"result": to_json(result, "result")}
            except Exception as error:
                content = {"error": error_content(error), "simulated": _simulated(found, error)}
                yield from finish(scope, attempt, "error", content)
                raise
            yield from finish(scope, attempt, "ok", {**content, "simulated": _simulated(found)})
            return result

    def _outcome(self, tool: Tool[..., Any], found: Event | Missing) -> Any:
        if isinstance(found, Missing):
            raise self.block("tool", tool.name, found.why)
        try:
            result = answer_of_event(found)
        except ContentUnavailable as gone:
            raise self.block("tool", tool.name, f"its recorded outcome is {gone.state}") from gone
        self.counts.calls_answered += 1
        return result

    # ---- children ----

    def spawn(self, scope: RunScope, agent: str, message: Any) -> Flow[ChildLink]:
        """The child that the original spawned with this message; none is begun."""
        scope.check()
        given = to_json({"agent": agent, "message": message}, "message")
        identity = identify(scope, "tool", agent, canonical.encode(comparable(given)))
        attempt = yield from begin(scope, identity)
        with self._lock:
            found = self.original.child(agent, to_json(message, "message"))
        with scope.in_flight(attempt.step_id), attempted(scope, attempt):
            yield from record(scope, started_draft(scope, attempt, {"input": given}))
            if found is None:
                blocked = self.block("child", agent, "the rehearsed run spawned none with this message")
                content = {"error": error_content(blocked), "simulated": {"answer": "blocked", "of": "child"}}
                yield from finish(scope, attempt, "error", content)
                raise blocked
            link = link_in(found)
            told = {"answer": RECORDED, "of": "child", "event_id": found.event_id}
            yield from finish(
                scope, attempt, "ok", {"result": {"child_run_id": link.run_id}, "simulated": told}
            )
            self.counts.children_answered += 1
            return link

    def wait(self, child: ChildLink) -> Any:
        """What the original was told of this child. Raises ``ChildFailed`` as it did."""
        settled = self.original.settlement(child.stream_id)
        if settled is None:
            raise self.block("child", child.agent, "the rehearsed run did not hear of its end")
        return output_of(child, settled)

    def block(self, kind: str, name: str, why: str) -> EffectBlocked:
        """Keep that something was blocked; returns what to raise."""
        with self._lock:
            if len(self.counts.blocked) < BLOCKED_MAX:
                self.counts.blocked.append(Blocked(kind, name, why))
        return EffectBlocked(f"the rehearsal blocked {kind} {name}: {why}", kind=kind, tool=name, why=why)


def _simulated(found: Event | Missing, error: Exception | None = None) -> dict[str, Any]:
    """What content says of an answered or blocked call."""
    if isinstance(error, EffectBlocked) or isinstance(found, Missing):
        return {"answer": "blocked"}
    return {
        "answer": RECORDED,
        "outcome": found.data["outcome"],
        "effect_id": found.data["effect_id"],
        "event_id": found.event_id,
    }


def _failed_again(event: Event, content: Mapping[str, Any], *, streams: bool) -> Iterator[Any]:
    """Raises the failure, after what was delivered of a stream before."""
    message = content.get("message", "")
    failure = error_of({"class": event.data["error_class"], "message": message, "arguments": [message]})
    partly = content.get("partial")
    if not streams or not isinstance(partly, Mapping):
        raise failure
    return _broken_off(recorded_chunks(str(partly.get("text", "")), partly.get("chunks")), failure)


def _broken_off(chunks: Iterator[Any], failure: Exception) -> Iterator[Any]:
    yield from chunks
    raise failure


def _recorded_step(event: Event, *_: Any, **__: Any) -> Any:
    content = event.content
    if event.data["outcome"] == "error":
        raise error_of(content.get("error", {}))
    return from_json(content["result"])


class _StandInModel:
    """Looks like the model it stands in for, as far as a request names it."""

    def __init__(self, understudy: Understudy, model: Any, *, streams: bool) -> None:
        self._understudy = understudy
        self._model = model
        self._streams = streams
        self.retry: Any = getattr(model, "retry", None)
        for attribute in ("model", "name", "provider"):
            found = getattr(model, attribute, None)
            if isinstance(found, str) and found:
                setattr(self, attribute, found)
        if not hasattr(self, "model") and not hasattr(self, "name"):
            own = getattr(model, "__name__", type(model).__name__)
            self.name = "model" if own == "<lambda>" else own


class _RecordedModel(_StandInModel):
    def __call__(self, request: Request) -> Any:
        answer = self._understudy.answer(request, streams=self._streams)
        return self._model(request) if answer is None else answer


class _AsyncRecordedModel(_StandInModel):
    async def __call__(self, request: Request) -> Any:
        answer = self._understudy.answer(request, streams=self._streams)
        return (await self._model(request)) if answer is None else answer


class RehearsalRun(Run):
    """A run whose models, steps and tools are answered by an :class:`Understudy`."""

    def __init__(self, host: RunHost, spec: RunSpec, understudy: Understudy) -> None:
        super().__init__(host, spec)
        self.understudy: Understudy = understudy

    def _open(self, *args: Any, **kwargs: Any) -> None:
        super()._open(*args, **kwargs)
        self._open_scope().part(StandIn).answer = self.understudy.perform

    def ask(self, model: Model, messages: Sequence[Any] | str, **given: Any) -> Response:
        """See :meth:`Run.ask`."""
        return super().ask(self.understudy.ask(model), messages, **self.understudy.renamed(given))

    async def aask(self, model: Model, messages: Sequence[Any] | str, **given: Any) -> Response:
        """See :meth:`Run.aask`."""
        return await super().aask(self.understudy.ask(model), messages, **self.understudy.renamed(given))

    def stream(self, model: StreamingModel, messages: Sequence[Any] | str, **given: Any) -> Stream:
        """See :meth:`Run.stream`."""
        asked = self.understudy.ask(model, streams=True)
        return super().stream(asked, messages, **self.understudy.renamed(given))

    def astream(self, model: StreamingModel, messages: Sequence[Any] | str, **given: Any) -> AsyncStream:
        """See :meth:`Run.astream`."""
        asked = self.understudy.ask(model, streams=True)
        return super().astream(asked, messages, **self.understudy.renamed(given))

    def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """See :meth:`Run.step`."""
        return super().step(name, self.understudy.step(name, fn, args, kwargs), *args, **kwargs)

    async def astep(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """See :meth:`Run.astep`."""
        return await super().astep(name, self.understudy.step(name, fn, args, kwargs), *args, **kwargs)

    def spawn(self, agent: str, message: Any = None, **how: Any) -> ChildLink:
        """See :meth:`Run.spawn`."""
        del how
        return self._drive(self.understudy.spawn(self._open_scope(), agent, message))

    async def aspawn(self, agent: str, message: Any = None, **how: Any) -> ChildLink:
        """See :meth:`Run.aspawn`."""
        del how
        return await self._adrive(self.understudy.spawn(self._open_scope(), agent, message))

    def wait(self, child: ChildLink, *, within_s: float | None = None) -> Any:
        """See :meth:`Run.wait`."""
        del within_s
        return self.understudy.wait(child)

    async def await_(self, child: ChildLink, *, within_s: float | None = None) -> Any:
        """See :meth:`Run.await_`."""
        return self.wait(child, within_s=within_s)

    def absorb(self, run_id: str) -> str:
        """See :meth:`Run.absorb`: what the original was told; no run is ended."""
        found = self.understudy.original.absorbed()
        if found is None:
            raise self.understudy.block("run", run_id, "a rehearsal ends no other run")
        return found

    async def aabsorb(self, run_id: str) -> str:
        """See :meth:`Run.aabsorb`."""
        return self.absorb(run_id)

    def sleep(self, seconds: float) -> None:
        """See :meth:`Run.sleep`: a rehearsal waits for no time, and is never put to rest for it."""
        check_seconds("seconds", seconds, least="from 0")
        self._open_scope().check()

    async def asleep(self, seconds: float) -> None:
        """See :meth:`Run.asleep`."""
        self.sleep(seconds)

    def sleep_until(self, at: datetime) -> None:
        """See :meth:`Run.sleep_until`."""
        del at
        self.sleep(0)

    async def asleep_until(self, at: datetime) -> None:
        """See :meth:`Run.asleep_until`."""
        self.sleep_until(at)

    def _read_inputs(self) -> list[dict[str, Any]]:
        event = self.understudy.original.step("", STEP_NAME, {"args": [], "kwargs": {}})
        return [] if event is None else list(event.content.get("result", ()))


class Rehearsal(Struct):
    """What a rehearsal came to. ``terminal`` None: its run waits, or could not be brought to an end.

    ``error_class`` is what left the agent's code, if anything did. ``difference`` has the original on its left side.
    """

    run_id: str
    rehearsal_of: str
    stream_id: str
    agent: str
    terminal: str | None
    error_class: str | None
    counts: Counts
    difference: RunDifference | None = None
