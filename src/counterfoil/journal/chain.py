"""Whether a turn is as it was written: the chain recomputed, and the first sequence at which it breaks (FORMAT 17)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from counterfoil.core.turn import TURN_ROOT, turn_hash
from counterfoil.errors import InvalidForm
from counterfoil.journal.event import TurnEvent

_SESSION: Final = re.compile(r"(?:^| )session=([0-9a-f]{64})(?= |$)").search


class Chain(Struct, frozen=True):
    """What checking a turn came to. ``broken_at_seq`` is None while the chain is whole."""

    broken_at_seq: int | None
    what: str = ""

    @property
    def intact(self) -> bool:
        """Whether every event is the one that was written, in its place."""
        return self.broken_at_seq is None


def check_chain(events: Sequence[TurnEvent], head: str | None = None) -> Chain:
    """Recompute the chain of one turn's events, in the order in which they were read.

    Names the first sequence that an edit, a removal, an insertion or a change of order reaches. ``head`` is the hash
    of the last event as somebody else kept it: only with it is it seen when events are missing from the end, or when
    the whole turn was written anew.

    The digest of the session stands in the chained summary of INTAKE, and each event has to be filed under it.
    """
    previous = TURN_ROOT
    session = _session(events)
    for seq, event in enumerate(events):
        fault = _fault(event, seq, previous, events[0])
        if not fault and event.session_hash != session:
            fault = "the event is filed under another session than the turn"
        if fault:
            return Chain(seq, fault)
        previous = event.hash
    if head is not None and previous != head:
        return Chain(len(events), "the turn does not end with the head that was kept of it")
    return Chain(None)


def _session(events: Sequence[TurnEvent]) -> str | None:
    """The session of a turn: what its INTAKE says, or its first event where INTAKE says none or was lost."""
    for event in events:
        found = _SESSION(event.summary) if event.type == "INTAKE" else None
        if found is not None:
            return found[1]
    return events[0].session_hash if events else None


def _fault(event: TurnEvent, seq: int, previous: str, first: TurnEvent) -> str:
    if event.seq != seq:
        return f"event {event.seq} stands where event {seq} belongs"
    if (event.turn_id, event.agent_id) != (first.turn_id, first.agent_id):
        return "the event belongs to another turn"
    if event.prev_hash != previous:
        return "the event does not follow the one before it"
    try:
        found = turn_hash(
            previous,
            event.turn_id,
            event.agent_id,
            seq,
            event.type,
            event.payload_hash,
            event.summary,
            event.created_at_ms,
        )
    except InvalidForm as refused:
        return refused.message
    return "" if found == event.hash else "the event is not the one that was written"
