"""A journal in memory: for tests and replay, and the oracle of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from msgspec import Struct

from counterfoil.core.bounds import check_count
from counterfoil.journal.chain import Chain, check_chain
from counterfoil.journal.contract import MAX_LIST
from counterfoil.journal.event import TurnEvent, TurnInfo, TurnNote, info_of, linked
from counterfoil.store.forks import minds_forks


class _Turn(Struct):
    tenant: str
    events: list[TurnEvent]


class MemoryJournal:
    """A :class:`~counterfoil.journal.contract.TurnJournal` that ends with its process."""

    reads_context: bool = False

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._lock = threading.Lock()
        minds_forks(self)

    def append(self, notes: Sequence[TurnNote]) -> list[TurnEvent]:
        """See the contract."""
        with self._lock:
            return self._append(notes)

    def end_open(self, commit: TurnNote) -> bool:
        """See the contract."""
        with self._lock:
            turn = self._turns.get(commit.turn_id)
            if turn is None or any(event.type == "COMMIT" for event in turn.events):
                return False
            self._append([commit])
            return True

    def _append(self, notes: Sequence[TurnNote]) -> list[TurnEvent]:
        made: list[TurnEvent] = []
        heads: dict[str, tuple[int, str] | None] = {}
        for note in notes:
            event = linked(note, heads.get(note.turn_id) or self._head(note.turn_id))
            heads[note.turn_id] = (event.seq, event.hash)
            made.append(event)
        for note, event in zip(notes, made, strict=True):
            self._turns.setdefault(note.turn_id, _Turn(note.tenant, [])).events.append(event)
        return made

    def events(self, tenant: str, turn_id: str) -> list[TurnEvent]:
        """See the contract."""
        with self._lock:
            turn = self._turns.get(turn_id)
            return list(turn.events) if turn is not None and turn.tenant == tenant else []

    def checked(self, tenant: str, turn_id: str) -> tuple[list[TurnEvent], Chain]:
        """See the contract."""
        events = self.events(tenant, turn_id)
        return events, check_chain(events)

    def turns(
        self,
        tenant: str,
        *,
        agent_id: str | None = None,
        session_hash: str | None = None,
        limit: int = MAX_LIST,
    ) -> list[TurnInfo]:
        """See the contract."""
        check_count("limit", limit)
        with self._lock:
            found = [info_of(turn.events) for turn in self._turns.values() if turn.tenant == tenant]
        found = [
            info
            for info in found
            if agent_id in (None, info.agent_id) and session_hash in (None, info.session_hash)
        ]
        return sorted(found, key=lambda info: (info.began_at_ms, info.turn_id), reverse=True)[:limit]

    def erase(self, tenant: str, *, turn_id: str | None = None, session_hash: str | None = None) -> int:
        """See the contract."""
        if turn_id is None and session_hash is None:
            return 0
        return self._remove(
            lambda turn: (
                turn.tenant == tenant
                and turn_id in (None, turn.events[0].turn_id)
                and session_hash in (None, turn.events[0].session_hash)
            )
        )

    def prune(self, before_ms: int, *, tenant: str | None = None) -> int:
        """See the contract."""
        return self._remove(
            lambda turn: (
                tenant in (None, turn.tenant)
                and max(event.created_at_ms for event in turn.events) < before_ms
            )
        )

    def open_turns(
        self, before_ms: int, *, tenant: str | None = None, limit: int = MAX_LIST
    ) -> list[TurnNote]:
        """See the contract."""
        check_count("limit", limit)
        with self._lock:
            last = [
                note_of(turn.tenant, turn.events[-1])
                for turn in self._turns.values()
                if tenant in (None, turn.tenant) and all(event.type != "COMMIT" for event in turn.events)
            ]
        old = [note for note in last if note.created_at_ms < before_ms]
        return sorted(old, key=lambda note: note.turn_id)[:limit]

    def close(self) -> None:
        """See the contract."""

    def before_fork(self, timeout_s: float) -> None:
        """See :class:`~counterfoil.store.forks.Forked`: the child has a copy of its own."""

    def after_fork(self, *, in_child: bool) -> None:
        """See :class:`~counterfoil.store.forks.Forked`."""
        if in_child:
            self._lock = threading.Lock()

    def _head(self, turn_id: str) -> tuple[int, str] | None:
        turn = self._turns.get(turn_id)
        return None if turn is None else (turn.events[-1].seq, turn.events[-1].hash)

    def _remove(self, goes: Callable[[_Turn], bool]) -> int:
        with self._lock:
            gone = [turn_id for turn_id, turn in self._turns.items() if goes(turn)]
            return sum(len(self._turns.pop(turn_id).events) for turn_id in gone)


def note_of(tenant: str, event: TurnEvent) -> TurnNote:
    """What a recorded event was made from."""
    return TurnNote(
        tenant,
        event.turn_id,
        event.agent_id,
        event.type,
        event.summary,
        event.created_at_ms,
        event.payload_hash,
        event.session_hash,
    )
