"""JSON schemas of projection states: a part of JSON Schema 2020-12; what is not in it is refused, never passed over."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from counterfoil.core import canonical
from counterfoil.errors import InvalidForm

DEPTH_MAX: Final = 32
"""Schemas inside schemas."""

NOTES: Final = frozenset({"$schema", "$id", "$comment", "title", "description", "default", "examples"})
"""Keywords that say nothing of a value."""

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: type(value) is bool,
    "integer": lambda value: type(value) is int or (type(value) is float and value.is_integer()),
    "number": lambda value: type(value) in (int, float),
    "string": lambda value: type(value) is str,
    "array": lambda value: type(value) is list,
    "object": lambda value: isinstance(value, dict),
}

Misfit = tuple[str, str]
"""Where a value does not fit, as a path of member names and places, and which keyword it breaks."""


def check_schema(schema: Any, name: str, depth: int = 0) -> None:
    """Refuse with InvalidForm a schema that cannot be checked as it stands, naming the keyword."""
    if depth > DEPTH_MAX:
        raise InvalidForm(f"the schema of {name} is nested beyond {DEPTH_MAX} levels", argument="schema")
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise InvalidForm(
            f"the schema of {name} is an object, not {type(schema).__name__}", argument="schema"
        )
    for keyword, value in schema.items():
        form = _FORMS.get(keyword)
        if keyword in NOTES:
            continue
        if form is None:
            raise InvalidForm(
                f"the schema of {name} uses {keyword}, which is not checked here",
                hint=f"these are: {', '.join(sorted(_FORMS))}",
                argument="schema",
            )
        if not form(value):
            raise InvalidForm(f"the schema of {name} has a {keyword} of another form", argument="schema")
        for inner in _inner(keyword, value):
            check_schema(inner, name, depth + 1)


def misfit(value: Any, schema: Any, path: str = "") -> Misfit | None:
    """Where a JSON value first does not fit a checked schema, or None. Names of members only, never values."""
    if schema is True:
        return None
    if schema is False:
        return path, "false"
    for keyword, wanted in schema.items():
        check = _CHECKS.get(keyword)
        if check is not None:
            found = check(value, wanted, path, schema)
            if found is not None:
                return found
    return None


# ---- keywords: the form each has, the schemas inside it, how it is checked --------------------------------------------


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError):
        return False
    return True


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(one, str) and one in _TYPES for one in names)


def _is_schema(value: Any) -> bool:
    return isinstance(value, (bool, Mapping))


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


_FORMS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "enum": lambda value: isinstance(value, list),
    "const": lambda _: True,
    "properties": lambda value: isinstance(value, Mapping),
    "required": lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    "additionalProperties": _is_schema,
    "items": _is_schema,
    "minimum": _is_number,
    "maximum": _is_number,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
    "pattern": _is_pattern,
    "allOf": _is_schemas,
    "anyOf": _is_schemas,
    "oneOf": _is_schemas,
    "not": _is_schema,
}


def _inner(keyword: str, value: Any) -> list[Any]:
    if keyword == "properties":
        return list(value.values())
    if keyword in ("allOf", "anyOf", "oneOf"):
        return list(value)
    return [value] if keyword in ("items", "additionalProperties", "not") else []


def _same(one: Any, other: Any) -> bool:
    return canonical.encode(one) == canonical.encode(other)


def _type(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
    names = wanted if isinstance(wanted, list) else [wanted]
    return None if any(_TYPES[name](value) for name in names) else (path, "type")


def _enum(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
    return None if any(_same(value, one) for one in wanted) else (path, "enum")


def _const(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
    return None if _same(value, wanted) else (path, "const")


def _properties(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
    if not isinstance(value, dict):
        return None
    for name, inner in wanted.items():
        found = misfit(value[name], inner, f"{path}/{name}") if name in value else None
        if found is not None:
            return found
    return None


def _required(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
    whole = not isinstance(value, dict) or all(name in value for name in wanted)
    return None if whole else (path, "required")


def _additional(value: Any, wanted: Any, path: str, schema: Any) -> Misfit | None:
    if not isinstance(value, dict):
        return None
    for name, inner in value.items():
        # A member that nobody declared may be named by a person's words, so it is not shown.
        if name not in schema.get("properties", {}) and misfit(inner, wanted, path) is not None:
            return path, "additionalProperties"
    return None


def _items(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
    if not isinstance(value, list):
        return None
    for place, inner in enumerate(value):
        found = misfit(inner, wanted, f"{path}/{place}")
        if found is not None:
            return found
    return None


def _all_of(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
    return next((found for one in wanted if (found := misfit(value, one, path)) is not None), None)


def _any_of(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
    return None if any(misfit(value, one, path) is None for one in wanted) else (path, "anyOf")


def _one_of(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
    return None if sum(misfit(value, one, path) is None for one in wanted) == 1 else (path, "oneOf")


def _not(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
    return (path, "not") if misfit(value, wanted, path) is None else None


def _bound(keyword: str, kind: tuple[type, ...], holds: Callable[[Any, Any], bool]) -> Any:
    def check(value: Any, wanted: Any, path: str, _: Any) -> Misfit | None:
        return (path, keyword) if type(value) in kind and not holds(value, wanted) else None

    return check


_CHECKS: Final[Mapping[str, Callable[[Any, Any, str, Any], Misfit | None]]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "items": _items,
    "minimum": _bound("minimum", (int, float), lambda value, least: value >= least),
    "maximum": _bound("maximum", (int, float), lambda value, most: value <= most),
    "minLength": _bound("minLength", (str,), lambda value, least: len(value) >= least),
    "maxLength": _bound("maxLength", (str,), lambda value, most: len(value) <= most),
    "minItems": _bound("minItems", (list,), lambda value, least: len(value) >= least),
    "maxItems": _bound("maxItems", (list,), lambda value, most: len(value) <= most),
    "pattern": _bound("pattern", (str,), lambda value, wanted: re.search(wanted, value) is not None),
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
}
