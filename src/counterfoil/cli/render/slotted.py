"""State slots for people: what each holds, and how one came about."""

from __future__ import annotations

from collections.abc import Sequence

from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import count, moment
from counterfoil.cli.render.values import shown
from counterfoil.client.stating import Slot
from counterfoil.errors import ContentUnavailable


def slot_lines(slots: Sequence[Slot], width: int) -> list[Line]:
    """One line for each: its name, what it holds, and by which version, event and run."""
    columns = (
        Column("slot", shrinks=True, least=8),
        Column("value", shrinks=True, least=12),
        Column("version", "right", yields=3),
        Column("event", "right", yields=2),
        Column("set (UTC)", yields=4),
        Column("run", yields=1),
    )
    return table(columns, [_line(slot) for slot in slots], width)


def _line(slot: Slot) -> list[Line]:
    return [
        Line(marked(slot.name)),
        Line(_value(slot)),
        Line(count(slot.version)),
        Line(count(slot.sequence)),
        Line(moment(slot.event.recorded_at_ms).removesuffix("Z")),
        Line(Span(slot.run_id or "", "quiet")),
    ]


def _value(slot: Slot) -> Span:
    if not slot.holds:
        return Span("cleared", "quiet")
    try:
        return Span(shown(slot.event.content["value"]))
    except ContentUnavailable as error:
        return Span(str(error.fields.get("state", "missing")), "failure")
