"""Classes that an application registers, so that their instances have a tagged, reversible form (FORMAT 2)."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any, Final, TypeVar

from counterfoil.core.forms import is_label
from counterfoil.errors import InvalidForm

C = TypeVar("C", bound=type)

Encoder = Callable[[Any], Any]
Decoder = Callable[[Any], Any]


class _Registered:
    """How instances of one class are taken apart and put together again."""

    __slots__ = ("decode", "encode", "kind", "name")

    def __init__(self, name: str, kind: type, encode: Encoder, decode: Decoder) -> None:
        self.name: str = name
        self.kind: type = kind
        self.encode: Encoder = encode
        self.decode: Decoder = decode


_by_class: Final[dict[type, _Registered]] = {}
_by_name: Final[dict[str, _Registered]] = {}


def register(
    kind: C, name: str | None = None, *, encode: Encoder | None = None, decode: Decoder | None = None
) -> C:
    """Let instances of this class stand in content, as ``{"$type": name, "value": …}``; returns the class.

    Dataclasses, enums, named tuples, msgspec Structs and pydantic models need nothing more; for any other class give
    ``encode`` (instance to a value that has a form) and ``decode`` (back). ``name`` is what the record keeps: fix it
    if the class may move. Register at import, before anything is recorded or resumed. Raises InvalidForm for a
    class that cannot be taken apart, or a name taken by another class.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Line:
    ...     article: str
    ...     count: int
    >>> counterfoil.register(Line, "shop.Line") is Line
    True
    """
    name = name or f"{kind.__module__}.{kind.__qualname__}"
    if not is_label(name):
        raise InvalidForm(
            f"the class {kind.__qualname__} needs a name that is a label", hint="register(kind, name=…)"
        )
    if (encode is None) is not (decode is None):
        raise InvalidForm(f"{name}: encode and decode are given together or not at all")
    if encode is None or decode is None:
        encode, decode = _means_of(kind, name)
    known = _by_name.get(name)
    if known is not None and known.kind is not kind:
        raise InvalidForm(
            f"the name {name} is taken by another registered class", hint="register(kind, name=…)"
        )
    entry = _Registered(name, kind, encode, decode)
    _by_class[kind] = _by_name[name] = entry
    return kind


def _means_of(kind: Any, name: str) -> tuple[Encoder, Decoder]:
    if issubclass(kind, enum.Enum):
        return (lambda member: member.value), kind
    if dataclasses.is_dataclass(kind):
        names = [item.name for item in dataclasses.fields(kind) if item.init]
        return _by_fields(kind, names)
    if isinstance(fields := getattr(kind, "__struct_fields__", None), tuple):  # msgspec.Struct
        return _by_fields(kind, list(fields))
    if callable(getattr(kind, "model_dump", None)) and callable(
        getattr(kind, "model_validate", None)
    ):  # pydantic
        return (lambda model: model.model_dump()), kind.model_validate
    if issubclass(kind, tuple) and isinstance(fields := getattr(kind, "_fields", None), tuple):
        return _by_fields(kind, list(fields))
    raise InvalidForm(
        f"instances of {name} cannot be taken apart by themselves", hint="register(kind, encode=…, decode=…)"
    )


def _by_fields(kind: Any, names: list[str]) -> tuple[Encoder, Decoder]:
    def encode(instance: Any) -> dict[str, Any]:
        return {name: getattr(instance, name) for name in names}

    def decode(fields: Any) -> Any:
        return kind(**fields)

    return encode, decode


def registered_class(kind: type) -> _Registered | None:
    """The registration of exactly this class, or None; a path counts as registered."""
    found = _by_class.get(kind)
    if found is None and issubclass(kind, PurePath):
        return _by_name["path"]
    return found


def registered_name(name: str) -> _Registered | None:
    """The registration under this name, or None; nothing is imported for it."""
    return _by_name.get(name)


register(Path, "path", encode=str, decode=Path)
