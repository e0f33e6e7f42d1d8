"""Reads Codex rollouts: lines of time, type and payload; a session's header first, its tokens as a running total."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from counterfoil.core.limits import HEADER_INTEGER_MAX
from counterfoil.importers.entry import (
    MALFORMED,
    UNKNOWN,
    Call,
    Compaction,
    Entry,
    Format,
    Item,
    Other,
    Prompt,
    Response,
    Result,
    Usage,
    member,
    text_of,
)
from counterfoil.importers.exact import whole

_TYPES: Final = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}

_ITEMS: Final = {
    "reasoning": "reasoning",
    "web_search_call": "web_search",
    "image_generation_call": "image_generation",
    "ghost_snapshot": "ghost_snapshot",
    "compaction": "compaction_item",
    "compaction_summary": "compaction_item",
}
_CALLS: Final = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "tool_search_call": "arguments",
}
_OUTPUTS: Final = {
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "tool_search_output",
}

_EVENTS: Final = frozenset(
    """
    agent_message agent_message_delta agent_reasoning agent_reasoning_delta agent_reasoning_raw_content
    agent_reasoning_section_break apply_patch_approval_request background_event context_compacted
    deprecation_notice entered_review_mode error exec_approval_request exec_command_begin exec_command_end
    exec_command_output_delta exited_review_mode item_completed item_started mcp_startup_complete mcp_tool_call_begin
    mcp_tool_call_end patch_apply_begin patch_apply_end plan_update session_configured shutdown_complete stream_error
    task_complete task_started thread_name_updated thread_rolled_back token_count turn_aborted turn_complete turn_diff
    turn_started undo_completed undo_started user_message view_image_tool_call warning web_search_begin web_search_end
    """.split()
)

_EXIT_CODE: Final = re.compile(r"(?:Process exited with code|Exit code:) ?(-?[0-9]{1,10})")
OUTPUT_LOOKED_AT_MAX: Final = 64 * 1024
"""Characters of an output that are read as JSON in search of an exit code."""


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether the record is a line of a rollout."""
    return text_of(record.get("type")) in _TYPES and isinstance(record.get("payload"), Mapping)


def parse(record: Mapping[str, Any]) -> Entry:
    """What one record says."""
    header = record.get("type") == "session_meta"
    payload = record.get("payload")
    return Entry(
        _items(record),
        session=text_of(member(payload, "id")) if header else None,
        opens=header,
        branched=header and text_of(member(payload, "forked_from_id")) is not None,
        comes_from=_comes_from(payload) if header else None,
        time=text_of(record.get("timestamp")) or text_of(member(payload, "timestamp")),
    )


def _comes_from(payload: object) -> str | None:
    """The thread that spawned this one as a sub-agent, or that it was forked from."""
    spawned = member(payload, "source", "subagent", "thread_spawn", "parent_thread_id")
    return text_of(spawned) or text_of(member(payload, "forked_from_id"))


def _items(record: Mapping[str, Any]) -> tuple[Item, ...]:
    payload = record.get("payload")
    kind = text_of(record.get("type"))
    if kind not in _TYPES:
        return (Other(UNKNOWN, known=False),)
    if not isinstance(payload, Mapping):
        return (Other(MALFORMED),)
    match kind:
        case "session_meta":
            return (Other("session"),)
        case "turn_context":
            return (Other("turn_context"),)
        case "compacted":
            said = ("payload", "message") if "message" in payload else None
            return (Compaction("size", summary=said),)
        case "event_msg":
            return (_event(payload),)
        case _:
            return (_item(payload),)


def _event(payload: Mapping[str, Any]) -> Other:
    """An event of the user interface: what it tells of the conversation stands in a response item too."""
    kind = payload.get("type")
    if not isinstance(kind, str) or kind not in _EVENTS:
        return Other(UNKNOWN, known=False)
    return Other(kind, running=_used(payload) if kind == "token_count" else None)


def _used(payload: Mapping[str, Any]) -> Usage | None:
    """The session's running total: the same count may be told several times."""
    total = member(payload, "info", "total_token_usage")
    if not isinstance(total, Mapping):
        return None
    return Usage(
        whole(total.get("input_tokens"), HEADER_INTEGER_MAX),
        whole(total.get("output_tokens"), HEADER_INTEGER_MAX),
    )


def _item(payload: Mapping[str, Any]) -> Item:
    kind = payload.get("type", "message")
    if not isinstance(kind, str):
        return Other(UNKNOWN, known=False)
    if kind == "message":
        return _message(payload)
    if kind in _CALLS:
        field = _CALLS[kind]
        name = text_of(payload.get("name")) or ("local_shell" if kind == "local_shell_call" else None)
        return Call(text_of(payload.get("call_id")), name, ("payload", field) if field in payload else None)
    if kind in _OUTPUTS:
        output = ("payload", "output") if "output" in payload else None
        return Result(text_of(payload.get("call_id")), None, _failed(payload.get("output")), output)
    return Other(_ITEMS[kind]) if kind in _ITEMS else Other(UNKNOWN, known=False)


def _message(payload: Mapping[str, Any]) -> Item:
    content = ("payload", "content")
    if not isinstance(payload.get("content"), str | list):
        return Other(MALFORMED)
    match payload.get("role"):
        case "user":
            return Prompt(content)
        case "assistant":
            return Response(content, text_of(payload.get("id")), None, None, "other", None)
        case "developer" | "system":
            return Other("instructions")
        case _:
            return Other(UNKNOWN, known=False)


def _failed(output: object) -> bool:
    """Whether an output says that the tool failed: it is text with an exit code, JSON in a text, or an object."""
    if isinstance(output, str):
        said = _EXIT_CODE.match(output)
        if said is not None:
            return int(said[1]) != 0
        output = _object(output)
    if not isinstance(output, Mapping):
        return False
    code = member(output, "metadata", "exit_code")
    return output.get("success") is False or (type(code) is int and code != 0)


def _object(text: str) -> object:
    if not text.startswith("{") or len(text) > OUTPUT_LOOKED_AT_MAX:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


CODEX: Final = Format("codex", "codex", recognises, parse)
