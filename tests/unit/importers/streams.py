"""Small invented logs of Claude Code's stream-json, of Codex rollouts and of ``codex exec --json``."""

from __future__ import annotations

from typing import Any

SESSION = "5e0d0000-0000-4000-8000-00000000000a"
THREAD = "019a0000-0000-7000-8000-00000000000a"


# ---- stream-json -----------------------------------------------------------------------------------------------------


def stream(kind: str, *, session: str = SESSION, call: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "session_id": session, "parent_tool_use_id": call, "uuid": "u", **more}


def stream_init(**more: Any) -> dict[str, Any]:
    return stream("system", subtype="init", **more)


def stream_answer(
    *blocks: dict[str, Any], message_id: str = "m1", output: int = 5, **more: Any
) -> dict[str, Any]:
    message = {
        "id": message_id,
        "role": "assistant",
        "model": "model-1",
        "content": list(blocks),
        "stop_reason": None,
        "usage": {"input_tokens": 3, "output_tokens": output, "cache_read_input_tokens": 100},
    }
    return stream("assistant", message=message, **more)


def stream_result(call_id: str, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": "done"}
    return stream("user", message={"role": "user", "content": [block]}, **more)


def stream_end(cost: float, **more: Any) -> dict[str, Any]:
    return stream("result", subtype="success", total_cost_usd=cost, result="done", **more)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(call_id: str, name: str = "Bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {"command": "ls"}}


# ---- Codex -----------------------------------------------------------------------------------------------------------


def rollout(kind: str, second: int = 0, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-06-01T10:00:{second:02d}.000Z", "type": kind, "payload": payload}


def rollout_head(session: str = THREAD) -> dict[str, Any]:
    return rollout("session_meta", id=session, cwd="/srv/shop")


def rollout_said(role: str, said: str, second: int = 1) -> dict[str, Any]:
    return rollout(
        "response_item", second, type="message", role=role, content=[{"type": "text", "text": said}]
    )


def rollout_call(call_id: str, name: str = "shell", second: int = 2) -> dict[str, Any]:
    return rollout(
        "response_item", second, type="function_call", name=name, call_id=call_id, arguments='{"a": 1}'
    )


def rollout_output(call_id: str, output: Any = "fine", second: int = 3) -> dict[str, Any]:
    return rollout("response_item", second, type="function_call_output", call_id=call_id, output=output)


def rollout_tokens(input_tokens: int, output_tokens: int, second: int = 4) -> dict[str, Any]:
    total = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    return rollout("event_msg", second, type="token_count", info={"total_token_usage": total})


# ---- codex exec ------------------------------------------------------------------------------------------------------


def exec_head(thread: str = THREAD) -> dict[str, Any]:
    return {"type": "thread.started", "thread_id": thread}


def exec_item(stage: str, number: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"item.{stage}", "item": {"id": f"item_{number}", "type": kind, **more}}


def exec_command(stage: str, number: int, exit_code: int | None = None) -> dict[str, Any]:
    return exec_item(
        stage, number, "command_execution", command="ls", aggregated_output="a", exit_code=exit_code
    )


def exec_turn(input_tokens: int, output_tokens: int) -> dict[str, Any]:
    return {"type": "turn.completed", "usage": {"input_tokens": input_tokens, "output_tokens": output_tokens}}
