"""Every projection and event type that a program has declared at import, for commands that load its module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from counterfoil.core.fields import FieldForm
from counterfoil.core.upcast import Upcast
from counterfoil.errors import InvalidForm
from counterfoil.projections.declare import Fold, Over, Projection

_declared: Final[dict[str, Projection]] = {}
_types: Final[dict[tuple[str, int], EventType]] = {}


class EventType(Struct, frozen=True):
    """A type of the application, as ``ledger.declare`` takes it; ``upcast`` is the step from the version before."""

    event_type: str
    version: int = 1
    public: Mapping[str, str | FieldForm] | None = None
    ignorable: bool = False
    upcast: Upcast | None = None


class Declares(Protocol):
    """A ledger handle."""

    def declare(
        self,
        event_type: str,
        version: int = 1,
        public: Mapping[str, str | FieldForm] | None = None,
        *,
        ignorable: bool = False,
    ) -> None:
        """Declare an event type."""
        ...

    def upcast(self, event_type: str, from_version: int, step: Upcast) -> None:
        """Say how an old version reads in the next."""
        ...

    def project(self, projection: Projection) -> Projection:
        """Declare a projection."""
        ...


def event_type(
    event_type: str,
    version: int = 1,
    public: Mapping[str, str | FieldForm] | None = None,
    *,
    ignorable: bool = False,
    upcast: Upcast | None = None,
) -> EventType:
    """Declare an event type where a module is imported, so that commands know it too; ``upcast`` reads the version before."""
    made = _types[event_type, version] = EventType(event_type, version, public, ignorable, upcast)
    return made


def declare_all(ledger: Declares) -> None:
    """Declare on a handle what was declared at import: event types first, then projections."""
    for key in sorted(_types):
        known = _types[key]
        ledger.declare(known.event_type, known.version, known.public, ignorable=known.ignorable)
        if known.upcast is not None:
            ledger.upcast(known.event_type, known.version - 1, known.upcast)
    for one in projections():
        ledger.project(one)


def projection(
    name: str,
    version: int = 1,
    *,
    initial: Any,
    schema: Mapping[str, Any] | None = None,
    types: Iterable[str] = (),
    over: Over = "conversation",
) -> Callable[[Fold], Projection]:
    """Declare a projection by its fold, where a module is imported; ``app`` in ``counterfoil.toml`` names that module.

    What is decorated becomes the :class:`Projection`, to be given to ``counterfoil.open(…, projections=[…])``. Declared
    again (a reload) it replaces itself; another fold under the same name and version raises ``InvalidForm``.

    >>> @projection("lines", initial=0, types={"order.noted"})
    ... def lines(total, event):
    ...     return total + event.data["lines"]
    >>> lines.name
    'lines'
    """

    def declare(fold: Fold) -> Projection:
        made = Projection(name, version, initial, fold, schema, frozenset(types), over)
        known = _declared.get(name)
        if known is not None and known.version == version and _place(known.fold) != _place(fold):
            raise InvalidForm(
                f"the projection {name} version {version} is declared twice",
                hint="give one of them another name",
            )
        _declared[name] = made
        return made

    return declare


def projections() -> list[Projection]:
    """Those declared so far, by name."""
    return [_declared[name] for name in sorted(_declared)]


def _place(fold: Fold) -> tuple[str, str]:
    code = getattr(fold, "__code__", None)
    return (getattr(code, "co_filename", ""), getattr(fold, "__qualname__", type(fold).__qualname__))
