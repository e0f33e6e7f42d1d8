"""Whether a value fits a type hint: hints compiled once to checks that change nothing and name the place of a misfit."""

from __future__ import annotations

import collections.abc
import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

DEPTH_MAX: Final = 8
"""Levels of hints inside hints that are checked; what lies deeper may be anything."""

Misfit = tuple[str, Any, Any]
"""Where it is, as a path behind the value; the hint that stands there; and the value that does not fit it."""

Check = Callable[[Any], Misfit | None]
"""Gives None for a value that fits."""

_CALLABLE: Final[Any] = collections.abc.Callable
_WRAPPED: Final = (typing.Annotated, typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)
_UNIONS: Final = (Union, types.UnionType)
_KINDS: Final[Mapping[Any, tuple[type, ...]]] = {
    # As type checkers read them: an int is a float. Unlike them, a bool is no number; in JSON it is none either.
    float: (float, int),
    complex: (complex, float, int),
}
_NUMBERS: Final = (int, float, complex)


def check_of(hint: Any, depth: int = 0) -> Check | None:
    """The check of a hint that was read (no text); None where anything fits or nothing can be said.

    Containers, unions, literals, typed dictionaries and dataclasses are looked into; of any other class, such as a
    pydantic model, the value is an instance.
    """
    if hint is None or hint is type(None):
        return _instance((type(None),), "None")
    if depth > DEPTH_MAX or hint in (Any, object) or isinstance(hint, str | TypeVar):
        return None
    named: Any = getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)
    if named is not None and not isinstance(hint, type):
        return check_of(named, depth + 1)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in _WRAPPED:
        return check_of(inner[0], depth)
    if origin in _UNIONS:
        return _union(hint, [check_of(each, depth + 1) for each in inner], inner)
    if origin is Literal:
        return _literal(hint, inner)
    return _of_class(hint, hint if origin is None else origin, inner, depth)


def _of_class(hint: Any, kind: Any, inner: tuple[Any, ...], depth: int) -> Check | None:
    if not isinstance(kind, type) or kind is type or getattr(kind, "_is_protocol", False):
        return None
    if kind is _CALLABLE:
        return None
    return _generic(hint, kind, inner, depth) if inner or hint == tuple[()] else _class(kind, depth)


def shown(hint: Any) -> str:
    """A hint as a message names it."""
    return (
        hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")
    )


def _instance(kinds: tuple[type, ...], wanted: Any) -> Check:
    if bool not in kinds and any(kind in _NUMBERS for kind in kinds):
        return lambda value: (
            None if isinstance(value, kinds) and not isinstance(value, bool) else ("", wanted, value)
        )
    return lambda value: None if isinstance(value, kinds) else ("", wanted, value)


def _class(kind: type, depth: int) -> Check | None:
    if typing.is_typeddict(kind):
        return _typed_dict(kind, depth)
    try:
        isinstance(None, kind)
    except Exception:  # noqa: BLE001 - a class may refuse to be asked; then nothing can be said
        return None
    instance = _instance(_KINDS.get(kind, (kind,)), kind)
    if not dataclasses.is_dataclass(kind):
        return instance
    hints = _hints(kind)
    fields = _checks_of({field.name: hints.get(field.name, Any) for field in dataclasses.fields(kind)}, depth)
    return (
        _both(instance, _members(fields, lambda value, name: getattr(value, name, _ABSENT)))
        if fields
        else instance
    )


def _typed_dict(kind: type, depth: int) -> Check:
    hints = _hints(kind)
    needed = [
        name
        for name in getattr(kind, "__required_keys__", ())
        # Under postponed annotations the class itself does not know which of its keys may be left out.
        if get_origin(hints.get(name)) is not typing.NotRequired
    ]
    members = _members(_checks_of(hints, depth), lambda value, name: value.get(name, _ABSENT))

    def check(value: Any) -> Misfit | None:
        if not isinstance(value, dict):
            return "", kind, value
        for name in needed:
            if name not in value:
                return f".{name}", hints.get(name, Any), _ABSENT
        return members(value)

    return check


def _generic(hint: Any, kind: type, inner: tuple[Any, ...], depth: int) -> Check | None:
    instance = _class(kind, depth)
    if instance is None:
        return None
    if issubclass(kind, tuple):
        return _both(instance, _tuple(hint, inner, depth))
    if issubclass(kind, collections.abc.Mapping):
        return _both(instance, _mapping(check_of(inner[0], depth + 1), check_of(inner[-1], depth + 1)))
    if issubclass(kind, collections.abc.Iterable) and len(inner) == 1:
        item = check_of(inner[0], depth + 1)
        return instance if item is None else _both(instance, _items(item))
    return instance


