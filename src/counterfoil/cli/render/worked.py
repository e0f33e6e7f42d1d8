"""What a worker does, line by line as it happens, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from counterfoil.cli.render.children_rows import child_report_lines
from counterfoil.cli.render.line import Line, Span, Style, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.recovered import effect_lines
from counterfoil.cli.render.times import duration, moment
from counterfoil.runtime.children.recover import ChildReport
from counterfoil.runtime.schedules.fire import Fired
from counterfoil.runtime.turn import TurnKept
from counterfoil.runtime.worker import Entry, Happening, Lapsed, Started

_ENTERED: Final[Mapping[str, tuple[str, Style, str]]] = {
    "ended": ("✓", "good", "ended"),
    "waits": ("…", "wait", "waits again"),
    "busy": ("…", "wait", "another worker is at it"),
    "left": ("◆?", "doubt_bar", "cannot go on here"),
}
_WHY: Final[Mapping[str, str]] = {
    "approval": "its approval was answered",
    "review": "its review was settled",
    "effect": "its effect was decided, or its retry was due",
    "child": "its child has ended",
    "spawned": "a child that nobody had begun",
    "left": "its worker was gone",
}


_WAITED: Final[Mapping[str, str]] = {
    "live_run": "its input had waited in line",
    "until": "the time of its input had come",
    "approval": "its input had waited in line",
    "operator": "its input was let in",
}


def working_lines(
    app: str | None, tools: Sequence[str], agents: Sequence[str] | None, *, once: bool
) -> list[Line]:
    """What it works with; ``agents`` None: it enters none."""
    loaded = marked(app) if app else "no module of the application (name it as app in counterfoil.toml)"
    lines = [Line(Span("working with ", "quiet"), loaded)]
    lines.append(Line(Span("  tools   ", "quiet"), ", ".join(dict.fromkeys(map(marked, tools))) or "none"))
    if agents is not None:
        lines.append(Line(Span("  agents  ", "quiet"), ", ".join(map(marked, agents)) or "none"))
    if not once:
        lines.append(Line(Span("  until it is told to stop: Ctrl-C, or SIGTERM", "quiet")))
    return lines


def happened_lines(happened: Happening, width: int, option: str) -> list[Line]:
    """One thing that happened."""
    if isinstance(happened, Entry | Started):
        return _entry_lines(happened, width)
    if isinstance(happened, Lapsed):
        words = f"  {marked(happened.tool) or 'a call'}  "
        if happened.done == "left":
            lines = [Line("! approval left open", words, Span(happened.approval_id, "quiet"))]
            return lines + [Line("    ", piece) for piece in wrap(marked(happened.why), width - 4)]
        return [Line(Span("× approval expired", "quiet"), words, Span(happened.approval_id, "quiet"))]
    if isinstance(happened, Fired):
        return _fired_lines(happened, width)
    if isinstance(happened, TurnKept):
        return turn_kept_lines(happened, width)
    if isinstance(happened, ChildReport):
        return child_report_lines(happened, width)
    return list(effect_lines(happened, width, option))


def turn_kept_lines(turn: TurnKept, width: int) -> list[Line]:
    """What became of a turn whose head was due, or that nobody was at any more."""
    if turn.done == "left":
        lines = [Line("! head of a turn not kept  ", Span(turn.turn_id, "quiet"))]
        return lines + [Line("    ", piece) for piece in wrap(marked(turn.why), width - 4)]
    word = "head of a turn kept" if turn.done == "kept" else "turn given up: nobody is at it"
    return [Line(Span(f"· {word}  ", "quiet"), Span(turn.turn_id, "quiet"))]


_FIRED: Final[Mapping[str, tuple[str, Style, str]]] = {
    "fired": ("✓", "good", "schedule fired"),
    "refused": ("×", "quiet", "schedule fired, and its conversation refused the input"),
    "cancelled": ("×", "quiet", "schedule is over"),
    "left": ("!", "wait", "schedule cannot be fired here"),
}


def _fired_lines(fired: Fired, width: int) -> list[Line]:
    glyph, style, word = _FIRED[fired.done]
    late = f", {duration(fired.late_ms)} late" if fired.late_ms >= 1000 else ""
    lines = [
        Line(
            Span(f"{glyph} {word}", style),
            f"  {marked(fired.agent)}  due {moment(fired.due_ms)}{late}  ",
            Span(fired.schedule_id, "quiet"),
        )
    ]
    return lines + [Line("    ", piece) for piece in wrap(marked(fired.why), width - 4) if fired.why]


def _entry_lines(entry: Entry | Started, width: int) -> list[Line]:
    glyph, style, word = _ENTERED[entry.done]
    terminal = f": {entry.terminal}" if entry.terminal else ""
    raised = f" ({marked(entry.error_class)})" if entry.error_class else ""
    padded = f" {glyph} {word} " if style == "doubt_bar" else f"{glyph} {word}{terminal}{raised}"
    if isinstance(entry, Started):
        agent, name = entry.input.agent, entry.run_id or entry.input.admission_id
        known = _WAITED.get(entry.input.why, "")
    else:
        agent, name, known = entry.run.agent, entry.run.run_id, _WHY.get(entry.run.why, "")
    lines = [Line(Span(padded, style), f"  {marked(agent)}  ", Span(name, "quiet"))]
    why = marked(entry.why) or known
    lines += [Line("    ", piece) for piece in wrap(why, width - 4)] if why else []
    return lines
