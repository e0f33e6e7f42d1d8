"""Reads what ``claude --output-format stream-json`` prints: no times, no links, sub-agents among the lines, costs at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from counterfoil.importers.claude_code import assistant_items, user_items
from counterfoil.importers.entry import (
    UNKNOWN,
    Compaction,
    Entry,
    Format,
    Item,
    Other,
    Usage,
    member,
    text_of,
)
from counterfoil.importers.exact import money
from counterfoil.importers.survey import usable

_KINDS: Final = {
    "system": "system",
    "result": "result",
    "stream_event": "stream_event",
    "control_request": "control",
    "control_response": "control",
    "control_cancel_request": "control",
    "keep_alive": "keep_alive",
    "tool_progress": "tool_progress",
    "tool_use_summary": "tool_use_summary",
    "auth_status": "auth_status",
    "rate_limit_event": "rate_limit",
}
_FLAGS: Final = {"isReplay": "replay", "isSynthetic": "meta"}


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether the record is a line of a stream: it names its session as ``session_id``."""
    if text_of(record.get("session_id")) is None or "sessionId" in record:
        return False
    kind = record.get("type")
    if kind in ("assistant", "user"):
        return isinstance(record.get("message"), Mapping)
    return kind in ("system", "result", "stream_event") and ("subtype" in record or "event" in record)


def parse(record: Mapping[str, Any]) -> Entry:
    """What one record says. What a sub-agent says has a session of its own, below the call that started it."""
    session, call = text_of(record.get("session_id")), text_of(record.get("parent_tool_use_id"))
    own = usable(f"{session}/{call}") if session and call else None
    flags = tuple(flag for name, flag in _FLAGS.items() if record.get(name) is True)
    return Entry(
        _items(record),
        session=own or session,
        record_id=text_of(record.get("uuid")),
        aside=call is not None,
        called_by=(session, call) if own and session and call else None,
        time=text_of(record.get("timestamp")),
        flags=(*flags, "sidechain") if call else flags,
    )


def _items(record: Mapping[str, Any]) -> tuple[Item, ...]:
    match record.get("type"):
        case "assistant":
            return assistant_items(record)
        case "user":
            return user_items(record)
        case "system" if record.get("subtype") == "compact_boundary":
            trigger = member(record, "compact_metadata", "trigger")
            return (Compaction("request" if trigger == "manual" else "size", summary=None),)
        case "result":
            return (Other("result", running=_spent(record)),)
        case str(kind) if kind in _KINDS:
            return (Other(_KINDS[kind]),)
        case _:
            return (Other(UNKNOWN, known=False),)


def _spent(record: Mapping[str, Any]) -> Usage | None:
    """What the process has spent up to its result. Its tokens are those of the messages again, and not counted twice."""
    cost = money(record.get("total_cost_usd"))
    return None if cost is None else Usage(cost=cost, currency="USD")


CLAUDE_STREAM: Final = Format("claude-code-stream-json", "claude-code", recognises, parse)
