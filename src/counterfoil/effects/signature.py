"""A tool's parameters: binding a call to names, with defaults, and what a lookup or a key function takes of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from counterfoil.effects.fitting import Check, check_of, kind_of, read_hints, shown
from counterfoil.effects.schema import argument_schema, digest_of
from counterfoil.errors import ArgumentInvalid, ToolInvalid

KEY_PARAMETER: Final = "idempotency_key"
"""The parameter that gets the key from Counterfoil; it is never an argument and no part of the identity."""

_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


_NO_DEFAULT: Final = object()


class Parameters:
    """The parameters of one tool, taken apart once so that binding a call is quick.

    Every argument has a name, because it is recorded under it: ``*args`` and positional-only parameters are refused
    when the tool is declared.
    """

    __slots__ = (
        "_checks",
        "_declared",
        "_defaults",
        "_digest",
        "_fn",
        "_known",
        "_names",
        "_own",
        "_positional",
        "_required",
        "_unread",
        "open_ended",
        "shown",
        "takes_key",
        "whole",
    )

    def __init__(self, fn: Callable[..., Any], tool: str, schema: Mapping[str, Any] | None = None) -> None:
        self.whole: inspect.Signature = inspect.signature(fn)
        parameters = list(self.whole.parameters.values())
        _check_kinds(parameters, tool)
        self.takes_key: bool = any(p.name == KEY_PARAMETER for p in parameters)
        own = [p for p in parameters if p.name != KEY_PARAMETER]
        named = [p for p in own if p.kind in _NAMED]
        self.open_ended: bool = len(named) < len(own)
        self.shown: inspect.Signature = self.whole.replace(parameters=own)
        self._names = tuple(p.name for p in named)
        self._known = frozenset(self._names)
        self._positional = tuple(p.name for p in named if p.kind is p.POSITIONAL_OR_KEYWORD)
        self._defaults = {p.name: p.default for p in named if p.default is not p.empty}
        self._required = self._known - self._defaults.keys()
        self._fn = fn
        self._own = own
        self._declared: Mapping[str, Any] | None = schema
        self._checks: list[tuple[str, Check, Any]] | None = None
        self._unread: tuple[str, ...] = ()
        self._digest: str | None = None if schema is None else digest_of(schema)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any], tool: str) -> dict[str, Any]:
        """The arguments by name, defaults applied, in the order of declaration.

        Raises :class:`counterfoil.errors.ToolInvalid` for a call that the function would not take.
        """
        given = dict(zip(self._positional, args, strict=False))
        if len(given) == len(args) and KEY_PARAMETER not in kwargs and given.keys().isdisjoint(kwargs):
            given.update(kwargs)
            if self._required <= given.keys() and (self.open_ended or given.keys() <= self._known):
                bound = {
                    name: given.pop(name) if name in given else self._defaults[name] for name in self._names
                }
                return bound | given
        raise ToolInvalid(
            f"tool {tool} cannot be called like this: {self._complaint(args, kwargs)}",
            hint=f"its parameters are {self.shown}",
            tool=tool,
        )

    def _complaint(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        if KEY_PARAMETER in kwargs:
            return f"{KEY_PARAMETER} is given by Counterfoil, never by the caller"
        try:
            self.shown.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
        return "its arguments do not fit"

    @property
    def described(self) -> Mapping[str, Any]:
        """The JSON schema of the arguments: the declared one, or that of the type hints, read on first use."""
        if self._declared is None:
            self._declared = argument_schema(self._fn, self._own)
        return self._declared

    @property
    def schema(self) -> str:
        """SHA-256 of the schema: what recorded arguments were made for."""
        if self._digest is None:
            self._digest = digest_of(self.described)
        return self._digest

    @property
    def offered(self) -> frozenset[str] | None:
        """Names that a lookup may ask for beside its own; None if the tool takes any (``**rest``)."""
        return None if self.open_ended else self._known

    @property
    def required(self) -> frozenset[str]:
        """Names that every call must give."""
        return self._required

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Parameters whose type hint cannot be read, so that their arguments are not checked."""
        self._compiled()
        return self._unread

    def misfit(self, arguments: Mapping[str, Any], tool: str) -> ArgumentInvalid | None:
        """The first argument that does not fit its type hint; nothing is converted. A default fits as it is."""
        for name, check, default in self._compiled():
            value = arguments.get(name, default)
            if value is not default and (found := check(value)) is not None:
                path = f"arguments.{name}{found[0]}"
                return ArgumentInvalid(
                    f"{path} of tool {tool} is {kind_of(found[2])} where {shown(found[1])} is declared",
                    hint="nothing was recorded or sent; give a value of that type, or declare another one",
                    tool=tool,
                    path=path,
                )
        return None

    def _compiled(self) -> list[tuple[str, Check, Any]]:
        """The checks, made when they are first needed: what a module defines further down is known then."""
        if self._checks is None:
            annotations = {p.name: p.annotation for p in self._own if p.annotation is not p.empty}
            hints, self._unread = read_hints(self._fn, annotations)
            made = [(p, check_of(hints[p.name])) for p in self._own if p.kind in _NAMED and p.name in hints]
            self._checks = [
                (p.name, check, self._defaults.get(p.name, _NO_DEFAULT))
                for p, check in made
                if check is not None
            ]
        return self._checks

    def accepts(self, arguments: Mapping[str, Any]) -> bool:
        """Whether recorded arguments still fit the function (a tool's schema may have changed since)."""
        names = arguments.keys()
        return self._required <= names and (self.open_ended or names <= self._known)

    def unfit(self, arguments: Mapping[str, Any]) -> dict[str, list[str]]:
        """What keeps recorded arguments from fitting, by name: those missing, and those that are not taken any more."""
        names = arguments.keys()
        strange = set() if self.open_ended else names - self._known
        return {"missing": sorted(self._required - names), "not_taken": sorted(strange)}

    def arguments_for_call(self, arguments: Mapping[str, Any], key: str) -> dict[str, Any]:
        """The keyword arguments the tool's function is called with."""
        return {**arguments, KEY_PARAMETER: key} if self.takes_key else dict(arguments)


def taken_by(fn: Callable[..., Any]) -> frozenset[str] | None:
    """Names that a lookup or key function takes; None if it takes all (``**rest``)."""
    parameters = inspect.signature(fn).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters if p.kind in _NAMED)


def check_takes(
    fn: Callable[..., Any], offered: frozenset[str] | None, what: str, tool: str
) -> frozenset[str] | None:
    """As :func:`taken_by`, after checking that everything the function needs is offered to it (None: anything)."""
    for parameter in inspect.signature(fn).parameters.values():
        needed = parameter.kind in _NAMED and parameter.default is parameter.empty
        if needed and offered is not None and parameter.name not in offered:
            raise ToolInvalid(
                f"the {what} of tool {tool} needs {parameter.name!r}, which is no parameter of the tool",
                hint=f"it is called with {', '.join(sorted(offered)) or 'nothing'}",
                tool=tool,
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ToolInvalid(
                f"the {what} of tool {tool} is called by names; {parameter.name!r} has none", tool=tool
            )
    return taken_by(fn)


def chosen(arguments: Mapping[str, Any], names: frozenset[str] | None) -> dict[str, Any]:
    """Those of the arguments that a function takes."""
    return dict(arguments) if names is None else {n: value for n, value in arguments.items() if n in names}


def _check_kinds(parameters: Sequence[inspect.Parameter], tool: str) -> None:
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise ToolInvalid(
                f"tool {tool} has the parameter {parameter}, whose values have no names to be recorded under",
                hint="give every parameter a name; collect many values in one list",
                tool=tool,
            )
