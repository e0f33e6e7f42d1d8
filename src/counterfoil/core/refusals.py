"""What keeps a value from having a canonical form, found without recursion and named by path (FORMAT 2)."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from counterfoil.core.limits import INTEGER_DIGITS_MAX, NESTING_MAX, VALUES_MAX
from counterfoil.core.numerals import INTEGER_BOUND
from counterfoil.core.paths import Path, path_text
from counterfoil.errors import DuplicateMember, IntegerTooLong, NotEncodable, TooDeep

_SURROGATE: Final = re.compile("[\ud800-\udfff]").search
_PLAIN_TYPES: Final = frozenset({str, bool, type(None)})


def check_encodable(value: Any) -> None:
    """Raise NotEncodable, TooDeep, IntegerTooLong or DuplicateMember with ``path`` unless ``value`` is JSON.

    Only the exact types count: a subclass, a tuple or any richer value has its tagged form in
    :mod:`counterfoil.core.values`. The first fault in the order of the value is named.
    """
    if not _passes(value):
        _name_fault(value)


def _passes(value: Any) -> bool:
    """Whether the value is JSON; level by level and without paths, since most values are."""
    level = [value]
    for depth in range(NESTING_MAX + 1):
        below: list[Any] = []
        containers = False
        for item in level:
            kind = type(item)
            if kind in _PLAIN_TYPES:
                continue
            if kind is int:
                if not -INTEGER_BOUND < item < INTEGER_BOUND:
                    return False
                continue
            if kind is float:
                if not math.isfinite(item):
                    return False
                continue
            if kind is dict:
                if not _has_plain_names(item):
                    return False
                below += item.values()
            elif kind is list:
                below += item
            else:
                return False
            containers = True
            if len(below) > VALUES_MAX:
                raise _too_many()
        if not containers:
            return True
        if depth == NESTING_MAX:
            return False
        level = below
    return False


def _has_plain_names(members: dict[Any, Any]) -> bool:
    try:
        joined = "".join(members)
    except TypeError:
        return False
    # Joining surrogates can only make two names one where a name holds a surrogate.
    return {str}.issuperset(map(type, members)) and (joined.isascii() or _SURROGATE(joined) is None)


def _name_fault(value: Any) -> None:
    """Walk again in order, with paths; ends without fault only where joined surrogates stay apart."""
    pending: list[tuple[Any, Path, int]] = [(value, None, 0)]
    while pending:
        item, path, depth = pending.pop()
        kind = type(item)
        if kind in _PLAIN_TYPES:
            continue
        if kind is dict or kind is list:
            if depth == NESTING_MAX:
                raise _too_deep(path)
            if kind is dict:
                _check_names(item, path)
            pairs = list(item.items() if kind is dict else enumerate(item))
            pending += [(inner, (path, step), depth + 1) for step, inner in reversed(pairs)]
        else:
            _check_number(item, path)


def _check_names(members: dict[Any, Any], path: Path) -> None:
    """Names are text, and stay different when surrogates standing side by side are joined."""
    names = set()
    for name in members:
        if type(name) is not str:
            raise NotEncodable(
                f"a member name of type {type(name).__name__} at {path_text(path)}; JSON names are text",
                hint="values.to_json writes such a mapping as $map",
                path=path_text(path),
            )
        if not name.isascii():
            joined = name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            if joined in names:
                raise DuplicateMember(
                    f"two member names at {path_text(path)} are the same once surrogates are joined",
                    path=path_text(path),
                )
            names.add(joined)


def _check_number(item: Any, path: Path) -> None:
    where = path_text(path)
    if type(item) is int:
        if not -INTEGER_BOUND < item < INTEGER_BOUND:
            raise IntegerTooLong(
                f"an integer of more than {INTEGER_DIGITS_MAX} digits at {where}",
                hint="write it as text, or as bytes",
                path=where,
            )
    elif type(item) is float:
        if not math.isfinite(item):
            name = "NaN" if math.isnan(item) else "an infinite number"
            raise NotEncodable(
                f"{name} at {where}; JSON has no such number", hint="use null or text", path=where
            )
    else:
        raise NotEncodable(
            f"a value of type {type(item).__qualname__} at {where} has no JSON form",
            hint="values.to_json gives richer values their tagged form",
            path=where,
            type=type(item).__qualname__,
        )


def _too_deep(path: Path) -> TooDeep:
    where = path_text(path)
    return TooDeep(
        f"nesting beyond {NESTING_MAX} levels at {where}",
        hint="flatten the value or write it as text",
        path=where,
    )


def _too_many() -> NotEncodable:
    return NotEncodable(
        f"more than {VALUES_MAX} values inside one another",
        hint="a list that holds itself, or one shared many times over, has no JSON form",
        path="$",
    )
