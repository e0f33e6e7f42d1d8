"""The journal contract: append, read, list, and removal for retention and erasure alone (seed 000)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from counterfoil.journal.chain import Chain
from counterfoil.journal.event import TurnEvent, TurnInfo, TurnNote

MAX_LIST: Final = 100
"""Turns that one listing returns at most, unless the settings say otherwise."""


class TurnReader(Protocol):
    """Reading turns. Works whether or not the journal is switched on: it serves what was recorded."""

    def events(self, tenant: str, turn_id: str) -> list[TurnEvent]:
        """The events of a turn by sequence, exactly as stored, damaged ones too; empty if there is no such turn."""
        ...

    def checked(self, tenant: str, turn_id: str) -> tuple[list[TurnEvent], Chain]:
        """The same events, and whether they are the ones that were written, as far as this reader can know."""
        ...

    def turns(
        self,
        tenant: str,
        *,
        agent_id: str | None = None,
        session_hash: str | None = None,
        limit: int = MAX_LIST,
    ) -> list[TurnInfo]:
        """Turns of an agent and a session (None: of all), newest first, at most ``limit``, which is a whole number from 0."""
        ...


class TurnJournal(TurnReader, Protocol):
    """Where turns are kept. Thread-safe; several processes may append, also to one turn.

    Events are append-only: no method changes one, and the engines refuse it to everybody else too.

    A journal of an application is called in the context in which each turn began, one turn at a time. One that looks
    at nothing but the notes says so with ``reads_context = False`` and is given several turns at once.
    """

    def append(self, notes: Sequence[TurnNote]) -> list[TurnEvent]:
        """Record the notes in order, all or none, each chained to the last event of its turn.

        Whoever loses the race for a sequence takes the next one. Raises whatever the engine raises.
        """
        ...

    def end_open(self, commit: TurnNote) -> bool:
        """Record this COMMIT where the turn has none; False, and nothing recorded, where it has one or is gone.

        One step, whoever else writes: a turn that ends just then keeps its own end.
        """
        ...

    def erase(self, tenant: str, *, turn_id: str | None = None, session_hash: str | None = None) -> int:
        """Remove one turn, or all turns of a session, whole; the number of events removed. For erasure."""
        ...

    def prune(self, before_ms: int, *, tenant: str | None = None) -> int:
        """Remove turns whose last event is older than ``before_ms``, whole; events removed. For retention."""
        ...

    def open_turns(
        self, before_ms: int, *, tenant: str | None = None, limit: int = MAX_LIST
    ) -> list[TurnNote]:
        """The last event, as a note, of turns without COMMIT that nothing was added to since ``before_ms``."""
        ...

    def close(self) -> None:
        """Release what is held; idempotent."""
        ...
