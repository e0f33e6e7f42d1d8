"""Taking over the runtime store of schema 1: what it held, as data, and who makes streams of it.

An adapter knows how the old tables lie and how a stream is written; only the client can make an event, because that
needs keys. So the adapter hands over what it reads, is given streams, and puts them in the place of the old tables, in
one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from msgspec import Struct

from counterfoil.store.unit import StreamAppend

Cells = dict[str, Any]
"""One old row by column: text, integers, None, and bytes where somebody had written what is no text."""


class OldSize(Struct, frozen=True):
    """How much one conversation holds."""

    messages: int
    message_bytes: int
    runs: int


class OldStore(Protocol):
    """The runtime store of schema 1 inside the transaction that takes it over. Rows come as they lie in the file."""

    def conversations(self) -> Iterator[str | bytes]:
        """The id of every conversation that any table names, each once, in order."""
        ...

    def conversation(self, conversation: str | bytes) -> Cells | None:
        """Its row; None where other tables name a conversation that has none."""
        ...

    def head(self, conversation: str | bytes) -> Cells | None:
        """The row of its head, or None."""
        ...

    def runs(self, conversation: str | bytes) -> Iterator[Cells]:
        """Its runs, oldest first."""
        ...

    def admissions(self, conversation: str | bytes) -> Iterator[Cells]:
        """Its admissions, oldest first."""
        ...

    def messages(self, conversation: str | bytes) -> Iterator[Cells]:
        """Its active messages in order, one in memory at a time."""
        ...

    def size(self, conversation: str | bytes) -> OldSize:
        """How much it holds, without reading it."""
        ...


class Takeover(Struct, frozen=True):
    """Who makes the streams. ``streams`` is consumed inside the transaction; what it raises undoes everything."""

    ledger_id: str
    streams: Callable[[OldStore, int], Iterator[StreamAppend]]
    """Given the old store and the time of the migration (ms), one new stream for each conversation."""
