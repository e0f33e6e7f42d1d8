"""Rows of repairs and corrections, and what they add to the rows of what they repair: both are always shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from counterfoil.cli.render.building import Build
from counterfoil.cli.render.content import Content
from counterfoil.cli.render.line import Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.model import Note, Pair
from counterfoil.cli.render.values import named, shown
from counterfoil.flow.event import Event

if TYPE_CHECKING:
    from counterfoil.cli.render.effect_rows import EffectBuild

ENDS: Final[Mapping[str, tuple[str, str, Style]]] = {
    "repaired": ("✓", "repaired", "good"),
    "partial": ("◐", "repaired in part", "strong"),
    "irreversible": ("⊘", "irreversible", "strong"),
}
"""How a repair ended: glyph, words, style."""


def undoing(build: Build, compensation: EffectBuild, event: Event) -> None:
    """An effect that undoes another says so on its stub, and the other one says by what."""
    undone = str(event.data["compensates"])
    compensation.pair.stub.fields.insert(0, ("undoes", Span(_place(build, undone), "strong")))
    build.repairs[compensation.pair.effect_id] = undone
    original = build.effects.get(undone)
    if original is not None:
        original.pair.story.append(f"being undone by {compensation.pair.stub.tool} ({event.sequence})")


def undone(build: Build, compensation: EffectBuild, event: Event) -> None:
    """A compensation that came to its outcome: the effect that it undoes says so."""
    pair = compensation.pair
    original = build.effects.get(build.repairs.get(pair.effect_id, ""))
    if original is None:
        return
    story, begun = original.pair.story, f"being undone by {pair.stub.tool} ({pair.sequence})"
    said = "undone by" if event.data.get("outcome") == "succeeded" else "not undone by"
    told = f"{said} {pair.stub.tool} ({pair.sequence}, {event.sequence})"
    if begun in story:
        story[story.index(begun)] = told
    else:
        story.append(told)


def _opened(build: Build, event: Event) -> None:
    content = Content(event)
    note = build.note(event, "↩", "repair opened", style="strong")
    what = event.data.get("effect_id") or event.data["supersedes"]
    note.detail = [Span(f"of {_place(build, str(what))}")]
    note.detail += _said(content)
    owner = _person(content, "owner")
    if owner and owner != _person(content, "by"):
        note.detail.append(Span(f"in the hands of {owner}"))
    note.aside = [Span(build.command(f"repair show {event.data['repair_id']}"), "quiet")]
    build.repairs[str(event.data["repair_id"])] = str(what)
    build.waiting = "waited for its repair"


def _closed(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    glyph, words, style = ENDS[str(data["result"])]
    note = build.note(event, glyph, words, style=style)
    what = build.repairs.get(str(data["repair_id"]))
    note.detail = [Span(_place(build, what))] if what else [Span(str(data["repair_id"]), "quiet")]
    calls = [_place(build, str(effect_id)) for effect_id in data["compensations"]]
    if calls:
        note.detail.append(Span(f"by {', '.join(calls)}"))
    note.detail += _said(content)
    residual = content.get("residual_impact")
    if residual is not None:
        note.below.append(Span(f"what remains: {shown(residual)}", "strong"))
    original = build.effects.get(what or "")
    if original is not None:
        original.pair.story.append(f"{words} ({event.sequence})")


def _corrected(build: Build, event: Event) -> None:
    content = Content(event)
    wrong = str(event.data["corrects"])
    place = build.places.get(wrong)
    note = build.note(event, "✎", "corrected", style="strong")
    note.detail = [Span(f"event {wrong if place is None else place}")]
    if content.gone is None:
        note.detail.append(Span(f"is rightly {named(content.get('value'))}", "strong"))
    note.detail += _said(content)
    if place is not None:
        _mark_corrected(build, place, event.sequence)


def _mark_corrected(build: Build, place: int, sequence: int) -> None:
    """The row of what was corrected says so, whatever kind of row it is."""
    for row in reversed(build.rows):
        if isinstance(row, Pair) and place in (row.sequence, row.cheque.sequence if row.cheque else 0):
            row.story.append(f"{place} is corrected in {sequence}")
            return
        if isinstance(row, Note) and row.sequence == place:
            row.below.append(Span(f"✎ corrected in {sequence}", "strong"))
            return


def _place(build: Build, what: str) -> str:
    """An effect by its tool and sequence, an event by its sequence; the id where it is not in the stretch."""
    found = build.effects.get(what)
    if found is not None and found.pair.stub.tool:
        return f"{found.pair.stub.tool} ({found.pair.sequence})"
    place = build.places.get(what)
    return marked(what) if place is None else f"event {place}"


def _said(content: Content) -> list[Span]:
    """Why, and who says so; or the word for content that is gone."""
    if (gone := content.gone) is not None:
        return [gone]
    reason = content.get("reason")
    said = [] if reason is None else [Span(shown(reason))]
    by = _person(content, "by")
    return [*said, Span(f"by {by}")] if by else said


def _person(content: Content, member: str) -> str:
    by: Any = content.get(member)
    name = by.get("name") if isinstance(by, Mapping) else None
    return shown(name) if isinstance(name, str) else ""


HANDLERS: Final[Mapping[str, Callable[[Build, Event], None]]] = {
    "repair.opened": _opened,
    "repair.closed": _closed,
    "fact.corrected": _corrected,
}
