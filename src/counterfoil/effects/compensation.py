"""Compensation: what undoes a tool's effect, declared with the tool; and what a run is told that is there to undo one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct

from counterfoil.core import canonical
from counterfoil.core.values import comparable
from counterfoil.effects.signature import Parameters, check_takes, chosen
from counterfoil.errors import NoRun, ToolInvalid
from counterfoil.store.rows import Index

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool
    from counterfoil.flow.context import RunScope

CALLS_MAX: Final = 32
"""Calls that one effect is undone by, at most."""

RESULT: Final = "result"
"""The name under which a compensation is offered what the tool returned."""

INDEX_CHARACTERS: Final = 32
"""Of the digest in a compensation's key: enough that no two calls of a repair share one."""


class PlannedCall(Struct, frozen=True):
    """A call of a tool that is written down to be made later: ``tool.later(…)``. Making one performs nothing."""

    tool: Tool[..., Any]
    arguments: Mapping[str, Any]


Compensate = Callable[..., PlannedCall | Sequence[PlannedCall] | None]
"""``fn(**arguments)`` giving the calls that undo a call with these arguments; it may also ask for its ``result``."""


class Compensation:
    """What a declaration says of undoing: a tool that takes the same names, or a function that plans calls."""

    def __init__(self, declared: Tool[..., Any] | Compensate, parameters: Parameters, name: str) -> None:
        offered = parameters.offered
        if offered is not None:
            offered |= {RESULT}
        self._name = name
        # `compensate=tool.later` means the tool.
        owner: Any = getattr(declared, "__self__", None)
        if owner is not None and hasattr(owner, "later"):
            declared = owner
        if not hasattr(declared, "later"):
            self._plan: Callable[..., Any] = declared
            self._takes = check_takes(self._plan, offered, "compensation", name)
            return
        tool = cast("Tool[..., Any]", declared)
        self._plan, theirs = tool.later, tool.parameters
        missing = [] if offered is None else sorted(theirs.required - offered)
        if missing:
            raise ToolInvalid(
                f"the compensation of tool {name} needs {missing[0]!r}, which is no parameter of the tool",
                hint="give a function that plans it: compensate=lambda order, result, **_: undo.later(…)",
                tool=name,
            )
        self._takes = theirs.offered

    def calls(self, arguments: Mapping[str, Any], result: Any) -> tuple[PlannedCall, ...]:
        """The calls that undo a call with these arguments. Raises ToolInvalid when the function gives anything else."""
        offered = chosen({**arguments, RESULT: result}, self._takes)
        try:
            # In a context without a run, so that a tool that is called by mistake is not performed.
            given = Context().run(self._plan, **offered)
        except NoRun as performed:
            raise ToolInvalid(
                f"the compensation of tool {self._name} performs a call instead of planning it",
                hint="write it down with tool.later(…)",
                tool=self._name,
            ) from performed
        if isinstance(given, PlannedCall):
            return (given,)
        calls = tuple(given) if isinstance(given, list | tuple) else () if given is None else (given,)
        if len(calls) > CALLS_MAX or not all(isinstance(call, PlannedCall) for call in calls):
            raise ToolInvalid(
                f"the compensation of tool {self._name} gives calls that are yet to be made, at most {CALLS_MAX}",
                hint="return tool.later(…), a list of these, or None; it performs nothing itself",
                tool=self._name,
            )
        return calls


class Compensating:
    """What one entry of a run is there to undo (``scope.part(Compensating)``); nothing, unless a repair began it."""

    def __init__(self, scope: RunScope) -> None:
        self._index: Index = scope.ports.index
        self.repair_id: str | None = None
        self.effect_id: str | None = None

    def begin(self, repair_id: str, effect_id: str | None) -> None:
        """From here on every effect of the run is a compensation of this effect."""
        self.repair_id, self.effect_id = repair_id, effect_id

    def key_of(
        self, tool: Tool[..., Any], arguments: Mapping[str, Any], recorded: Mapping[str, Any]
    ) -> str | None:
        """The key of a call: the tool's own, else one that all runs of the same repair share, else None.

        A repair that is taken up by another run so finds what an earlier one has done.
        """
        key = tool.key_of(arguments)
        if key is None and self.repair_id is not None:
            return repair_key(self._index, self.repair_id, tool.name, recorded)
        return key


def repair_key(index: Index, repair_id: str, tool: str, recorded: Mapping[str, Any]) -> str:
    """The idempotency key of a compensation whose tool has none: one effect per repair, tool and arguments."""
    text = canonical.encode([repair_id, tool, comparable(recorded)]).decode("utf-8")
    return f"{repair_id}/{index('repair', text)[:INDEX_CHARACTERS]}"
