"""What an application declares: a name, a version, a schema, where the state begins, and how an event changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from counterfoil.core import canonical
from counterfoil.core.forms import is_event_type, is_label
from counterfoil.core.values import from_json, to_json
from counterfoil.errors import InvalidForm
from counterfoil.projections.schema import Misfit, check_schema, misfit
from counterfoil.projections.told import Told

Over = Literal["conversation", "tenant"]
"""One state for each conversation, or one over all conversations of the tenant, in the order of the feed."""

Fold = Callable[[Any, Told], Any]
"""The next state from the last and one event. Deterministic: no clock, no chance, nothing from outside."""

OWN_TYPES: Final = frozenset({"checkpoint.created", "checkpoint.rejected"})
"""What is recorded of projections themselves: no fold is told it, so a state does not depend on who keeps it."""


@dataclass(frozen=True, slots=True)
class Projection:
    """State that is folded from events.

    ``initial`` and every state have a form (FORMAT 2). A fold gets a state of its own and may change and return it.
    ``types`` (empty: all) names the event types that it is told. Raise ``version`` when the fold or the form of its
    state changes: it is then folded from the first event.

    >>> paid = Projection("paid", 1, initial=0, fold=lambda total, event: total + 1, types={"order.paid"})
    >>> paid.first()
    0
    """

    name: str
    version: int
    initial: Any
    fold: Fold
    schema: Mapping[str, Any] | None = None
    types: frozenset[str] = frozenset()
    over: Over = "conversation"
    _begins: bytes = field(default=b"", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not is_label(self.name):
            raise InvalidForm(
                "the name of a projection is a label: 1 to 128 of A-Za-z0-9_.:/+-", argument="name"
            )
        if type(self.version) is not int or self.version < 1:
            raise InvalidForm(f"the version of {self.name} is an integer from 1 on", argument="version")
        if not callable(self.fold):
            raise InvalidForm(
                f"the fold of {self.name} is a function (state, event) -> state", argument="fold"
            )
        if self.over not in ("conversation", "tenant"):
            raise InvalidForm(f"{self.name} is over a conversation or a tenant", argument="over")
        object.__setattr__(self, "types", _types(self.name, self.types))
        if self.schema is not None:
            check_schema(self.schema, self.name)
        encoded = self.encoded(self.initial)
        wrong = self.misfit(canonical.decode(encoded))
        if wrong is not None:
            raise InvalidForm(
                f"the initial state of {self.name} does not fit its schema: {wrong[1]} at {wrong[0] or '/'}",
                argument="initial",
            )
        object.__setattr__(self, "_begins", encoded)

    def first(self) -> Any:
        """The state before the first event: a new one each time."""
        return self.decoded(self._begins)

    def encoded(self, state: Any) -> bytes:
        """The canonical bytes of a state. Raises an InputError with the path of what has no form."""
        return canonical.encode(to_json(state, self.name))

    def decoded(self, data: bytes) -> Any:
        """The state of these bytes."""
        return from_json(canonical.decode(data), self.name)

    def misfit(self, value: Any) -> Misfit | None:
        """Where a state in its JSON form does not fit the schema, or None."""
        return None if self.schema is None else misfit(value, self.schema)

    @property
    def may_be_none(self) -> bool:
        """Whether None is a state: it is the first one, or the schema allows ``null``."""
        return self.initial is None or (self.schema is not None and self.misfit(None) is None)

    def wants(self, event_type: str) -> bool:
        """Whether the fold is told events of this type."""
        return event_type not in OWN_TYPES and (not self.types or event_type in self.types)


def _types(name: str, types: Iterable[str]) -> frozenset[str]:
    if isinstance(types, str):
        raise InvalidForm(f"the types of {name} are several: give a set", argument="types")
    found = frozenset(types)
    for one in found:
        if not is_event_type(one):
            raise InvalidForm(f"the types of {name} are event types such as order.paid", argument="types")
    return found
