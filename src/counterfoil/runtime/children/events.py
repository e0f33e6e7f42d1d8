"""Typed constructors of the events about children: public fields named, the rest content (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from counterfoil.runtime.events import Said

Settlement = Literal["finished", "stopped", "lost", "left"]
SETTLED: Final = "child.settled"
STARTED: Final = "child.started"


def child_started(child_stream_id: str, child_run_id: str, depth: int, content: Mapping[str, Any]) -> Said:
    """A run spawned another; ``content`` has the full input, the agent and the call it came of (case X7)."""
    data = {"child_stream_id": child_stream_id, "child_run_id": child_run_id, "depth": depth}
    return Said(STARTED, data, content)


def child_opened(agent: str, parent: tuple[str, str, str], content: Mapping[str, Any]) -> Said:
    """The first event of a child's conversation; ``parent`` is stream, run and the event that spawned it."""
    stream_id, run_id, event_id = parent
    data = {
        "agent": agent,
        "while_running": "queue",
        "while_suspended": "start",
        "origin": "child",
        "parent_stream_id": stream_id,
        "parent_run_id": run_id,
        "parent_event_id": event_id,
    }
    return Said("conversation.opened", data, content)


def child_settled(
    child_stream_id: str,
    state: Settlement,
    by: Literal["child", "parent"],
    parent_terminal: str | None = None,
    result: Mapping[str, Any] | None = None,
) -> Said:
    """What became of a child; ``result`` holds how its run ended, its output and its error."""
    data = {"child_stream_id": child_stream_id, "state": state, "by": by}
    if parent_terminal is not None:
        data["parent_terminal"] = parent_terminal
    return Said(SETTLED, data, {} if result is None else {"result": dict(result)})


def stop_asked() -> Said:
    """The conversation's work was stopped: its child is to end. The event that it follows from says why."""
    return Said("run.cancel_requested", {})


def not_begun(admission_id: str) -> Said:
    """A child that nobody has begun is not begun any more."""
    return Said("admission.rejected", {"admission_id": admission_id, "cause": "policy"})
