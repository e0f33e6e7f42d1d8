"""What a model is asked and what it answers: the two values between a run and any provider."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from msgspec import Struct, field
from msgspec.structs import asdict, force_setattr

from counterfoil.core import canonical
from counterfoil.core.context import Cut, cut_request
from counterfoil.core.forms import is_decimal
from counterfoil.core.limits import HEADER_INTEGER_MAX
from counterfoil.core.values import from_json, to_json
from counterfoil.errors import CounterfoilError, InputError, InvalidForm, NotEncodable

Purpose = Literal["primary", "tools_disabled", "fallback", "compaction"]
Finish = Literal["stop", "length", "tools", "filter", "refusal", "other"]

_FINISHES: Final[Mapping[str, Finish]] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tools": "tools",
    "tool_calls": "tools",
    "tool_use": "tools",
    "filter": "filter",
    "content_filter": "filter",
    "refusal": "refusal",
}
"""Words that providers use for why a model stopped; an unknown one is ``other``."""


class Request(Struct, frozen=True):
    """One request to a model, recorded before the model sees it.

    ``body`` is the exact canonical JSON that was recorded; ``run_id``, ``step_id``, ``call_id`` and ``attempt`` say
    where. The messages and tools are those of ``body``.

    >>> def model(request: counterfoil.Request) -> str:
    ...     return f"{request.model} was asked: {request.messages[-1]['content']}"
    >>> with counterfoil.open(":memory:") as ledger, ledger.run("agent") as run:
    ...     answer = run.ask(model, "Where is my order?", name="small-1").text
    >>> answer
    'small-1 was asked: Where is my order?'
    """

    model: str
    messages: Sequence[Any]
    tools: Sequence[Any] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    purpose: str = "primary"
    body: bytes = b""
    run_id: str = ""
    step_id: str = ""
    call_id: str = ""
    attempt: int = 1


class Response(Struct, frozen=True):
    """What a model answered.

    ``id`` and ``provider`` are the provider's own; ``model`` is the one that served; tokens are counts; ``cost`` is
    decimal text or a Decimal from 0, never a float; ``data`` keeps whatever else should be recorded.

    >>> counterfoil.Response("On its way.", finish="end_turn", output_tokens=4, cost="0.0002").finish
    'stop'
    """

    text: str = ""
    tool_calls: Sequence[Mapping[str, Any]] = ()
    finish: str = "stop"
    id: str | None = None
    provider: str | None = None
    model: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: str | Decimal | None = None
    currency: str | None = None
    data: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _check_word("text", self.text)
        for name in ("id", "provider", "model", "currency"):
            if getattr(self, name) is not None:
                _check_word(name, getattr(self, name))
        force_setattr(self, "finish", _FINISHES.get(self.finish, "other"))
        force_setattr(self, "tool_calls", tuple(self.tool_calls))
        for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"):
            _check_count(name, getattr(self, name))
        if self.cost is not None:
            force_setattr(self, "cost", _money(self.cost))


Model = Callable[
    [Request], "Response | str | Mapping[str, Any] | Awaitable[Response | str | Mapping[str, Any]]"
]
"""Anything that answers a request; async in an async run."""

StreamingModel = Callable[[Request], Any]
"""As :data:`Model`, returning an iterator of chunks (text, dicts, perhaps a Response at the end), async or not."""

ANSWER_BYTES_MAX: Final = 1_048_576
"""Largest answer that is kept although it is no response; what is larger could hinder that its failure is recorded."""

_MEMBERS: Final = frozenset(Response.__struct_fields__)
_TOKENS: Final = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "cached_tokens": ("cached_tokens", "cache_read_input_tokens"),
    "reasoning_tokens": ("reasoning_tokens",),
}


def response_of(answer: Any) -> Response:
    """A model's answer as a Response: text is the answer, a mapping its members. Raises InputError for anything else.

    A mapping may hold the members of :class:`Response`, a ``usage`` mapping with token counts and ``content`` for
    ``text``; members that are none of these are kept in ``data``.
    """
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, str):
        return Response(answer)
    if isinstance(answer, Mapping):
        return _of_mapping(answer)
    if inspect.iscoroutine(answer):
        answer.close()
    raise InputError(
        f"a model returned {type(answer).__name__}",
        hint="return a counterfoil.Response, text, or a dict with text and usage",
    )


def _of_mapping(answer: Mapping[str, Any]) -> Response:
    known = {name: value for name, value in answer.items() if name in _MEMBERS and value is not None}
    rest = {name: value for name, value in answer.items() if name not in _MEMBERS}
    if "text" not in known and isinstance(rest.get("content"), str):
        known["text"] = rest.pop("content")
    usage = rest.pop("usage", None)
    if usage is not None:
        counts = _usage(usage)
        known = {**counts, **known}
        if usage and not counts:
            # Counted in words that are not known here: kept as it came, rather than taken for nothing.
            rest["usage"] = usage
    if rest:
        known["data"] = {**known.get("data", {}), **rest}
    return Response(**known)


def _usage(usage: Any) -> dict[str, int]:
    if not isinstance(usage, Mapping):
        raise InvalidForm(
            f"usage is a mapping of token counts, not {type(usage).__name__}",
            hint='give {"input_tokens": …, "output_tokens": …}',
            argument="usage",
        )
    found = {}
    for name, words in _TOKENS.items():
        count = next((usage[word] for word in words if usage.get(word) is not None), None)
        if count is not None:
            found[name] = count
    return found


def _check_count(name: str, value: Any) -> None:
    if value is None:
        return
    if type(value) is not int or not 0 <= value <= HEADER_INTEGER_MAX:
        found = (
            type(value).__name__
            if type(value) is not int
            else "a negative one"
            if value < 0
            else "a larger one"
        )
        raise InvalidForm(f"{name} is a whole number from 0 to 2^53-1, not {found}", argument=name)


def _check_word(name: str, value: Any) -> None:
    if type(value) is not str:
        raise InvalidForm(f"{name} is text, not {type(value).__name__}", argument=name)


def _money(cost: Any) -> str:
    text = f"{cost:f}" if isinstance(cost, Decimal) else str(cost) if type(cost) in (str, int) else ""
    if not is_decimal(text):
        raise InvalidForm(
            'cost is decimal text such as "0.0042", or a Decimal',
            hint="a float has lost digits already",
            argument="cost",
        )
    if not text.startswith("-"):
        return text
    if Decimal(text):
        raise InvalidForm(
            "cost is a decimal from 0, not a negative one",
            hint="record what was given back as a fact of your own: run.record(…)",
            argument="cost",
        )
    return text[1:]


# ---- JSON --------------------------------------------------------------------------------------------------------


class Encoded(NamedTuple):
    """A request in bytes: cut where its messages lie, and in the form that tells it from every other."""

    cut: Cut
    told: bytes


def request_body(model: str, messages: Any, tools: Any, parameters: Mapping[str, Any]) -> Encoded:
    """The exact bytes of a request, and those that tell it from every other. Raises NotEncodable naming the path.

    The first are the plain JSON that a provider gets (``1.0`` is ``1``, and a schema keeps its ``$ref``) as long as
    every value is JSON. In the second whatever is beyond JSON is tagged, so that no request passes for another.
    """
    given = {"messages": messages, "tools": tools, "parameters": dict(parameters)}
    given = {name: value for name, value in given.items() if value or name == "messages"}
    tagged = cast("dict[str, Any]", to_json(given, "request"))
    told = canonical.encode({**tagged, "model": model})
    try:
        return Encoded(_cut(canonical.encode({**given, "model": model}), messages), told)
    except NotEncodable:
        return Encoded(_cut(told, tagged["messages"]), told)


def _cut(whole: bytes, messages: Sequence[Any]) -> Cut:
    return cut_request(whole, [canonical.encode(message) for message in messages])


def response_json(response: Response) -> dict[str, Any]:
    """A response for content; members that are empty are left out."""
    given = {name: value for name, value in asdict(response).items() if value not in (None, (), "")}
    given["tool_calls"] = [dict(call) for call in response.tool_calls]
    return cast("dict[str, Any]", to_json(given, "response"))


def answer_json(answer: Any) -> Any:
    """What a model answered that is no response, for content: as it came, member by member where not all have a form."""
    found = _formed(answer)
    members = asdict(answer) if isinstance(answer, Response) else answer
    if found is None and isinstance(members, Mapping):
        found = {str(name): _formed(value) for name, value in members.items() if value not in (None, (), "")}
    if found is None or len(canonical.encode(found)) > ANSWER_BYTES_MAX:
        return {"type": type(answer).__name__}
    return found


def _formed(value: Any) -> Any:
    try:
        return None if isinstance(value, Response) else to_json({"it": value}, "answer")["it"]
    except CounterfoilError:
        return None


def response_from_json(content: Mapping[str, Any]) -> Response:
    """The response that :func:`response_json` was given."""
    value = from_json(dict(content))
    members = {name: inner for name, inner in value.items() if name in _MEMBERS}
    # What was recorded is given back as it was, also a cost that is refused today.
    cost = members.pop("cost", None)
    response = Response(**members)
    force_setattr(response, "cost", cost)
    return response


PURPOSES: Final = get_args(Purpose)
