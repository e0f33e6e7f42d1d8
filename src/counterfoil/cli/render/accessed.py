"""The record of access: one line for each decision, and for each glass that was broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import moment
from counterfoil.client.access import DecisionLine


def decision_lines(decisions: Sequence[DecisionLine], width: int) -> list[Line]:
    """One line for each, the oldest first."""
    if not decisions:
        return [Line(Span("· ", "quiet"), "nobody asked to see anything yet")]
    columns = (
        Column(""),
        Column("at (UTC)", yields=2),
        Column("who", shrinks=True),
        Column("to", yields=1),
        Column("what", shrinks=True, yields=4),
        Column("rule", yields=3),
        Column("purpose", shrinks=True, least=16),
    )
    return table(columns, [_row(line) for line in decisions], width)


def _row(line: DecisionLine) -> list[Line]:
    gone = Span("not readable", "quiet")
    action = f"glass until {line.until}" if line.until else line.action
    what = line.stream_id or "all conversations"
    return [
        Line(Span("✓", "good") if line.allowed else Span("✗", "failure")),
        Line(moment(line.at_ms).removesuffix("Z")),
        Line(gone if line.by is None else marked(line.by)),
        Line(marked(action)),
        Line(Span(what if line.klass is None else f"{what}, {line.klass}", "quiet")),
        Line(marked(line.rule)),
        Line(gone if line.purpose is None else marked(line.purpose)),
    ]


def decision_json(line: DecisionLine) -> dict[str, Any]:
    """One decision for programs."""
    return {
        "sequence": line.sequence,
        "event_id": line.event_id,
        "at": line.at,
        "action": line.action,
        "allowed": line.allowed,
        "rule": line.rule,
        "stream_id": line.stream_id,
        "class": line.klass,
        "until": line.until,
        "by": line.by,
        "purpose": line.purpose,
    }
