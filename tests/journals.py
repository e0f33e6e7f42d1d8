"""Small parts for tests of the turn journal: notes, journals that misbehave, and a clock moved by hand."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from counterfoil.journal import MemoryJournal, TurnEvent, TurnJournals, TurnNote

TURN = "trn_01J9ZC3Y3V7W2R5T8QK4M6N0PN"
OTHER = "trn_01J9ZC3Y3V7W2R5T8QK4M6N0PP"
NOW_MS = 1_788_273_068_412


def note(
    stage: str = "INTAKE", summary: str = "session=3f1c", turn_id: str = TURN, **changed: Any
) -> TurnNote:
    """A note of one stage."""
    given: dict[str, Any] = {
        "tenant": "default",
        "turn_id": turn_id,
        "agent_id": "support",
        "type": stage,
        "summary": summary,
        "created_at_ms": NOW_MS,
        "payload_hash": None,
        "session_hash": "ab" * 32,
    }
    return TurnNote(**given | changed)


def whole(
    turn_id: str = TURN, at_ms: int = NOW_MS, status: str = "completed", **changed: Any
) -> list[TurnNote]:
    """The notes of a small turn that ended."""
    stages = (
        ("INTAKE", "session=3f1c"),
        ("TOOL_CALL", "tool=lookup status=ok"),
        ("COMMIT", f"status={status}"),
    )
    return [
        note(stage, summary, turn_id, created_at_ms=at_ms + number, **changed)
        for number, (stage, summary) in enumerate(stages)
    ]


class Gated(MemoryJournal):
    """A journal that lets nothing through until it is told to, and says when somebody waits at it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.gate = threading.Event()

    def append(self, notes: Sequence[TurnNote]) -> list[TurnEvent]:
        """Waits at the gate."""
        self.reached.set()
        assert self.gate.wait(60)
        return super().append(notes)


class Failing(MemoryJournal):
    """A journal whose appends fail while ``error`` is set."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error

    def append(self, notes: Sequence[TurnNote]) -> list[TurnEvent]:
        """Raises."""
        if self.error is not None:
            raise self.error
        return super().append(notes)


def journals(journal: Any = None, **options: Any) -> TurnJournals:
    """A journal switched on, in memory unless given, on a clock that stands still."""
    return TurnJournals(journal or MemoryJournal(), **({"now_ms": lambda: NOW_MS} | options))


def written(made: TurnJournals, turn_id: str, tenant: str = "default") -> list[TurnEvent]:
    """The events of a turn, once all of them are written."""
    assert made.flush(60)
    assert made.journal is not None
    return made.journal.events(tenant, turn_id)


def stages(events: Sequence[TurnEvent]) -> list[str]:
    """Stage and summary of each, the session left out."""
    return [f"{event.type} {event.summary}" if event.type != "INTAKE" else "INTAKE" for event in events]
