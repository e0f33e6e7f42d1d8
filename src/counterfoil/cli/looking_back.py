"""``counterfoil show CONVERSATION --at N``: what was known at one sequence, for people and for programs."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from counterfoil.cli.apps import load
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.render.cells import text
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.listing import effect_lines, review_lines, run_lines
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count
from counterfoil.cli.render.values import shown
from counterfoil.client.asof import Past
from counterfoil.client.projector import View
from counterfoil.core.canonical import decode
from counterfoil.effects.rows import EFFECTS
from counterfoil.projections.registry import declare_all
from counterfoil.runtime.rows import RUNS
from counterfoil.runtime.slots.rows import SLOTS
from counterfoil.store.rows import Cell, Row

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

REVIEWS: Final = "reviews"
DRAWN: Final = frozenset({RUNS, EFFECTS.name, REVIEWS, SLOTS})
"""Tables that are drawn as such; of the others the number of rows is said."""


def declare_projections(face: Face, ledger: Ledger, app: str | None) -> None:
    """Declare what the application's module holds; without one there are no projections to show."""
    if app is None and face.config.app is None:
        return
    load(face, app)
    declare_all(ledger)


def show_past(face: Face, ledger: Ledger, stream_id: str, sequence: int) -> int:
    """Print it. What is read from nothing but events can be read at any time again."""
    past = ledger.at(stream_id, sequence)
    if face.as_json:
        face.give(_json(past))
        return Exit.DONE
    now_ms = _as_of(ledger, past)
    face.say([*_heading(past), Line()])
    for title, lines in _sections(past, face.columns, now_ms):
        face.say([Line(Span(title, "strong")), *lines, Line()])
    return Exit.DONE


def _as_of(ledger: Ledger, past: Past) -> int:
    """When its last event was recorded: what waited then is told as of then."""
    last = next(iter(ledger.events(past.conversation, max(0, past.sequence - 1), limit=1)), None)
    return 0 if last is None else last.recorded_at_ms


def _heading(past: Past) -> list[Line]:
    told = f"{past.conversation} as of event {count(past.sequence)} of {count(past.head_sequence)}"
    lines = [Line(Span(told, "strong"))]
    if not past.whole:
        lines.append(Line(Span("  some rows follow from content that cannot be opened", "quiet")))
    return lines


def _sections(past: Past, width: int, now_ms: int) -> list[tuple[str, list[Line]]]:
    found: list[tuple[str, list[Line]]] = []
    live = {past.conversation}
    if past.runs:
        found.append(("runs", run_lines(past.runs, {}, live, width)))
    if past.effects:
        found.append(("effects", effect_lines(past.effects, (), width, now_ms)))
    reviews = past.rows(REVIEWS)
    if reviews:
        by_id = {text(row, "effect_id"): row for row in past.effects}
        pairs = [(row, by_id.get(text(row, "effect_id"))) for row in reviews]
        found.append(("reviews", review_lines(pairs, width, now_ms)))
    slots = past.rows(SLOTS)
    if slots:
        found.append(("state", [_slot(row) for row in slots]))
    if past.projections:
        found.append(("projections", [_projection(view) for view in past.projections.values()]))
    others = [f"{name} {count(len(rows))}" for name, rows in past.tables.items() if name not in DRAWN]
    if others:
        found.append(("other rows", [Line(f"  {marked(', '.join(others))}")]))
    return found


def _slot(row: Row) -> Line:
    where = f"version {text(row, 'version')}, event {text(row, 'sequence')}"
    return Line(f"  {marked(text(row, 'slot'))}  ", Span(f"{text(row, 'state')}, {where}", "quiet"))


def _projection(view: View) -> Line:
    head = Line(f"  {marked(view.name)}  ")
    if view.encoded is None:
        return head + Span(f"stopped: {marked(view.stopped.why if view.stopped else '')}", "failure")
    return head + shown(decode(view.encoded))


# ---- for programs ----------------------------------------------------------------------------------------------------


def _json(past: Past) -> dict[str, Any]:
    return {
        "conversation": past.conversation,
        "sequence": past.sequence,
        "head_sequence": past.head_sequence,
        "whole": past.whole,
        "rows": {name: [_row(row) for row in rows] for name, rows in past.tables.items()},
        "projections": {name: view_json(view) for name, view in past.projections.items()},
    }


def _row(row: Row) -> dict[str, Any]:
    return {name: _cell(cell) for name, cell in row.items()}


def _cell(cell: Cell) -> Any:
    return base64.b64encode(cell).decode() if isinstance(cell, bytes) else cell


def view_json(view: View) -> dict[str, Any]:
    """A projection as it was folded."""
    return {
        "projection": view.name,
        "version": view.version,
        "conversation": view.conversation,
        "up_to_sequence": view.up_to_sequence,
        "head_sequence": view.head_sequence,
        "lag": view.lag,
        "stopped": None if view.stopped is None else view.stopped.why,
        "refused": [one.cause for one in view.refused],
        "state": None if view.encoded is None else decode(view.encoded),
    }
