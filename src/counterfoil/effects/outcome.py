"""What a call or a lookup says about its effect, as content to record; and recorded outcomes handed out again."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Mapping
from concurrent.futures import Future
from itertools import islice
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.core import canonical
from counterfoil.core.forms import is_label
from counterfoil.core.values import from_json, to_json
from counterfoil.effects.doubt import Found
from counterfoil.errors import (
    CounterfoilError,
    EffectFailed,
    InputError,
    NotDone,
    Rejected,
    ResultNotKept,
    ToolInvalid,
)
from counterfoil.errors.base import text_of
from counterfoil.flow.event import Event
from counterfoil.flow.requests import CallResult, Raised, Returned

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool

MESSAGE_CHARACTERS_MAX: Final = 2_000
REPR_CHARACTERS_MAX: Final = 1_000
FIELD_BYTES_MAX: Final = 16 * 1024
FIELDS_MAX: Final = 32
CLASS_CHARACTERS_MAX: Final = 256
PROVIDER_ID_CHARACTERS_MAX: Final = 1_000

NEVER_SENT: Final = "NeverSent"
"""``error_class`` of an attempt that ended before its call; a resumed run makes the call instead of repeating this."""

_NEED_MORE_ARGUMENTS: Final = (UnicodeError, BaseExceptionGroup, StopIteration, StopAsyncIteration)
_BUILTIN_ERRORS: Final = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _NEED_MORE_ARGUMENTS)
}
"""Errors that a recorded failure may be raised again as. Never a class looked up by a name found in data."""


class Verdict(Struct, frozen=True):
    """What became of one attempt: the outcome, its content, and the live value or error for the caller."""

    outcome: Literal["succeeded", "rejected", "failed", "unknown"]
    content: Mapping[str, Any] = field(default_factory=dict)
    error_class: str | None = None
    value: Any = None
    error: BaseException | None = None

    def without_result(self, refused: InputError) -> Verdict:
        """The same with a description in place of a result that has no place in an event.

        The effect has happened; a result too large or too deep must not hide that. Raises ``refused`` when there is
        no result to leave out.
        """
        if "result" not in self.content:
            raise refused
        content = {name: value for name, value in self.content.items() if name != "result"}
        return replace(self, content=content | not_kept(self.value, refused))

    def hand_out(self) -> Any:
        """Return the value to the caller, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


def judge_call(tool: Tool[..., Any], result: CallResult) -> Verdict:
    """Return is succeeded, Rejected is rejected, NotDone is failed; anything else is unknown (CONTRACTS, Tool result).

    A tool that touches nothing fails instead of being unknown, unless the call was interrupted from outside.
    """
    if isinstance(result, Returned):
        return (
            _unfinished(tool, result.value) if _is_unfinished(result.value) else _success(tool, result.value)
        )
    error = result.error if isinstance(result, Raised) else _timeout(tool)
    match error:
        case Rejected():
            return failure("rejected", error)
        case NotDone():
            return failure("failed", error)
        case Exception() if tool.doubt.kind == "repeat":
            return failure("failed", error)
        case _:
            return failure("unknown", error)


_PLAIN_RESULTS: Final = frozenset({dict, list, tuple, str, int, float, bool, NoneType})


def _is_unfinished(value: Any) -> bool:
    """Whether a result is a promise of one: what it stands for may be done later, or never."""
    return type(value) not in _PLAIN_RESULTS and (
        inspect.isawaitable(value)
        or isinstance(value, Future)
        or inspect.isgenerator(value)
        or inspect.isasyncgen(value)
    )


def _unfinished(tool: Tool[..., Any], value: Any) -> Verdict:
    """No success, as nobody awaits it; and not confirmed undone, as the function may have acted before it returned."""
    error = ToolInvalid(
        f"tool {tool.name} returned {type(value).__name__}, which nobody awaits or runs through",
        hint="decorate the `async def` itself, or wait for the answer inside the tool and return that",
        tool=tool.name,
    )
    if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
        # Otherwise Python complains that it was never awaited, in a place that names nobody.
        value.close()
    return failure("failed" if tool.doubt.kind == "repeat" else "unknown", error)


def judge_found(tool: Tool[..., Any], found: Found) -> Verdict:
    """The verdict of a provider that knows the effect."""
    if found.outcome == "succeeded":
        return _success(tool, found.result)
    said = f"the provider of {tool.name} says: {found.outcome}"
    error = Rejected(said) if found.outcome == "rejected" else NotDone(said)
    verdict = failure(found.outcome, error)
    content = {**told_content(found.result), **verdict.content}
    return Verdict(found.outcome, content, None, found.result, error)


def failure(outcome: Literal["rejected", "failed", "unknown"], error: BaseException) -> Verdict:
    """A verdict that is raised to the caller."""
    return Verdict(outcome, {"error": error_content(error)}, error_label(error), None, error)


def result_content(value: Any) -> dict[str, Any]:
    """``{"result": …}``, or a bounded description where the value has no form that can be read back."""
    try:
        return {"result": to_json(value)}
    except Exception as refused:  # noqa: BLE001 - the effect has happened; an odd result must not hide that
        return not_kept(value, refused)


def told_content(value: Any) -> dict[str, Any]:
    """As :func:`result_content`, for what stands beside the outcome in one event: a large one is described too."""
    form = _small_form(value)
    return {"result": form} if form is not _NO_FORM else not_kept(value, _TOO_LARGE)


