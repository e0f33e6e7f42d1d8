"""The JSON shapes that the commands print; docs/commands.md describes them, and they stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

from msgspec.structs import asdict

from counterfoil.cli.render.model import AnyRow, Fold, Gap, Note, Pair, Timeline
from counterfoil.client.reading import ConversationInfo
from counterfoil.core.forms import time_text
from counterfoil.flow.event import Event
from counterfoil.runtime.children.state import ChildStanding
from counterfoil.store.rows import Row

if TYPE_CHECKING:
    from counterfoil.runtime.children.recover import ChildReport
    from counterfoil.runtime.recover import EffectReport

_TIMES = (
    "started_at_ms",
    "changed_at_ms",
    "stored_at_ms",
    "opened_at_ms",
    "settled_at_ms",
    "closed_at_ms",
    "intended_at_ms",
    "deadline_ms",
    "requested_at_ms",
    "due_at_ms",
    "expires_at_ms",
)
_PRIVATE = frozenset(
    {
        "tenant",
        "row_version",
        "key_index",
        "arguments_index",
        "message_index",
        "first_event_id",
        "intended_event_id",
    }
)


def event_json(event: Event, *, content: bool = True) -> dict[str, Any]:
    """One event: its header's members by name, its hash, and its content with the word for its state."""
    header = dict(event.header.raw)
    told: dict[str, Any] = {
        "stream_id": event.stream_id,
        "sequence": event.sequence,
        "event_id": event.event_id,
        "event_type": event.type,
        "recorded_at": time_text(event.recorded_at_ms),
        "hash": event.hash.hex(),
        "header": header,
    }
    if event.fault:
        told["fault"] = event.fault
    if content:
        opened = event.opened
        told["content_state"] = opened.state
        told["content"] = event.outline_or_none() if opened.state == "present" else None
        if opened.reason:
            told["content_reason"] = opened.reason
    return told


def row_json(row: Row) -> dict[str, Any]:
    """A row of a table: its public columns, times as text in UTC."""
    told: dict[str, Any] = {}
    for name, value in row.items():
        if name in _PRIVATE:
            continue
        if name in _TIMES:
            told[name.removesuffix("_ms")] = time_text(value) if isinstance(value, int) else None
        elif name == "waits_for":
            told[name] = str(value).split() if value else []
        else:
            told[name] = value.hex() if isinstance(value, bytes) else value
    return told


def conversation_json(
    info: ConversationInfo,
    *,
    last_run: Row | None,
    last_event_ms: int | None,
    in_doubt: int,
    in_review: int,
    to_approve: int,
) -> dict[str, Any]:
    """One conversation of ``ls``."""
    return {
        "stream_id": info.stream_id,
        "name": info.name,
        "name_state": info.name_state,
        "title": info.title,
        "agent": info.agent,
        "origin": info.origin,
        "state": info.state,
        "opened_at": None if info.opened_at_ms is None else time_text(info.opened_at_ms),
        "last_event_at": None if last_event_ms is None else time_text(last_event_ms),
        "events": info.head_sequence,
        "runs": info.runs,
        "waiting": info.waiting,
        "in_doubt": in_doubt,
        "in_review": in_review,
        "to_approve": to_approve,
        "last_run": None
        if last_run is None
        else {"run_id": last_run["run_id"], "state": last_run["state"], "terminal": last_run["terminal"]},
    }


# ---- timelines -------------------------------------------------------------------------------------------------------


def shown_json(
    info: ConversationInfo, run: Row | None, open_rows: Sequence[Row], drawn: Timeline, *, more: bool
) -> dict[str, Any]:
    """What ``show`` shows: the conversation, the run if one was named, its open effects, and the rows."""
    return {
        "conversation": {
            "stream_id": info.stream_id,
            "name": info.name,
            "agent": info.agent,
            "state": info.state,
        },
        "run": None if run is None else row_json(run),
        "open_effects": [row_json(row) for row in open_rows],
        "first_sequence": drawn.first,
        "last_sequence": drawn.last,
        "more": more,
        "rows": [timeline_row_json(row) for row in drawn.rows],
    }


def timeline_row_json(row: AnyRow) -> dict[str, Any]:
    """One row of a timeline. ``row`` is ``note``, ``effect``, ``fold`` or ``gap``."""
    place = {"sequence": row.sequence, "last_sequence": row.last, "at": time_text(row.time_ms)}
    match row:
        case Gap():
            return {"row": "gap", **place, "length_ms": row.length_ms, "words": row.words}
        case Fold():
            return {"row": "fold", **place, "count": row.count, "first": timeline_row_json(row.first)}
        case Pair():
            return {"row": "effect", **place, **_pair_json(row)}
        case Note():
            return {
                "row": "note",
                **place,
                "title": row.title,
                "detail": [span.text for span in row.detail if span.text],
                "outcome": None if row.outcome is None else row.outcome.text,
                "below": [span.text for span in row.below],
                "took_ms": row.took_ms,
            }
        case _:
            assert_never(row)


def _pair_json(pair: Pair) -> dict[str, Any]:
    cheque, doubt = pair.cheque, pair.doubt
    return {
        "effect_id": pair.effect_id,
        "state": pair.state,
        "tool": pair.stub.tool,
        "tool_version": pair.stub.version,
        "attempt": pair.stub.attempt,
        "if_in_doubt": pair.stub.rule,
        "observation": None
        if cheque is None
        else {
            "sequence": cheque.sequence,
            "at": time_text(cheque.time_ms),
            "word": cheque.word,
            "by": cheque.by,
            "facts": {name: value.text for name, value in cheque.facts},
        },
        "doubt": None
        if doubt is None
        else {
            "word": doubt.word,
            "since": time_text(doubt.since_ms),
            "known": [*doubt.known, *([doubt.verdict] if doubt.verdict else [])],
            "decides": doubt.decides,
            "commands": doubt.commands,
        },
        "under_way": pair.under_way or None,
        "story": pair.story,
    }


def child_json(child: ChildStanding) -> dict[str, Any]:
    """A child with its link both ways and what became of it."""
    times = {"spawned_at": child.spawned_at_ms, "changed_at": child.changed_at_ms}
    return child.to_json() | {name: time_text(at_ms) for name, at_ms in times.items()}


def child_report_json(report: ChildReport) -> dict[str, Any]:
    """What a recovery or a worker did for one child."""
    return asdict(report)


def effect_report_json(effect: EffectReport) -> dict[str, Any]:
    """What a recovery or a worker found or did for one effect."""
    return {
        "effect_id": effect.effect_id,
        "tool": effect.tool,
        "tool_version": effect.tool_version,
        "run_id": effect.run_id,
        "stream_id": effect.stream_id,
        "done": effect.done,
        "state": effect.state,
        "why": effect.why,
    }
