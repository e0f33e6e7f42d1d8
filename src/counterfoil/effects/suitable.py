"""What a function must be to become a tool: called once and done, and given the key that its doubt rule rests on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from counterfoil.effects.doubt import DoubtKind, DoubtRule
from counterfoil.effects.signature import KEY_PARAMETER, Parameters
from counterfoil.errors import ToolInvalid

RESTS_ON_KEY: Final[frozenset[DoubtKind]] = frozenset({"key", "lookup_then_key"})
"""Rules that send again because the provider deduplicates by key: without the key in the call it pays twice."""

_METHOD_PARAMETERS: Final = ("self", "cls")


def unfit(fn: Callable[..., Any]) -> str | None:
    """Why this function cannot be a tool, or None.

    A generator does nothing until somebody takes what it yields; what a method's object holds is on no record.
    """
    called = getattr(fn, "__call__", fn)  # noqa: B004 - the method itself is wanted, not whether there is one
    if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in (fn, called)):
        return (
            "a generator function does nothing when it is called;"
            " let a plain or async function do the work and return a list of what it would yield"
        )
    try:
        first = next(iter(inspect.signature(fn).parameters), None)
    except (TypeError, ValueError):
        return "its parameters cannot be read; decorate a plain function that calls it"
    if first in _METHOD_PARAMETERS:
        return (
            f"a method is no tool (its first parameter is {first}): what its object holds is on no record;"
            " decorate a function, or declare the bound method: pay = counterfoil.effect(…)(client.pay)"
        )
    return None


def checked_identity(names: Any, parameters: Parameters, tool: str, key: object) -> tuple[str, ...] | None:
    """The arguments that make the identity of a call without a key. Raises ToolInvalid for what is none of them."""
    if names is None:
        return None
    given = (names,) if isinstance(names, str) else tuple(names)
    offered = parameters.offered
    unknown = [name for name in given if offered is not None and name not in offered]
    if key is not None:
        problem = "a business key is the whole identity: leave identity out, or the key"
    elif not given or unknown:
        problem = f"identity names parameters of the tool, not {', '.join(map(str, unknown)) or 'nothing'}"
    else:
        return tuple(sorted(set(given)))
    raise ToolInvalid(f"tool {tool} cannot be declared: {problem}", tool=tool)


def check_key_arrives(name: str, doubt: DoubtRule, parameters: Parameters) -> None:
    """Refuse a doubt rule that rests on a key which the tool never gets. Raises ToolInvalid.

    A call without the key cannot be deduplicated, nor found under it. ``**rest`` does not get the key: nobody could
    see from the declaration whether it is passed on.
    """
    if parameters.takes_key:
        return
    if doubt.kind in RESTS_ON_KEY:
        raise ToolInvalid(
            f"tool {name} cannot be declared: it would be sent again under the same key, and it takes no {KEY_PARAMETER}",
            hint=f"give it a parameter `{KEY_PARAMETER}: str` and pass that on to the provider;"
            " if the provider takes no key, use by_review(), or by_lookup(fn) with a lookup by the arguments",
            tool=name,
        )
    if doubt.lookup is not None and KEY_PARAMETER in inspect.signature(doubt.lookup).parameters:
        raise ToolInvalid(
            f"tool {name} cannot be declared: its lookup asks for {KEY_PARAMETER}, which no call of the tool carries",
            hint=f"give the tool a parameter `{KEY_PARAMETER}: str` and pass that on to the provider,"
            " or let the lookup find the effect by its arguments",
            tool=name,
        )
