"""Companions as applications read them: the row, since which event it is so, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterfoil.core.values import from_json
from counterfoil.errors import ContentUnavailable
from counterfoil.flow.event import ContentState


class Companion:
    """One row that was kept beside the events. ``state`` is one of the words of FORMAT 6, never an empty value."""

    __slots__ = ("_content", "commitment", "conversation", "key", "reason", "state", "table")

    def __init__(
        self,
        conversation: str,
        table: str,
        key: str,
        commitment: str,
        state: ContentState,
        content: Mapping[str, Any] | None,
        reason: str = "",
    ) -> None:
        self.conversation: str = conversation
        self.table: str = table
        self.key: str = key
        """The keyed digest that stands for the row's key in the open."""
        self.commitment: str = commitment
        self.state: ContentState = state
        self.reason: str = reason
        self._content = content

    def __repr__(self) -> str:
        return f"<Companion {self.key[:12]} of {self.table}, {self.state}>"

    @property
    def row(self) -> dict[str, Any]:
        """The row as Python values. Raises ``ContentUnavailable`` where it is erased, withheld, missing or damaged."""
        found = from_json(self._whole()["row"])
        assert isinstance(found, dict), "checked when it was opened"
        return found

    @property
    def event_id(self) -> str:
        """The event beside which it was written. Raises as :attr:`row`."""
        return str(self._whole()["event"])

    @property
    def version(self) -> int:
        """The version of the declaration that it was written under. Raises as :attr:`row`."""
        return int(self._whole()["version"])

    def _whole(self) -> Mapping[str, Any]:
        if self._content is None:
            raise ContentUnavailable(
                f"a row of {self.table} in {self.conversation} is {self.state}: {self.reason}",
                state=self.state,
                table=self.table,
                stream_id=self.conversation,
            )
        return self._content
