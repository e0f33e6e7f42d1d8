"""Upcasts: how the payload of an old version of a type reads in the newest one; applied on read (FORMAT 19)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from counterfoil.core.forms import is_event_type
from counterfoil.errors import InvalidForm, UnknownEventType

Payload = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""``data`` of the header, and the opened content or None where it is erased, withheld or missing."""

Upcast = Callable[[Mapping[str, Any], Mapping[str, Any] | None], Payload]
"""A pure step from one version to the next; it must cope with content that is None."""


class Upcasts:
    """The registered steps of every type. Stored bytes never change; only what readers see."""

    __slots__ = ("_newest", "_steps")

    def __init__(self) -> None:
        self._steps: dict[tuple[str, int], Upcast] = {}
        self._newest: dict[str, int] = {}

    def register(self, event_type: str, from_version: int, step: Upcast) -> None:
        """Add the step from ``from_version`` to the next. Raises InvalidForm if there is one already."""
        if not is_event_type(event_type) or type(from_version) is not int or from_version < 1:
            raise InvalidForm("an upcast is registered for an event type and a version from 1 on")
        if (event_type, from_version) in self._steps:
            raise InvalidForm(f"{event_type} version {from_version} has an upcast already")
        self._steps[event_type, from_version] = step
        self._newest[event_type] = max(self._newest.get(event_type, 1), from_version + 1)

    def newest(self, event_type: str) -> int:
        """The version that :meth:`apply` leads to; 1 for a type without steps."""
        return self._newest.get(event_type, 1)

    def apply(
        self, event_type: str, version: int, data: Mapping[str, Any], content: Mapping[str, Any] | None
    ) -> tuple[int, Mapping[str, Any], Mapping[str, Any] | None]:
        """The payload as the newest version has it, with that version.

        A version newer than every step is returned as it is. Raises UnknownEventType when a step is missing.
        """
        newest = self._newest.get(event_type)
        if newest is None:
            return version, data, content
        while version < newest:
            step = self._steps.get((event_type, version))
            if step is None:
                raise UnknownEventType(
                    f"no upcast leads from version {version} of {event_type} to the next",
                    hint="register the missing step",
                    event_type=event_type,
                    version=version,
                )
            data, content = step(data, content)
            version += 1
        return version, data, content
