"""The digests that a journal holds in place of what was said (seed 000: payloads are never stored)."""

from __future__ import annotations

import hashlib
import hmac
import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final

from counterfoil.core.turn import clean_summary
from counterfoil.core.values import comparable_text, to_json

RESULT_DIGITS: Final = 12
"""Hexadecimal digits of a result's digest: tool results contribute no more than that (seed 000)."""


ITEMS_MAX: Final = 10_000
"""Values in a payload at most: to encode more takes the turn's thread longer than a journal may (about 1.4 µs each)."""

SIZE_MAX: Final = 16 * 1024 * 1024
"""Characters and bytes in all texts of a payload at most, for the same reason: about 1.4 ns each."""


def payload_hash(payload: Any) -> str | None:
    """SHA-256 (hex) of a payload: a text as UTF-8, lone surrogates as U+FFFD, anything else in canonical form (FORMAT 2).

    None for None, for what has no canonical form, for what holds more than ``ITEMS_MAX`` values or is larger than
    ``SIZE_MAX``, and for what holds a collection of a class of its own: looking into it would run the application's code.
    """
    if payload is None:
        return None
    try:
        if not _is_readable(payload):
            return None
        if issubclass(type(payload), str):
            # A plain copy: a class of its own may have other ideas of its characters.
            encoded = clean_summary(str.__str__(payload)).encode("utf-8")
        else:
            encoded = comparable_text(to_json(payload, "payload"))
    except Exception:  # noqa: BLE001 - a value that raises when it is looked at has no form either
        return None
    return hashlib.sha256(encoded).hexdigest()


def _is_readable(payload: Any) -> bool:
    """Whether there is not too much inside, in collections that are plain ones; looks at types alone."""
    waiting, seen, size = [payload], 0, 0
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if issubclass(kind, str):
            size += str.__len__(value)
        elif kind in (bytes, bytearray):
            size += len(value)
        elif kind is dict:
            seen += len(value)
            waiting += value
            waiting += value.values()
        elif kind in (list, tuple, set, frozenset):
            seen += len(value)
            waiting += value
        elif issubclass(kind, Mapping | Sequence | AbstractSet):
            return False
        if seen > ITEMS_MAX or size > SIZE_MAX:
            return False
    return True


def arguments_hash(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """SHA-256 of a call's arguments by name in canonical form, the same however the call was written."""
    return payload_hash(arguments_by_name(fn, args, kwargs))


def arguments_by_name(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments as given, by the names that ``fn`` has for them; defaults are left out."""
    if not args:
        return dict(kwargs)
    signature = _signature(fn)
    if signature is None:
        return {"args": list(args), **kwargs}
    try:
        given = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError:
        # The call itself will say what is wrong with it.
        return {"args": list(args), **kwargs}
    if _is_method(fn):
        # The object that it is called on is no argument, and seldom has a form that could be hashed.
        given.pop(next(iter(signature.parameters)), None)
    return given


def _is_method(fn: Callable[..., Any]) -> bool:
    """Whether this is a function as it stands in a class body, whose first argument is the object."""
    code, name = getattr(fn, "__code__", None), getattr(fn, "__qualname__", "")
    return (
        "." in name.rpartition("<locals>.")[2]
        and not hasattr(fn, "__self__")
        and code is not None
        and code.co_varnames[:1] in (("self",), ("cls",))
    )


@lru_cache(maxsize=512)
def _signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None


def result_digest(result: Any) -> str | None:
    """The first 12 hexadecimal digits of a result's SHA-256; None for None and for what has no canonical form."""
    found = payload_hash(result)
    return None if found is None else found[:RESULT_DIGITS]


def session_digest(session: str, key: bytes = b"") -> str:
    """The digest (64 hex) by which the turns of a session are found.

    With a ``key`` it is an HMAC, which nobody can guess the session from; without one it is a plain SHA-256.
    """
    text = clean_summary(session).encode("utf-8")
    if key:
        return hmac.new(key, text, hashlib.sha256).hexdigest()
    return hashlib.sha256(text).hexdigest()
