"""What a call refers to by its bytes, read when it is needed: to send the call, and not to hand out what is on record."""

from __future__ import annotations

from collections.abc import Callable


class Addresses:
    """Addresses of the artifacts of one call (FORMAT 8 and 10), read at most once."""

    __slots__ = ("_found", "_read")

    def __init__(self, read: Callable[[], tuple[str, ...]]) -> None:
        self._read = read
        self._found: tuple[str, ...] | None = None

    def found(self) -> tuple[str, ...]:
        """The addresses. Raises ToolInvalid for what cannot be read."""
        if self._found is None:
            self._found = self._read()
        return self._found


NO_ADDRESSES = Addresses(tuple)
"""Of a call that refers to nothing."""