def _tuple(hint: Any, inner: tuple[Any, ...], depth: int) -> Check:
    if len(inner) == 2 and inner[1] is Ellipsis:
        item = check_of(inner[0], depth + 1)
        return _fits if item is None else _items(item)
    checks = [check_of(each, depth + 1) or _fits for each in inner]

    def check(value: Any) -> Misfit | None:
        if len(value) != len(checks):
            return "", hint, value
        return _first(
            (f"[{number}]", check(each))
            for number, (check, each) in enumerate(zip(checks, value, strict=True))
        )

    return check


def _items(item: Check) -> Check:
    def check(value: Any) -> Misfit | None:
        # What can be gone through only once is the tool's to go through; and the letters of a text are texts.
        if not isinstance(value, collections.abc.Collection) or isinstance(value, str | bytes):
            return None
        return _first((f"[{number}]", item(each)) for number, each in enumerate(value))

    return check


def _mapping(key: Check | None, member: Check | None) -> Check:
    def check(value: Any) -> Misfit | None:
        for number, (name, each) in enumerate(value.items()):
            # A name may be what a person said, so a message counts the members instead.
            if key is not None and (found := key(name)) is not None:
                return f"[key {number}]{found[0]}", found[1], found[2]
            if member is not None and (found := member(each)) is not None:
                return f"[value {number}]{found[0]}", found[1], found[2]
        return None

    return check


def _union(hint: Any, checks: list[Check | None], inner: tuple[Any, ...]) -> Check | None:
    if any(check is None for check in checks):
        return None
    known = [check for check in checks if check is not None]
    # Of X | None the misfit is told where it is inside X.
    real = [check for check, each in zip(known, inner, strict=True) if each is not type(None)]

    def check(value: Any) -> Misfit | None:
        for one in known:
            if one(value) is None:
                return None
        found = real[0](value) if len(real) == 1 else None
        return found if found is not None and found[0] else ("", hint, value)

    return check


def _literal(hint: Any, members: tuple[Any, ...]) -> Check:
    def check(value: Any) -> Misfit | None:
        # 1 == True, and they are two literals.
        fits = any(type(value) is type(each) and value == each for each in members)
        return None if fits else ("", hint, value)

    return check


def _checks_of(hints: Mapping[str, Any], depth: int) -> list[tuple[str, Check]]:
    made = [(name, check_of(hint, depth + 1)) for name, hint in hints.items()]
    return [(name, check) for name, check in made if check is not None]


def _members(checks: list[tuple[str, Check]], get: Callable[[Any, str], Any]) -> Check:
    def check(value: Any) -> Misfit | None:
        for name, one in checks:
            member = get(value, name)
            if member is not _ABSENT and (found := one(member)) is not None:
                return f".{name}{found[0]}", found[1], found[2]
        return None

    return check


def _both(first: Check, second: Check) -> Check:
    def check(value: Any) -> Misfit | None:
        return first(value) or second(value)

    return check


def _first(found: Iterable[tuple[str, Misfit | None]]) -> Misfit | None:
    for place, misfit in found:
        if misfit is not None:
            return f"{place}{misfit[0]}", misfit[1], misfit[2]
    return None


def _fits(_: Any) -> None:
    return None


def _hints(kind: type) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - hints may name what is only there for type checkers; then each stands for anything
        return {}


class _Absent:
    """Of a member that is not there."""


_ABSENT: Final = _Absent()


def kind_of(value: Any) -> str:
    """What a message says of a value: its type alone, since the value may be what a person said."""
    return "missing" if value is _ABSENT else type(value).__name__


# ---- the hints of a function -----------------------------------------------------------------------------------------


def read_hints(
    fn: Callable[..., Any], annotations: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The hints of a function's parameters by name, and the names of those that cannot be read.

    ``annotations`` are those of its signature. A hint may name what is only there for type checkers; the others are
    read all the same.
    """
    try:
        hints = typing.get_type_hints(fn, include_extras=True)
    except Exception:  # noqa: BLE001 - one that cannot be read; which one is found out below
        hints = {}
    unread: list[str] = []
    for name, annotation in annotations.items():
        if name not in hints:
            try:
                hints[name] = _read(fn, name, annotation)
            except Exception:  # noqa: BLE001 - this one
                unread.append(name)
    return hints, tuple(unread)


def _read(fn: Callable[..., Any], name: str, annotation: Any) -> Any:
    def stand_in() -> None: ...

    stand_in.__annotations__ = {name: annotation}
    owner: Any = getattr(fn, "__wrapped__", fn)
    # Of an object that can be called, the names are those of its method.
    code = owner if hasattr(owner, "__globals__") else type(owner).__call__
    return typing.get_type_hints(stand_in, globalns=getattr(code, "__globals__", {}), include_extras=True)[
        name
    ]
