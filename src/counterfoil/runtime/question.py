"""What ``run.ask`` and ``run.stream`` are given: checked and encoded once, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from msgspec import Struct

from counterfoil.core.context import Cut
from counterfoil.core.cutting import cut_json
from counterfoil.effects.retry import Retry
from counterfoil.errors import InvalidForm
from counterfoil.runtime.model import PURPOSES, Model, request_body
from counterfoil.runtime.spec import check_text
from counterfoil.runtime.tries import model_policies


class Question(Struct, frozen=True):
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
    retry: tuple[Retry, ...] = ()


def question(
    model: Model,
    messages: Sequence[Any] | str,
    *,
    name: str | None,
    tools: Sequence[Any],
    purpose: str,
    parameters: Mapping[str, Any],
    retry: Retry | Sequence[Retry] | None = None,
    sent: bytes | None = None,
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
    spoken = spoken_messages(messages)
    _check_list("tools", tools)
    called = name or _name_of(model)
    policies = model_policies(getattr(model, "retry", None) if retry is None else retry)
    cut, told = request_body(called, spoken, list(tools), parameters)
    if sent is not None:
        cut, told = _as_sent(sent, told)
    provider = _provider_of(model)
    whole, given = cut.whole(), dict(parameters)
    return Question(model, called, provider, purpose, cut, whole, told, spoken, tuple(tools), given, policies)


def spoken_messages(messages: Any) -> list[Any]:
    """What was given as messages, as a list: text is what the user says. Raises ``InvalidForm`` for what is no list."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    _check_list("messages", messages)
    return list(messages)


def _check_list(argument: str, value: Any) -> None:
    if isinstance(value, bytes | bytearray | Mapping) or not isinstance(value, Collection):
        raise InvalidForm(f"{argument} is a list, not {type(value).__name__}", argument=argument)


def _as_sent(sent: Any, told: bytes) -> tuple[Cut, bytes]:
    """The bytes that the caller will send in place of ours, and what tells them from every other request."""
    if type(sent) is not bytes:
        raise InvalidForm(
            f"sent is the bytes of the request as they go out, not {type(sent).__name__}", argument="sent"
        )
    try:
        sent.decode()
    except UnicodeDecodeError as error:
        raise InvalidForm(
            f"a request is UTF-8; byte {error.start} is not",
            hint="keep it with run.artifact and put the handle into the messages",
            argument="sent",
        ) from None
    return cut_json(sent), told + sha256(sent).digest()


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
