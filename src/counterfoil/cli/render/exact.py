"""One event exactly: its place, its public fields, its content with its state, its hash; and lists of events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from counterfoil.cli.render.content import LOOKS
from counterfoil.cli.render.line import Line, Span, cut, width, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import clock, moment
from counterfoil.cli.render.values import shown
from counterfoil.flow.event import ContentState, Event

TYPE_COLUMN_FROM: Final = 80
"""From this width on the types of events stand in a column of their own."""

STATES: Final[Mapping[ContentState, str]] = {
    "none": "this event has no content",
    "present": "present",
    "erased": "erased under a certificate",
    "withheld": "withheld: intact, and no key at hand",
    "missing": "missing, and no certificate says why",
    "damaged": "damaged: not what was written",
}


def event_line(event: Event, columns: int) -> Line:
    """One event in one line: sequence, time, type, public fields, and the state of its content if it is not there."""
    head = Line(Span(f"{event.sequence:>6}", "quiet"), f" {clock(event.recorded_at_ms)} ")
    if event.fault:
        said = cut(f"{marked(event.type)}: {marked(event.fault)}", columns - head.width - 2)
        return head + Span(f"✗ {said}", "failure")
    name = marked(event.type)
    fields = " ".join(f"{marked(key)}={shown(value)}" for key, value in event.data.items())
    line = head + Span(f"{name:<24}" if columns >= TYPE_COLUMN_FROM else name, "strong") + " "
    gone = LOOKS.get(event.content_state)
    tail = Span(f" {gone[0]}", gone[1]) if gone else Span("")
    return line + Span(cut(fields, max(columns - line.width - width(tail.text), 0)), "quiet") + tail


def event_lines(event: Event, columns: int) -> Iterator[Line]:
    """One event in full."""
    yield Line(Span(marked(event.type), "strong"), f"  event {event.sequence} of {event.stream_id}")
    if event.fault:
        yield Line(Span(f"✗ {marked(event.fault)}", "failure"))
    yield from _facts(_place(event), columns)
    if event.data:
        yield Line()
        yield Line(Span("public fields", "strong"))
        yield from _facts([(name, shown(value)) for name, value in event.data.items()], columns)
    if event.header.artifact_refs:
        yield Line()
        yield Line(Span("artifacts", "strong"))
        yield from _facts([_artifact(member) for member in event.header.artifact_refs], columns)
    yield Line()
    yield from _content(event)
    yield Line()
    yield from _facts(
        [("hash", event.hash.hex()), ("previous", str(event.header.raw.get("previous_event_hash", "?")))],
        columns,
    )


def _artifact(member: Mapping[str, str]) -> tuple[str, str]:
    return marked(member["kind"]), f"{member['class']} {member['sha256']}"


def _place(event: Event) -> list[tuple[str, str]]:
    raw = event.header.raw
    actor = raw.get("actor")
    who = f"{actor.get('type')} {actor.get('id')}" if isinstance(actor, Mapping) else None
    found: list[tuple[str, Any]] = [
        ("recorded", moment(event.recorded_at_ms)),
        ("occurred", raw.get("occurred_at")),
        ("event", event.event_id),
        ("actor", who),
        ("version", raw.get("event_schema_version")),
        *((name.removesuffix("_id").replace("_", " "), raw.get(name)) for name in _LINKS),
    ]
    return [(name, marked(str(value))) for name, value in found if value is not None]


_LINKS: Final = (
    "run_id",
    "step_id",
    "attempt",
    "causation_event_id",
    "causation_stream_id",
    "correlation_id",
    "trace_id",
    "ignorable",
)


def _facts(facts: list[tuple[str, str]], columns: int) -> Iterator[Line]:
    column = max((width(name) for name, _ in facts), default=0)
    for name, value in facts:
        for number, piece in enumerate(wrap(value, columns - column - 4)):
            yield Line("  ", Line(Span(name if number == 0 else "", "quiet")).pad(column + 2), piece)


def _content(event: Event) -> Iterator[Line]:
    state = event.content_state
    look = LOOKS.get(state)
    word = Span(STATES[state]) if look is None else Span(f"{look[0].split(' ')[0]} {STATES[state]}", look[1])
    yield Line(Span("content", "strong"), "  ", word)
    opened = event.opened
    if opened.reason and state not in ("present", "none"):
        yield Line("  ", marked(opened.reason))
    for number, part in enumerate(opened.parts):
        if part is None:
            yield Line(f"  part {number}: ", Span("not readable here", "failure"))
            continue
        if len(opened.parts) > 1:
            yield Line(Span(f"  part {number}", "quiet"))
        yield from (Line("  ", line) for line in written(part))


def written(value: Any) -> Iterator[str]:
    """A value as indented JSON, whole, with hostile characters marked."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    yield from (marked(line) for line in text.split("\n"))
