"""Errors as recorded results: written when a step fails, and made again when a resumed run reaches that step."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, Final

from counterfoil import errors
from counterfoil.core import canonical
from counterfoil.core.values import from_json, to_json
from counterfoil.errors import CounterfoilError, EffectError, StepFailed
from counterfoil.errors.base import text_of

MESSAGE_CHARACTERS_MAX: Final = 4096
CLASS_CHARACTERS_MAX: Final = 256
ARGUMENTS_BYTES_MAX: Final = 256 * 1024

_BUILTIN: Final[Mapping[str, type[Exception]]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}
_OURS: Final[Mapping[str, type[CounterfoilError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, EffectError)
}


def is_result(error: BaseException) -> bool:
    """Whether this error is what the step came to, and not the ledger or the run giving up around it.

    A full disk or a lost lease says nothing about the step: it runs again.
    """
    if isinstance(error, CounterfoilError):
        return isinstance(error, EffectError)
    return isinstance(error, Exception)


def error_content(error: BaseException) -> dict[str, Any]:
    """The error for content: its class, its message, and its arguments where they have a JSON form."""
    said = error.message if isinstance(error, CounterfoilError) else error
    content: dict[str, Any] = {
        "class": type(error).__name__[:CLASS_CHARACTERS_MAX],
        "message": text_of(said)[:MESSAGE_CHARACTERS_MAX],
    }
    if isinstance(error, CounterfoilError):
        content["fields"] = _encoded(error.fields)
    elif type(error).__name__ in _BUILTIN:
        content["arguments"] = _encoded(list(error.args))
    return {name: value for name, value in content.items() if value is not None}


def error_of(content: Mapping[str, Any]) -> Exception:
    """The error to raise for a recorded one.

    Only Python's built-in exceptions and ours are made again: no class is looked up by a name found in data
    (FORMAT 2). Any other is :class:`StepFailed` with the name in ``error_class``.
    """
    name, message = str(content.get("class", "error")), str(content.get("message", ""))
    try:
        if type(content.get("arguments")) is list and name in _BUILTIN:
            return _BUILTIN[name](*(from_json(item) for item in content["arguments"]))
        if name in _OURS:
            fields = content.get("fields")
            return _OURS[name](message, **(from_json(fields) if isinstance(fields, dict) else {}))
    except (TypeError, ValueError, CounterfoilError):
        pass
    return StepFailed(
        message, hint="the step failed like this when it ran; a resumed run gets its record", error_class=name
    )


def _encoded(value: Any) -> Any:
    """The form of what an error carries, or None: however large or odd it is, the error has a place in its event."""
    try:
        form = to_json(value)
        return form if len(canonical.encode(form)) <= ARGUMENTS_BYTES_MAX else None
    except Exception:  # noqa: BLE001 - a value of any kind may be hung on an error
        return None
