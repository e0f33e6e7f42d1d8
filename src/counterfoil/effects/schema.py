"""The JSON schema of a tool's arguments, made of its type hints the same way on every Python; and its digest."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import hashlib
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Final, Literal, Union, cast, get_args, get_origin
from uuid import UUID

from counterfoil.core import canonical
from counterfoil.core.values import to_json
from counterfoil.errors import InputError

Schema = dict[str, Any]

DEPTH_MAX: Final = 12
"""Levels of classes inside classes that are described; what lies deeper is named."""

_PLAIN: Final[Mapping[Any, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Decimal: {"type": "string", "format": "decimal"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    timedelta: {"type": "string", "format": "duration"},
    UUID: {"type": "string", "format": "uuid"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True},
    dict: {"type": "object"},
}
_SEQUENCES: Final = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_SETS: Final = (set, frozenset, collections.abc.Set)
_MAPPINGS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def argument_schema(fn: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> Schema:
    """The schema of the arguments as one object: a property for each parameter, as its type hint says.

    Hints are read when this is called, so what a module defines further down is known. A hint that cannot be read is
    like none: anything. Classes may be dataclasses, enums, typed dictionaries, named tuples, and whatever has pydantic's
    ``model_json_schema``; any other is an object with its name.
    """
    hints = _hints(fn)
    described: Schema = {"type": "object", "properties": {}}
    required = []
    closed = True
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            closed = False
            continue
        described["properties"][parameter.name] = of_hint(hints.get(parameter.name, Any))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return described | {"required": sorted(required), "additionalProperties": not closed}


def digest_of(schema: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical form, as ``effect.intended`` records it. Raises InputError for what is no JSON."""
    return hashlib.sha256(canonical.encode(to_json(dict(schema), "schema"))).hexdigest()


def of_hint(hint: Any, depth: int = 0) -> Schema:
    """The schema of one type hint."""
    if hint is Any or hint is inspect.Parameter.empty or isinstance(hint, str | typing.TypeVar):
        return {}
    plain = _plain(hint)
    if plain is not None:
        return dict(plain)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (typing.Annotated, typing.NotRequired, typing.Required):
        return of_hint(inner[0], depth)
    if origin in (Union, types.UnionType):
        return {"anyOf": [of_hint(each, depth) for each in inner]}
    if origin is Literal:
        return {"enum": [_member(each) for each in inner]}
    if origin is not None:
        return _generic(origin, inner, depth)
    return _class(hint, depth)


def _plain(hint: Any) -> Schema | None:
    try:
        return cast("dict[Any, Schema]", _PLAIN).get(hint)
    except TypeError:  # a hint that cannot be hashed
        return None


def _generic(origin: Any, inner: tuple[Any, ...], depth: int) -> Schema:
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return {"type": "array", "items": of_hint(inner[0], depth)}
        items = [of_hint(each, depth) for each in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in _SEQUENCES:
        return {"type": "array", "items": of_hint(inner[0], depth)}
    if origin in _SETS:
        return {"type": "array", "items": of_hint(inner[0], depth), "uniqueItems": True}
    if origin in _MAPPINGS:
        return {"type": "object", "additionalProperties": of_hint(inner[1], depth)}
    return _class(origin, depth)


def _class(kind: Any, depth: int) -> Schema:
    named: Schema = {"title": getattr(kind, "__name__", str(kind))}
    if not isinstance(kind, type) or depth >= DEPTH_MAX:
        return named
    if issubclass(kind, enum.Enum):
        return named | {"enum": [_member(each.value) for each in kind]}
    if issubclass(kind, PurePath):
        return {"type": "string", "format": "path"}
    own: Callable[[], Schema] | None = getattr(kind, "model_json_schema", None)
    if own is not None:
        return {**own()}
    fields = _fields(kind)
    if fields is None:
        return named
    hints = _hints(kind)
    properties = {name: of_hint(hints.get(name, Any), depth + 1) for name, _ in fields}
    required = sorted(name for name, needed in fields if needed)
    return named | {"type": "object", "properties": properties, "required": required}


def _fields(kind: type) -> list[tuple[str, bool]] | None:
    """Names of a class's fields, and whether each has to be given; None for a class without declared fields."""
    if dataclasses.is_dataclass(kind):
        return [
            (field.name, field.default is field.default_factory is dataclasses.MISSING)
            for field in dataclasses.fields(kind)
        ]
    if typing.is_typeddict(kind):
        needed = cast("Iterable[str]", getattr(kind, "__required_keys__", ()))
        # Under postponed annotations the class itself does not know which of its keys may be left out.
        hints = _hints(kind).items()
        return [(name, name in needed and get_origin(hint) is not typing.NotRequired) for name, hint in hints]
    listed = getattr(kind, "_fields", None) or getattr(kind, "__struct_fields__", None)
    if listed is None:
        return None
    defaults = getattr(kind, "_field_defaults", {})
    return [(str(name), name not in defaults) for name in listed]


def _hints(thing: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except Exception:  # noqa: BLE001 - hints may name what is only there for type checkers; then each stands for anything
        return {}


def _member(value: Any) -> Any:
    try:
        return to_json(value)
    except InputError:
        return str(value)
