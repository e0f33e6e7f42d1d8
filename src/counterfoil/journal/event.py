"""What a turn is made of: one event, the note it is made from, and the line that a list shows of a turn (seed 000)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from counterfoil.core.turn import TURN_ROOT, clean_summary, turn_hash

Stage = Literal["INTAKE", "GUARD", "MODEL_CALL", "TOOL_CALL", "APPROVAL", "VERIFY", "COMMIT"]

OPEN: Final = "open"
"""The status of a turn that has no COMMIT."""

_STATUS: Final = re.compile(r"(?:^| )status=(\S+)").search


class TurnNote(Struct, frozen=True):
    """What is to be recorded of a turn. Sequence and hashes are given by whoever writes it.

    ``payload_hash`` is the SHA-256 (64 hex) of what was said, never the saying itself; times are milliseconds.
    """

    tenant: str
    turn_id: str
    agent_id: str
    type: Stage
    summary: str
    created_at_ms: int
    payload_hash: str | None = None
    session_hash: str | None = None


class TurnEvent(Struct, frozen=True):
    """One event of a turn as recorded: the ADR's fields, and the digest of the session (seed 000, FORMAT 17)."""

    turn_id: str
    agent_id: str
    seq: int
    type: Stage
    payload_hash: str | None
    summary: str
    prev_hash: str
    hash: str
    created_at_ms: int
    session_hash: str | None = None


class TurnInfo(Struct, frozen=True):
    """A turn as a list shows it. ``status`` is that of the last COMMIT, or ``open``; ``attempts`` counts the INTAKEs.

    ``events`` is None where counting them would mean reading them (a ledger's turns).
    """

    turn_id: str
    agent_id: str
    session_hash: str | None
    status: str
    events: int | None
    attempts: int
    began_at_ms: int
    changed_at_ms: int


def linked(note: TurnNote, last: tuple[int, str] | None) -> TurnEvent:
    """The event that follows ``last``, (sequence, hash) of the turn's last one. Raises InvalidForm (FORMAT 17)."""
    seq, prev_hash = (0, TURN_ROOT) if last is None else (last[0] + 1, last[1])
    summary = clean_summary(note.summary)
    digest = turn_hash(
        prev_hash,
        note.turn_id,
        note.agent_id,
        seq,
        note.type,
        note.payload_hash,
        summary,
        note.created_at_ms,
    )
    return TurnEvent(
        note.turn_id,
        note.agent_id,
        seq,
        note.type,
        note.payload_hash,
        summary,
        prev_hash,
        digest,
        note.created_at_ms,
        note.session_hash,
    )


def status_in(summary: str) -> str:
    """The status that the summary of a COMMIT gives; ``open`` if it gives none."""
    found = _STATUS(summary)
    return OPEN if found is None else found[1]


def info_of(events: Sequence[TurnEvent]) -> TurnInfo:
    """The line of a turn, from all its events (at least one)."""
    commits = [event for event in events if event.type == "COMMIT"]
    return TurnInfo(
        turn_id=events[0].turn_id,
        agent_id=events[0].agent_id,
        session_hash=events[0].session_hash,
        status=status_in(commits[-1].summary) if commits else OPEN,
        events=len(events),
        attempts=sum(event.type == "INTAKE" for event in events),
        began_at_ms=events[0].created_at_ms,
        changed_at_ms=events[-1].created_at_ms,
    )
