"""Reads Claude Code session JSONL: records of several sessions and sub-agents, linked by uuid, one message on many lines."""

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
    name: name.replace("-", "_")
    for name in (
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "attachment",
        "custom-title",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "summary",
        "system",
        "tag",
    )
}
_FINISHES: Final[dict[str, Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tools",
    "refusal": "refusal",
}
_CONTENT: Final = ("message", "content")


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether the record is one that Claude Code writes and no other known tool does."""
    kind = record.get("type")
    if kind in ("user", "assistant", "system"):
        return text_of(record.get("sessionId")) is not None and ("uuid" in record or "parentUuid" in record)
    if kind == "summary":
        return "leafUuid" in record
    if kind == "file-history-snapshot":
        return "snapshot" in record
    return text_of(kind) in _KINDS and text_of(record.get("sessionId")) is not None


def parse(record: Mapping[str, Any]) -> Entry:
    """What one record says."""
    items = _items(record)
    links = (text_of(record.get("parentUuid")), text_of(record.get("logicalParentUuid")))
    parents = tuple(link for link in links if link)
    return Entry(
        items,
        session=text_of(record.get("sessionId")),
        points_to=_pointer(record, parents),
        record_id=text_of(record.get("uuid")),
        parents=parents,
        linked="parentUuid" in record and record.get("type") in ("user", "assistant"),
        aside=record.get("isSidechain") is True,
        time=_time(record),
        flags=_flags(record),
    )


def _pointer(record: Mapping[str, Any], parents: tuple[str, ...]) -> str | None:
    return (
        text_of(record.get("leafUuid"))
        or text_of(record.get("messageId"))
        or (parents[0] if parents else None)
    )


def _time(record: Mapping[str, Any]) -> str | None:
    return text_of(record.get("timestamp")) or text_of(member(record, "snapshot", "timestamp"))


def _flags(record: Mapping[str, Any]) -> tuple[str, ...]:
    names = {"isSidechain": "sidechain", "isMeta": "meta", "isApiErrorMessage": "api_error"}
    return tuple(flag for name, flag in names.items() if record.get(name) is True)


def _items(record: Mapping[str, Any]) -> tuple[Item, ...]:
    match record.get("type"):
        case "assistant":
            return assistant_items(record)
        case "user":
            return user_items(record)
        case "system" if record.get("subtype") == "compact_boundary":
            return (_boundary(record),)
        case str(kind) if kind in _KINDS:
            return (Other(_KINDS[kind]),)
        case _:
            return (Other(UNKNOWN, known=False),)


def assistant_items(record: Mapping[str, Any]) -> tuple[Item, ...]:
    """A line of a model's message, with the calls that it brings."""
    message = record.get("message")
    content = member(message, "content")
    if not isinstance(message, Mapping) or not isinstance(content, str | list):
        return (Other(MALFORMED),)
    response = Response(
        message=_CONTENT,
        message_id=text_of(message.get("id")),
        provider=None,
        model=text_of(message.get("model")),
        finish=_FINISHES.get(str(message.get("stop_reason")), "other"),
        usage=_usage(message.get("usage"), record.get("costUSD")),
    )
    blocks = content if isinstance(content, list) else []
    calls = (_call(block, at) for at, block in enumerate(blocks) if _is(block, "tool_use"))
    return (response, *calls)


def _usage(usage: object, cost_usd: object) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    cost = money(cost_usd)
    return Usage(
        input_tokens=whole(usage.get("input_tokens"), HEADER_INTEGER_MAX),
        output_tokens=whole(usage.get("output_tokens"), HEADER_INTEGER_MAX),
        cached_tokens=whole(usage.get("cache_read_input_tokens"), HEADER_INTEGER_MAX),
        cost=cost,
        currency=None if cost is None else "USD",
    )


def _is(block: object, kind: str) -> bool:
    return isinstance(block, Mapping) and block.get("type") == kind


def _call(block: Mapping[str, Any], position: int) -> Call:
    return Call(
        call_id=text_of(block.get("id")),
        name=text_of(block.get("name")),
        input=(*_CONTENT, position, "input") if "input" in block else None,
    )


def user_items(record: Mapping[str, Any]) -> tuple[Item, ...]:
    """Results of tools, what the user said, or the summary of a compaction."""
    content = member(record.get("message"), "content")
    if record.get("isCompactSummary") is True and isinstance(content, str | list):
        return (_summary(record),)
    if isinstance(content, str):
        return (Prompt(_CONTENT),)
    if not isinstance(content, list):
        return (Other(MALFORMED),)
    results = [_result(block, at) for at, block in enumerate(content) if _is(block, "tool_result")]
    if any(_says_something(block) for block in content):
        return (*results, Prompt(_CONTENT))
    return tuple(results) or (Other(MALFORMED),)


def _says_something(block: object) -> bool:
    return isinstance(block, Mapping) and text_of(block.get("type")) not in (None, "tool_result")


def _result(block: Mapping[str, Any], position: int) -> Result:
    return Result(
        call_id=text_of(block.get("tool_use_id")),
        name=None,
        failed=block.get("is_error") is True,
        result=(*_CONTENT, position, "content") if "content" in block else None,
    )


def _boundary(record: Mapping[str, Any]) -> Compaction:
    trigger = member(record, "compactMetadata", "trigger")
    return Compaction(cause="request" if trigger == "manual" else "size", summary=None)


def _summary(record: Mapping[str, Any]) -> Compaction:
    """The summary that goes on in place of the history; a boundary record may stand before it, or in old files none."""
    return Compaction(cause="size", summary=_CONTENT, boundary=text_of(record.get("parentUuid")))


CLAUDE_CODE: Final = Format("claude-code", "claude-code", recognises, parse)
