"""Schedules for people: a list, one that was made, one that is over."""

from __future__ import annotations

from collections.abc import Sequence

from counterfoil.cli.render.cells import text
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import duration, moment
from counterfoil.runtime.schedules.create import Schedule
from counterfoil.store.rows import Row


def empty_lines(option: str) -> list[Line]:
    """No schedule."""
    return [
        Line(Span("· ", "quiet"), "no schedules: one brings inputs to a conversation by itself"),
        Line("  ", Span(f"counterfoil schedule add AGENT --conversation NAME --every 3600{option}", "quiet")),
    ]


def schedule_lines(rows: Sequence[Row], width: int, now_ms: int) -> list[Line]:
    """One line for each."""
    columns = (
        Column("schedule"),
        Column("agent", yields=2, shrinks=True),
        Column("comes"),
        Column("state"),
        Column("due"),
        Column("in", "right", yields=3),
        Column("conversation", yields=4),
    )
    return table(columns, [_line(row, now_ms) for row in rows], width)


def _line(row: Row, now_ms: int) -> list[Line]:
    due_ms, state = int(row["due_ms"] or 0), text(row, "state")
    left_ms = due_ms - now_ms
    soon = duration(left_ms) if left_ms >= 0 else f"{duration(-left_ms)} ago"
    return [
        Line(text(row, "schedule_id")),
        Line(marked(text(row, "agent"))),
        Line(_comes(row)),
        Line(Span(state, "good" if state == "active" else "quiet")),
        Line(moment(due_ms) if state == "active" else Span("–", "quiet")),
        Line(soon if state == "active" else ""),
        Line(Span(text(row, "stream_id"), "quiet")),
    ]


def _comes(row: Row) -> str:
    kind = text(row, "kind")
    return f"every {duration(int(row['period_ms'] or 0))}" if kind == "every" else kind


def made_lines(made: Schedule, option: str) -> list[Line]:
    """A schedule that was added, or was there before."""
    word = "was there before" if made.repeated else "added"
    due = f"due {moment(made.due_ms)}" if made.state == "active" else made.state
    return [
        Line(Span(f"✓ schedule {word}", "good"), f"  {due}  ", Span(made.schedule_id, "quiet")),
        Line("  ", Span(f"a worker fires it: counterfoil worker{option}", "quiet")),
    ]


def over_lines(over: Schedule) -> list[Line]:
    """A schedule that fires no more."""
    word = f"was {over.state} before" if over.repeated else "cancelled"
    return [Line(Span(f"× schedule {word}", "quiet"), "  ", Span(over.schedule_id, "quiet"))]
