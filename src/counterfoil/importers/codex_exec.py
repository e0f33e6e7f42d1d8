"""Reads what ``codex exec --json`` prints: items as they start and end, a thread's header, its tokens after each turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from counterfoil.core.limits import HEADER_INTEGER_MAX
from counterfoil.importers.entry import (
    MALFORMED,
    UNKNOWN,
    Call,
    Entry,
    Format,
    Item,
    Other,
    Path,
    Response,
    Result,
    Usage,
    member,
    text_of,
)
from counterfoil.importers.exact import whole

_KINDS: Final = {
    "thread.started": "session",
    "turn.started": "turn_started",
    "turn.completed": "turn_completed",
    "turn.failed": "turn_failed",
    "error": "error",
}
_STAGES: Final = ("item.started", "item.updated", "item.completed")

_PLAIN: Final = {"reasoning": "reasoning", "todo_list": "todo_list", "error": "error"}

_TOOLS: Final[Mapping[str, tuple[str, str]]] = {
    "command_execution": ("command", "aggregated_output"),
    "file_change": ("changes", "status"),
    "mcp_tool_call": ("arguments", "result"),
    "web_search": ("query", "status"),
    "collab_tool_call": ("prompt", "agents_states"),
}
"""Items that are calls of a tool: where the arguments stand, and where what came of them."""


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether the record is a line of ``codex exec --json``."""
    kind = record.get("type")
    if kind == "thread.started":
        return text_of(record.get("thread_id")) is not None
    if kind in _STAGES:
        return text_of(member(record, "item", "type")) is not None
    return kind in ("turn.started", "turn.completed", "turn.failed")


def parse(record: Mapping[str, Any]) -> Entry:
    """What one record says."""
    header = record.get("type") == "thread.started"
    session = text_of(record.get("thread_id")) if header else None
    return Entry(_items(record), session=session, opens=header, time=text_of(record.get("timestamp")))


def _items(record: Mapping[str, Any]) -> tuple[Item, ...]:
    kind = record.get("type")
    if not isinstance(kind, str):
        return (Other(UNKNOWN, known=False),)
    if kind in _STAGES:
        item = record.get("item")
        return _item(kind, item) if isinstance(item, Mapping) else (Other(MALFORMED),)
    if kind not in _KINDS:
        return (Other(UNKNOWN, known=False),)
    return (Other(_KINDS[kind], running=_used(record) if kind == "turn.completed" else None),)


def _used(record: Mapping[str, Any]) -> Usage | None:
    """What the thread has used up to the end of a turn: a running total."""
    usage = record.get("usage")
    if not isinstance(usage, Mapping):
        return None
    return Usage(
        whole(usage.get("input_tokens"), HEADER_INTEGER_MAX),
        whole(usage.get("output_tokens"), HEADER_INTEGER_MAX),
    )


def _item(stage: str, item: Mapping[str, Any]) -> tuple[Item, ...]:
    kind = item.get("type")
    if kind == "agent_message" and stage == "item.completed":
        # Ids of items begin anew with each process, so they tell no message from another.
        said = ("item", "text")
        return (Response(said, None, None, None, "other", None),) if "text" in item else (Other(MALFORMED),)
    if isinstance(kind, str) and kind in _TOOLS:
        return _tool(stage, kind, item)
    if kind == "agent_message":
        return (Other("agent_message"),)
    return (
        (Other(_PLAIN[kind]),) if isinstance(kind, str) and kind in _PLAIN else (Other(UNKNOWN, known=False),)
    )


def _tool(stage: str, kind: str, item: Mapping[str, Any]) -> tuple[Item, ...]:
    """Its start is the call, its end the result; an end that had no start in the file is both."""
    given, came = _TOOLS[kind]
    name = text_of(item.get("tool")) or kind
    call_id = text_of(item.get("id"))
    call = Call(call_id, name, _there(item, given), again=stage != "item.started")
    if stage == "item.started":
        return (call,)
    if stage == "item.updated":
        return (Other("item_updated"),)
    return (call, Result(call_id, name, _failed(item), _there(item, came)))


def _there(item: Mapping[str, Any], name: str) -> Path | None:
    return ("item", name) if name in item else None


def _failed(item: Mapping[str, Any]) -> bool:
    code = item.get("exit_code")
    return item.get("status") in ("failed", "declined") or (type(code) is int and code != 0)


CODEX_EXEC: Final = Format("codex-exec", "codex", recognises, parse)
