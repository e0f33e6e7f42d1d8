"""Children for people: what became of each, whose they are, and what a recovery did for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from counterfoil.cli.render.line import Line, Span, Style, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import moment
from counterfoil.runtime.children.recover import ChildReport
from counterfoil.runtime.children.state import ChildStanding

_STATES: Final[Mapping[str, tuple[str, Style]]] = {
    "spawned": ("·", "wait"),
    "running": ("▸", "plain"),
    "suspended": ("…", "wait"),
    "settled": ("✓", "good"),
    "stopped": ("×", "quiet"),
    "lost": ("?", "failure"),
    "purged": ("▒", "quiet"),
}
_DONE: Final[Mapping[str, str]] = {
    "stopped": "stopped",
    "lost": "cannot be reached, given up as lost",
    "settled": "its end was told to its parent",
    "left": "left running by its parent's end",
    "asked": "told to end, its worker is still at it",
    "failed": "could not be looked at",
}


def state_words(child: ChildStanding) -> str:
    """What became of a child in a few words."""
    words = child.state if child.terminal is None else f"{child.state}: {child.terminal}"
    if child.left:
        words += f", left by a run that ended as {child.parent_terminal}"
    elif child.settled_by == "parent" and child.parent_terminal is not None:
        words += f", its parent ended as {child.parent_terminal}"
    return words


def child_lines(children: Sequence[ChildStanding], width: int) -> list[Line]:
    """The children of what is shown."""
    lines: list[Line] = []
    for child in children:
        glyph, style = _STATES[child.state]
        agent = marked(child.link.agent) or "agent unknown"
        lines += _pieces(f"{glyph} child {agent}  {state_words(child)}", style, width)
        lines.append(Line("    ", Span(child.link.run_id, "quiet")))
    return lines


def parent_lines(child: ChildStanding, width: int) -> list[Line]:
    """Whose child the run is that is shown."""
    link = child.link
    return _pieces(
        f"child of {link.parent_run_id} in {link.parent_stream_id}, depth {link.depth}", "quiet", width
    )


def children_lines(children: Sequence[ChildStanding], width: int) -> list[Line]:
    """The list of ``ls children``: state, agent, run, whose child, since when."""
    lines: list[Line] = []
    for child in children:
        glyph, style = _STATES[child.state]
        agent = marked(child.link.agent) or "agent unknown"
        lines += _pieces(f"{glyph} {state_words(child)}  {agent}", style, width)
        place = f"{child.link.run_id}  child of {child.link.parent_run_id}  {moment(child.spawned_at_ms)}"
        lines += [Line("    ", Span(piece, "quiet")) for piece in wrap(place, width - 4)]
    return lines


def child_report_lines(report: ChildReport, width: int) -> list[Line]:
    """What a recovery or a worker did for one child."""
    style: Style = "failure" if report.done in ("lost", "failed") else "plain"
    lines = _pieces(f"child {_DONE[report.done]}", style, width)
    lines.append(Line("    ", Span(report.child_run_id, "quiet")))
    return lines + [
        Line("    ", piece) for piece in (wrap(marked(report.why), width - 4) if report.why else [])
    ]


def _pieces(text: str, style: Style, width: int) -> list[Line]:
    return [Line(Span(piece, style)) for piece in wrap(text, width)]
