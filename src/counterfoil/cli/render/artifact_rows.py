"""Artifacts for people: a line of a timeline, a line of a list, and what a check found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from counterfoil.cli.render.building import Build
from counterfoil.cli.render.cells import number, text
from counterfoil.cli.render.content import LOOKS, Content
from counterfoil.cli.render.line import Line, Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import count, moment, plural
from counterfoil.core.artifact import storage_ref
from counterfoil.flow.event import Event
from counterfoil.store.rows import Row

SHOWN_HEX: Final = 12
"""Of an object's name: enough for `counterfoil artifacts get`."""


class Listed(Struct, frozen=True):
    """An artifact with what its event says of it; ``state`` is that of this content, or of the bytes if they were checked."""

    row: Row
    name: str | None
    media_type: str | None
    size: int | None
    state: str
    reason: str = ""


def short(sha256: str) -> str:
    """The beginning of an object's name."""
    return f"{sha256[:SHOWN_HEX]}…"


def size_words(size: object, size_class: object) -> str:
    """The exact size where content says it, otherwise what the header says: at most so many bytes."""
    if type(size) is int:
        return plural(size, "byte")
    return f"at most {plural(2**size_class, 'byte')}" if type(size_class) is int else "of unknown size"


# ---- in a timeline ---------------------------------------------------------------------------------------------------


def _stored(build: Build, event: Event) -> None:
    content = Content(event)
    note = build.note(event, "▤", "artifact")
    name = content.gone or Span(marked(content.text("name") or str(_member(event, "kind"))), "strong")
    note.detail = [name, *_facts(event, content)]


def _spilled(build: Build, event: Event) -> None:
    content = Content(event)
    note = build.note(event, "▤", "spilled")
    note.detail = [Span("a value", "quiet"), *_facts(event, content)]
    note.fold = "spilled"


def _facts(event: Event, content: Content) -> list[Span]:
    size = size_words(content.get("bytes"), event.data.get("size_class"))
    return [
        Span(str(_member(event, "class"))),
        Span(size),
        Span(short(str(_member(event, "sha256"))), "quiet"),
    ]


def _redacted(build: Build, event: Event) -> None:
    note = build.note(event, "░", "artifact")
    note.detail = [
        Span("redacted", "strong"),
        Span(short(str(event.data["sha256"])), "quiet"),
        Span(f"under certificate {event.data['certificate']}", "quiet"),
    ]


def _member(event: Event, name: str) -> object:
    return event.header.artifact_refs[0][name]


HANDLERS: Final[Mapping[str, Callable[[Build, Event], None]]] = {
    "artifact.stored": _stored,
    "artifact.spilled": _spilled,
    "artifact.redacted": _redacted,
}


# ---- in lists --------------------------------------------------------------------------------------------------------


def empty_lines(option: str) -> list[Line]:
    """An empty list."""
    return [
        Line(
            Span("· ", "quiet"),
            "no artifacts: `run.artifact(…)` keeps one, and what is too large for an event spills",
        ),
        Line(Span(f"  counterfoil artifacts ls --spilled{option}", "quiet")),
    ]


def artifact_lines(listed: Sequence[Listed], names: Mapping[str, str], width: int) -> list[Line]:
    """One line for each artifact, the oldest first; ``names`` are those of conversations."""
    columns = (
        Column("artifact"),
        Column("name", shrinks=True, least=16),
        Column("class"),
        Column("bytes", "right"),
        Column("stored (UTC)", yields=2),
        Column("conversation", yields=3, shrinks=True),
    )
    return table(columns, [_line(entry, names) for entry in listed], width)


def _line(entry: Listed, names: Mapping[str, str]) -> list[Line]:
    row = entry.row
    stream_id = text(row, "stream_id")
    size = f"≤ {count(2 ** number(row, 'size_class'))}" if entry.size is None else count(entry.size)
    return [
        Line(short(text(row, "sha256"))),
        _name(entry),
        Line(text(row, "class")),
        Line(size),
        Line(moment(number(row, "stored_at_ms")).removesuffix("Z")),
        Line(marked(names.get(stream_id, stream_id))),
    ]


def _name(entry: Listed) -> Line:
    if entry.row["state"] == "redacted":
        return Line(Span("░ redacted", "quiet"))
    if entry.row["kind"] == "spill":
        return Line(Span("a spilled value", "quiet"))
    look = _look(entry.state)
    if look is not None:
        return Line(Span(*look))
    return Line(marked(entry.name or text(entry.row, "kind")))


def _look(state: str) -> tuple[str, Style] | None:
    known: Mapping[str, tuple[str, Style]] = {str(word): look for word, look in LOOKS.items()}
    return known.get(state)


# ---- checked ---------------------------------------------------------------------------------------------------------


def checked_lines(found: Sequence[Listed], total: int, option: str) -> list[Line]:
    """What a check of the bytes found: those that are not there or not what was stored, then the sum."""
    lines = [
        Line(
            Span(*(_look(entry.state) or (entry.state, "plain"))),
            f"  {short(text(entry.row, 'sha256'))} {text(entry.row, 'class')}"
            f" of {text(entry.row, 'stream_id')} event {number(entry.row, 'sequence')}: {marked(entry.reason)}",
        )
        for entry in found
    ]
    if not found:
        return [
            Line(Span("✓ ", "good"), f"{plural(total, 'artifact')} read, and every byte is what was stored")
        ]
    sound = total - len(found)
    lines.append(Line(f"{plural(total, 'artifact')}: {count(sound)} sound, {count(len(found))} not"))
    lines.append(Line(Span(f"  counterfoil verify{option}", "quiet")))
    return lines


def listed_json(entry: Listed, row: dict[str, Any]) -> dict[str, Any]:
    """One artifact for programs; ``row`` is its row as JSON."""
    row.pop("owner", None)
    told = row | {
        "storage_ref": storage_ref(text(entry.row, "sha256")),
        "name": entry.name,
        "media_type": entry.media_type,
        "bytes": entry.size,
        "content_state": entry.state,
    }
    return told | ({"reason": entry.reason} if entry.reason else {})
