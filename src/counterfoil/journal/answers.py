"""The ADR's two HTTP answers as functions: one turn with its chain, and the turns of a session (seed 000).

They serve what was recorded whether or not the journal is switched on. The server gives them the reader, and says who
may read: both answers need the permission ``VIEW_AUDIT_LOG`` and the role ``VIEWER`` on the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from counterfoil.core.forms import time_text
from counterfoil.errors import NotPermitted, TurnNotFound
from counterfoil.journal.chain import check_chain
from counterfoil.journal.contract import MAX_LIST, TurnReader
from counterfoil.journal.event import TurnEvent, TurnInfo

READ_PERMISSION: Final = "VIEW_AUDIT_LOG"
AGENT_ROLE: Final = "VIEWER"

TURN_PATH: Final = "/api/agents/{agentId}/turns/{turnId}/journal"
SESSION_PATH: Final = "/api/agents/{agentId}/turn-journal"

May = Callable[[str, str | None], bool]
"""``may(permission, agent_id)``: whether the caller holds it, everywhere (None) or on this agent."""


def turn_answer(
    reader: TurnReader, *, tenant: str, agent_id: str, turn_id: str, may: May, head: str | None = None
) -> dict[str, Any]:
    """The events of one turn, ``chainIntact`` and ``brokenAtSeq`` (null while it is intact).

    ``head`` is the turn's last hash as it was kept elsewhere, if it was. Raises ``NotPermitted``, and
    ``TurnNotFound`` also for a turn of another agent or tenant.
    """
    _check(may, agent_id)
    events, chain = reader.checked(tenant, turn_id)
    if not events or events[0].agent_id != agent_id:
        raise TurnNotFound(f"agent {agent_id} has no turn {turn_id}", turn_id=turn_id)
    if head is not None and chain.intact:
        chain = check_chain(events, head)
    return {
        "turnId": turn_id,
        "agentId": agent_id,
        "events": [event_json(event) for event in events],
        "chainIntact": chain.intact,
        "brokenAtSeq": chain.broken_at_seq,
    }


def session_answer(
    reader: TurnReader,
    *,
    tenant: str,
    agent_id: str,
    session_hash: str,
    may: May,
    limit: int | None = None,
    max_list: int = MAX_LIST,
) -> dict[str, Any]:
    """The turns of a session, newest first, each with its status; ``max_list`` at most. Raises ``NotPermitted``."""
    _check(may, agent_id)
    wanted = max_list if limit is None else max(0, min(limit, max_list))
    found = reader.turns(tenant, agent_id=agent_id, session_hash=session_hash, limit=wanted)
    return {"agentId": agent_id, "turns": [info_json(info) for info in found]}


def _check(may: May, agent_id: str) -> None:
    if not may(READ_PERMISSION, None) or not may(AGENT_ROLE, agent_id):
        raise NotPermitted(
            f"reading turns of {agent_id} needs {READ_PERMISSION}, and {AGENT_ROLE} on the agent",
            hint="ask whoever administers access",
        )


def event_json(event: TurnEvent) -> dict[str, Any]:
    """One event in the answer's form; every field that the chain covers is there, so that a client can check it."""
    return {
        "turnId": event.turn_id,
        "agentId": event.agent_id,
        "seq": event.seq,
        "type": event.type,
        "payloadHash": event.payload_hash,
        "summary": event.summary,
        "prevHash": event.prev_hash,
        "hash": event.hash,
        "createdAt": time_text(event.created_at_ms),
        "createdAtMillis": event.created_at_ms,
        "sessionHash": event.session_hash,
    }


def info_json(info: TurnInfo) -> dict[str, Any]:
    """One turn of a list in the answer's form."""
    return {
        "turnId": info.turn_id,
        "agentId": info.agent_id,
        "sessionHash": info.session_hash,
        "status": info.status,
        "events": info.events,
        "attempts": info.attempts,
        "startedAt": time_text(info.began_at_ms),
        "changedAt": time_text(info.changed_at_ms),
    }
