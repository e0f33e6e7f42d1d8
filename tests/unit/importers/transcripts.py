"""Small invented transcripts for the importers' tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PI_SESSION = "3d9f0c52-5a77-4f0e-9a3e-000000000001"


def line(record: Any) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def write(path: Path, *records: Any) -> Path:
    """A file of these records; bytes go in as they are."""
    path.write_bytes(b"".join(record if isinstance(record, bytes) else line(record) for record in records))
    return path


# ---- pi --------------------------------------------------------------------------------------------------------------


def pi_header(session: str = PI_SESSION, **more: Any) -> dict[str, Any]:
    return {
        "type": "session",
        "id": session,
        "timestamp": "2026-03-01T09:00:00.000Z",
        "cwd": "/srv/shop",
        **more,
    }


def pi_message(message: dict[str, Any], second: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "message", "timestamp": f"2026-03-01T09:01:{second:02d}.000Z", "message": message, **more}


def pi_user(text: str, second: int = 0, **more: Any) -> dict[str, Any]:
    return pi_message({"role": "user", "content": [{"type": "text", "text": text}]}, second, **more)


def pi_assistant(text: str = "", *calls: tuple[str, str], second: int = 1, **more: Any) -> dict[str, Any]:
    """An answer; each call is (foreign id, tool name)."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    blocks += [
        {"type": "toolCall", "id": id, "name": name, "arguments": {"path": f"{id}.txt"}} for id, name in calls
    ]
    message = {
        "role": "assistant",
        "content": blocks,
        "provider": "acme",
        "model": "acme-large",
        "usage": {"input": 10, "output": 5, "cacheRead": 3, "cacheWrite": 0, "cost": {"total": 0.25}},
        "stopReason": "toolUse" if calls else "stop",
    }
    return pi_message(message, second, **more)


def pi_result(
    call: str, tool: str = "read", *, failed: bool = False, second: int = 2, **more: Any
) -> dict[str, Any]:
    content = [{"type": "text", "text": f"result of {call}"}]
    message = {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": tool,
        "content": content,
        "isError": failed,
    }
    return pi_message(message, second, **more)


# ---- Claude Code -----------------------------------------------------------------------------------------------------


def claude(kind: str, uuid: str, parent: str | None, message: Any, **more: Any) -> dict[str, Any]:
    record = {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "isSidechain": False,
        "sessionId": "session-a",
        "timestamp": "2026-03-01T10:00:00.000Z",
        "message": message,
    }
    return {name: value for name, value in {**record, **more}.items() if value != "leave out"}


def claude_user(uuid: str, parent: str | None, text: str, **more: Any) -> dict[str, Any]:
    return claude("user", uuid, parent, {"role": "user", "content": text}, **more)


def claude_answer(
    uuid: str, parent: str | None, *blocks: dict[str, Any], message_id: str, output: int = 7, **more: Any
) -> dict[str, Any]:
    message = {
        "id": message_id,
        "role": "assistant",
        "model": "model-x",
        "content": list(blocks),
        "stop_reason": None,
        "usage": {"input_tokens": 20, "output_tokens": output, "cache_read_input_tokens": 4},
    }
    return claude("assistant", uuid, parent, message, **more)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def tool_use(call: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def claude_results(
    uuid: str, parent: str | None, *calls: str, failed: bool = False, **more: Any
) -> dict[str, Any]:
    blocks = [
        {"type": "tool_result", "tool_use_id": call, "content": f"result of {call}", "is_error": failed}
        for call in calls
    ]
    return claude("user", uuid, parent, {"role": "user", "content": blocks}, **more)
