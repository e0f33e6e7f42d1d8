"""Where part 0 of an event's content points at another part, and whether that part is there (FORMAT 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterfoil.errors import InvalidForm

MARK: Final = b'{"$part":'
"""How a reference begins in canonical form; inside a string its quotes would be escaped."""


def check_references(value: Any, number: int, parts: int) -> None:
    """Raise ``InvalidForm`` where part ``number`` of so many points at a part that does not hold another's value.

    Only part 0 points, and only at the parts after it. A name that stands under ``$literal`` is data.
    """
    for target in _targets(value):
        if number != 0:
            raise InvalidForm(
                f"content part {number} points at part {target!r}; only part 0 points at others",
                hint="put the reference into part 0",
                part=number,
            )
        if type(target) is not int or not 0 < target < parts:
            raise InvalidForm(
                f"content part 0 points at part {target!r}, and the event has parts 0 to {parts - 1}",
                hint="a reference names one of the parts after the first",
                part=0,
            )


def _targets(value: Any) -> Iterator[Any]:
    """What the references inside name. Iterative: the value was encoded, so its depth is bounded already."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            tag, within = next(iter(inner.items())) if len(inner) == 1 else ("", None)
            if tag == "$part":
                yield within
            elif tag == "$literal" and isinstance(within, dict):
                waiting += within.values()
            else:
                waiting += inner.values()
        elif isinstance(inner, list):
            waiting += inner
