"""Reads the session files of the pi coding agent, versions 1 to 3: a header line, then entries, in one file a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from counterfoil.core.limits import HEADER_INTEGER_MAX
from counterfoil.importers.entry import (
    MALFORMED,
    UNKNOWN,
    Call,
    Compaction,
    Entry,
    Finish,
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
from counterfoil.importers.exact import money, whole

_KINDS: Final = {
    "session": "session",
    "model_change": "model_change",
    "thinking_level_change": "thinking_level_change",
    "branch_summary": "branch_summary",
    "custom": "custom",
    "custom_message": "custom_message",
    "label": "label",
    "session_info": "session_info",
}
_ROLE_KINDS: Final = {
    "bashExecution": "bash_execution",
    "hookMessage": "custom_message",
    "custom": "custom_message",
    "branchSummary": "branch_summary",
    "compactionSummary": "compaction_summary",
}
_ROLES: Final = {"user", "assistant", "toolResult", *_ROLE_KINDS}
_FINISHES: Final[dict[str, Finish]] = {"stop": "stop", "length": "length", "toolUse": "tools"}
_CONTENT: Final = ("message", "content")


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether the record is a header or a message of a pi session."""
    if record.get("type") == "session":
        return text_of(record.get("id")) is not None and "timestamp" in record
    if record.get("type") != "message" or "sessionId" in record or "session_id" in record:
        return False
    return text_of(member(record, "message", "role")) in _ROLES


def parse(record: Mapping[str, Any]) -> Entry:
    """What one record says."""
    header = record.get("type") == "session"
    parent = text_of(record.get("parentId"))
    return Entry(
        _items(record),
        session=text_of(record.get("id")) if header else None,
        opens=header,
        record_id=None if header else text_of(record.get("id")),
        parents=(parent,) if parent and not header else (),
        # Version 1 has no links: its entries follow one another, and none can be out of reach.
        linked=not header and "parentId" in record,
        branched=header and ("branchedFrom" in record or "parentSession" in record),
        time=_time(record),
    )


def _time(record: Mapping[str, Any]) -> str | int | None:
    for found in (record.get("timestamp"), member(record, "message", "timestamp")):
        if isinstance(found, str) or type(found) is int:
            return found
    return None


def _items(record: Mapping[str, Any]) -> tuple[Item, ...]:
    kind = record.get("type")
    if kind == "message":
        return _message(record)
    if kind == "compaction":
        return (_compaction(record),)
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    return (Other(known),) if known else (Other(UNKNOWN, known=False),)


def _message(record: Mapping[str, Any]) -> tuple[Item, ...]:
    message = record.get("message")
    role = member(message, "role")
    if not isinstance(role, str) or role not in _ROLES:
        return (Other(UNKNOWN, known=False),)
    if role in _ROLE_KINDS:
        return (Other(_ROLE_KINDS[role]),)
    content = member(message, "content")
    if role == "toolResult":
        return (_result(record),)
    if not isinstance(content, str | list):
        return (Other(MALFORMED),)
    if role == "user":
        return (Prompt(_CONTENT),)
    return (_response(record), *_calls(content))


def _response(record: Mapping[str, Any]) -> Response:
    message = record["message"]
    return Response(
        message=_CONTENT,
        message_id=text_of(message.get("responseId")),
        provider=text_of(message.get("provider")),
        model=text_of(message.get("model")),
        finish=_FINISHES.get(str(message.get("stopReason")), "other"),
        usage=_usage(message.get("usage")),
    )


def _usage(usage: object) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    cost = money(member(usage, "cost", "total"))
    return Usage(
        input_tokens=whole(usage.get("input"), HEADER_INTEGER_MAX),
        output_tokens=whole(usage.get("output"), HEADER_INTEGER_MAX),
        cached_tokens=whole(usage.get("cacheRead"), HEADER_INTEGER_MAX),
        cost=cost,
        currency=None if cost is None else "USD",
    )


def _calls(content: str | list[Any]) -> list[Call]:
    blocks = content if isinstance(content, list) else []
    return [
        Call(
            call_id=text_of(block.get("id")),
            name=text_of(block.get("name")),
            input=(*_CONTENT, position, "arguments") if "arguments" in block else None,
        )
        for position, block in enumerate(blocks)
        if isinstance(block, Mapping) and block.get("type") == "toolCall"
    ]


def _result(record: Mapping[str, Any]) -> Result:
    message = record["message"]
    return Result(
        call_id=text_of(message.get("toolCallId")),
        name=text_of(message.get("toolName")),
        failed=message.get("isError") is True,
        result=_CONTENT if "content" in message else None,
    )


def _compaction(record: Mapping[str, Any]) -> Compaction:
    index, kept_id = record.get("firstKeptEntryIndex"), text_of(record.get("firstKeptEntryId"))
    return Compaction(
        # The file does not say what set it off; pi compacts when the context window fills.
        cause="size",
        summary=("summary",) if "summary" in record else None,
        kept=kept_id or whole(index, HEADER_INTEGER_MAX),
    )


PI: Final = Format("pi", "pi", recognises, parse)