def not_kept(value: Any, refused: Exception) -> dict[str, Any]:
    """What is recorded of a result that cannot be: its type, why, and the beginning of its ``repr``."""
    try:
        shown = str.__str__(repr(value))
    except Exception as error:  # noqa: BLE001 - a result's own repr must not undo that the effect succeeded
        shown = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return {
        "result_not_kept": {
            "type": type(value).__name__[:CLASS_CHARACTERS_MAX],
            "repr": shown[:REPR_CHARACTERS_MAX],
            "why": _message(refused)[:MESSAGE_CHARACTERS_MAX],
        }
    }


def error_label(error: BaseException) -> str:
    """The class name as it stands in headers."""
    name = type(error).__name__
    return name if is_label(name) else "Exception"


def error_content(error: BaseException) -> dict[str, Any]:
    """Class, message and, for our own errors, hint and fields; what :func:`raise_recorded` needs."""
    content: dict[str, Any] = {
        "class": f"{type(error).__module__}.{type(error).__qualname__}"[:CLASS_CHARACTERS_MAX],
        "message": _message(error)[:MESSAGE_CHARACTERS_MAX],
    }
    if isinstance(error, NotDone):
        # An application's own subclass is told apart from errors of any other kind by this.
        content["kind"] = NotDone.__name__
    if isinstance(error, CounterfoilError):
        if error.hint:
            content["hint"] = text_of(error.hint)[:MESSAGE_CHARACTERS_MAX]
        fields = {
            name[:CLASS_CHARACTERS_MAX]: kept
            for name, value in islice(error.fields.items(), FIELDS_MAX)
            if (kept := _small_form(value)) is not _NO_FORM
        }
        if fields:
            content["fields"] = fields
    return content


def answer_of_event(event: Event) -> Any:
    """What a recorded outcome means to the code that resumes: its result returned, or its error raised (CONTRACTS).

    Raises Rejected, NotDone (or the built-in error it was), EffectFailed after a settlement without success,
    ResultNotKept, or :class:`counterfoil.errors.ContentUnavailable`.
    """
    outcome = event.data["outcome"]
    effect_id = event.data["effect_id"]
    if outcome == "succeeded":
        return _recorded_result(event, effect_id)
    if event.type == "effect.settled":
        raise EffectFailed(
            f"effect {effect_id} was settled as {outcome}", effect_id=effect_id, outcome=outcome
        )
    raise _recorded_error(event, outcome, effect_id)


def _recorded_result(event: Event, effect_id: str) -> Any:
    content = event.content
    lost = content.get("result_not_kept")
    if lost is not None:
        raise ResultNotKept(
            f"effect {effect_id} succeeded and is not sent again, but its result, a {lost['type']}, could not be recorded",
            hint="return plain values, dataclasses registered with counterfoil, or bytes from the tool",
            effect_id=effect_id,
        )
    return from_json(content["result"]) if "result" in content else None


def _recorded_error(event: Event, outcome: str, effect_id: str) -> Exception:
    recorded = event.content.get("error") or {}
    message = str(recorded.get("message") or f"effect {effect_id} ended as {outcome}")
    kind = str(recorded.get("class") or "")
    ours = Rejected if outcome == "rejected" else NotDone
    # What is recorded as rejected was a Rejected, if only a subclass that a resumed run does not look up by name.
    if outcome == "rejected" or recorded.get("kind") == NotDone.__name__:
        fields = from_json(recorded.get("fields") or {})
        return ours(
            message, hint=recorded.get("hint"), **{n: v for n, v in fields.items() if n not in _TAKEN}
        )
    module, _, name = kind.rpartition(".")
    if module == "builtins" and name in _BUILTIN_ERRORS:
        return _BUILTIN_ERRORS[name](message)
    return EffectFailed(
        f"effect {effect_id} ended as {outcome}: {message}", effect_id=effect_id, outcome=outcome
    )


_TAKEN: Final = frozenset({"message", "hint"})


def _success(tool: Tool[..., Any], value: Any) -> Verdict:
    content = result_content(value)
    provider_id = tool.provider_id_of(value)
    if provider_id is not None:
        content["provider_effect_id"] = provider_id[:PROVIDER_ID_CHARACTERS_MAX]
    return Verdict("succeeded", content, None, value)


def _timeout(tool: Tool[..., Any]) -> TimeoutError:
    return TimeoutError(f"tool {tool.name} gave no answer within {tool.timeout_s:g} s")


def _message(error: BaseException) -> str:
    if isinstance(error, CounterfoilError):
        return text_of(error.message)
    if len(error.args) == 1 and type(error.args[0]) is str:
        return error.args[0]
    return text_of(error)


_NO_FORM: Final = object()
_TOO_LARGE: Final = InputError(f"it has no form of at most {FIELD_BYTES_MAX} bytes")


def _small_form(value: Any) -> Any:
    """The value as content if it has a form of moderate size; an error must always have a place in its event."""
    try:
        form = to_json(value)
        return form if len(canonical.encode(form)) <= FIELD_BYTES_MAX else _NO_FORM
    except Exception:  # noqa: BLE001 - a value of any kind may be hung on an error
        return _NO_FORM
