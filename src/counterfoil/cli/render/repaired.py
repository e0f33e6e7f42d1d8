"""Repairs for people: the list, one case with its plan, and what a move of it did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from counterfoil.cli.render.cells import number, text
from counterfoil.cli.render.content import Content
from counterfoil.cli.render.line import Line, Span, Style, wrap_spans
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.repair_rows import ENDS
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import duration, moment, plural
from counterfoil.cli.render.values import named, shown
from counterfoil.flow.event import Event
from counterfoil.repair.correct import Corrected
from counterfoil.repair.plan import Declared, steps_of
from counterfoil.repair.play import RepairReport
from counterfoil.store.rows import Row

STEPS: Final[Mapping[str, tuple[str, Style]]] = {
    "to_do": ("○ to do", "plain"),
    "done": ("✓ done", "good"),
    "in_doubt": ("◆? in doubt", "doubt"),
    "in_review": ("◆? in review", "doubt"),
    "refused": ("⊘ refused", "failure"),
}


def state_span(state: str) -> Span:
    """The state of a repair in a word with its glyph; an open one needs somebody."""
    if state == "open":
        return Span(" ◆? open ", "doubt_bar")
    glyph, words, style = ENDS[state]
    return Span(f"{glyph} {words}", style)


def empty_lines(state: str, option: str) -> list[Line]:
    """An empty list."""
    words = "no repairs" if state == "all" else f"no repairs that are {state}"
    return [
        Line(Span("· ", "quiet"), f"{words}: a person opens one for an effect that was wrong"),
        Line(Span(f"  counterfoil repair start EFFECT --by NAME --reason TEXT{option}", "quiet")),
    ]


def repair_lines(rows: Sequence[tuple[Row, Row | None]], width: int, now_ms: int) -> list[Line]:
    """One line for each repair, the oldest first, with the tool whose effect it undoes."""
    columns = (
        Column("repair"),
        Column("of", shrinks=True, least=12),
        Column("state"),
        Column("for", "right", yields=1),
        Column("opened (UTC)", yields=2),
        Column("effect or event", yields=3),
    )
    return table(columns, [_line(row, effect, now_ms) for row, effect in rows], width)


def _line(row: Row, effect: Row | None, now_ms: int) -> list[Line]:
    opened = number(row, "opened_at_ms")
    is_open = row["state"] == "open"
    return [
        Line(text(row, "repair_id")),
        Line("an event" if effect is None else text(effect, "tool")),
        Line(state_span(str(row["state"]))),
        Line(duration((now_ms if is_open else number(row, "closed_at_ms")) - opened)),
        Line(moment(opened).removesuffix("Z")),
        Line(text(row, "subject")),
    ]


# ---- one case ----------------------------------------------------------------------------------------------------


def case_lines(report: RepairReport, opened: Event, width: int, now_ms: int) -> list[Line]:
    """What stands above the pairs: who repairs what and why, and how far it came."""
    content = Content(opened)
    lines = [
        Line("Repair ", Span(report.repair_id, "strong"), "  ", state_span(report.state)),
        Line(f"of {report.subject}"),
        Line(f"opened {moment(opened.recorded_at_ms)}"),
        Line(),
    ]
    for name, span in _facts(report, content):
        lines += _fact(name, span, width)
    if report.open:
        lines += _fact("is open", Span(marked(report.why), "doubt"), width)
        lines += _fact("for", Span(duration(now_ms - opened.recorded_at_ms)), width)
    lines += step_lines(report, content, width)
    return [*lines, Line()]


def _facts(report: RepairReport, content: Content) -> Iterable[tuple[str, Span]]:
    if (gone := content.gone) is not None:
        yield "reason", gone
        return
    for name, member in (("reason", "reason"), ("evidence", "evidence")):
        value = content.get(member)
        if value is not None:
            yield name, Span(shown(value))
    for name, member in (("by", "by"), ("owner", "owner")):
        person = content.get(member)
        if isinstance(person, Mapping):
            yield name, Span(shown(person.get("name", "?")))
    if report.residual_impact is not None:
        yield "remains", Span(shown(report.residual_impact), "strong")


def step_lines(report: RepairReport, content: Content | None, width: int) -> list[Line]:
    """The plan, call by call, with how each stands and with which arguments it is made."""
    arguments = [] if content is None else [named(step.arguments) for step in steps_of(content.values)]
    lines = []
    for place, step in enumerate(report.steps):
        words, style = STEPS[step.state]
        spans = [
            Span(f"{marked(step.tool)} {marked(step.tool_version)}", "strong"),
            Span("  "),
            Span(words, style),
        ]
        if step.effect_id is not None:
            spans.append(Span(f"  {step.effect_id}", "quiet"))
        lines += _fact(f"call {place + 1}", Span("".join(span.text for span in spans), style), width)
        if place < len(arguments):
            lines += _fact("", Span(arguments[place]), width)
    return lines


def _fact(name: str, span: Span, width: int) -> list[Line]:
    room = max(width - 14, 20)
    return [
        Line(Span(f"  {name if place == 0 else '':<12}", "quiet"), line)
        for place, line in enumerate(wrap_spans([span], room))
    ]


def way_out(report: RepairReport, option: str, app: str = "") -> list[Line]:
    """The commands that lead on from here; ``app`` is the option that names the tools' module, where it was given."""
    if not report.open:
        return [Line(Span(f"  counterfoil show {report.subject}{option}", "quiet"))]
    return [Line(Span(f"  counterfoil {words}{option}", "strong")) for words in _commands(report, app)]


def _commands(report: RepairReport, app: str) -> Iterable[str]:
    for name in report.waits_for:
        if name.startswith("apr_"):
            yield f"approve show {name}"
        elif name.startswith("rev_"):
            yield f"review show {name}"
    states = {step.state for step in report.steps}
    if "in_doubt" in states:
        yield f"recover{app}"
    if states and "refused" not in states:
        yield f"repair resume {report.repair_id}{app}"
    if not states & {"in_doubt", "in_review"} and (not states or "refused" in states):
        ends = "irreversible" if report.residual_impact is not None and not states else "partial"
        yield f"repair close {report.repair_id} --result {ends} --by NAME --reason TEXT"
    if not states:
        yield f"repair correct {report.subject if report.effect_id is None else 'EVENT'} --by NAME --reason TEXT --value JSON"


def moved_lines(report: RepairReport, width: int, option: str, app: str = "") -> list[Line]:
    """What a move of a repair came to, and what leads on."""
    glyph = Span("◆? ", "doubt") if report.open else Span("✓ ", "good")
    done = sum(step.state == "done" for step in report.steps)
    calls = f", {done} of {plural(len(report.steps), 'call')} done" if report.steps else ""
    words = "is open" if report.open else ENDS[report.state][1]
    lines = [Line(glyph, f"{report.repair_id} {words}{calls}")]
    if report.open:
        lines += _fact("", Span(marked(report.why)), width)
    if report.residual_impact is not None:
        lines += _fact("remains", Span(shown(report.residual_impact), "strong"), width)
    lines += step_lines(report, None, width)
    return [*lines, *way_out(report, option, app)]


# ---- before and beside -------------------------------------------------------------------------------------------


def plan_lines(effect: Row, declared: Declared, width: int, option: str) -> list[Line]:
    """What would undo an effect; nothing is recorded yet."""
    lines = [Line("Effect ", Span(text(effect, "effect_id"), "strong"), f"  {text(effect, 'tool')}"), Line()]
    for place, call in enumerate(declared.calls, 1):
        lines += _fact(
            f"call {place}", Span(f"{marked(call.tool.name)} {marked(call.tool.version)}", "strong"), width
        )
        lines += _fact("", Span(named(plain(call.arguments))), width)
    if declared.irreversible is not None:
        lines += _fact("remains", Span(shown(declared.irreversible), "strong"), width)
    if not declared.calls:
        lines += _fact("", Span("no call is declared that undoes it; a person sees to it, on record"), width)
    start = f"repair start {text(effect, 'effect_id')} --by NAME --reason TEXT"
    return [*lines, Line(), Line(Span(f"  counterfoil {start}{option}", "strong"))]


def plain(arguments: Mapping[str, Any]) -> Any:
    """Arguments in the form in which they would be recorded."""
    from counterfoil.core.values import to_json

    return to_json(dict(arguments), "arguments")


def corrected_lines(made: Corrected, option: str) -> list[Line]:
    """What a correction did."""
    words = (
        "was corrected like this before; nothing changed"
        if made.repeated
        else "is corrected; it stays as recorded"
    )
    return [
        Line(Span("✓ ", "good"), f"{made.corrects} {words}"),
        Line(Span(f"  counterfoil show {made.event_id}{option}", "quiet")),
    ]


def report_json(report: RepairReport) -> dict[str, Any]:
    """A repair for a program."""
    return {
        "repair_id": report.repair_id,
        "stream_id": report.stream_id,
        "subject": report.subject,
        "effect_id": report.effect_id,
        "state": report.state,
        "why": report.why,
        "waits_for": list(report.waits_for),
        "residual_impact": None
        if report.residual_impact is None
        else plain({"it": report.residual_impact})["it"],
        "repeated": report.repeated,
        "steps": [
            {
                "tool": step.tool,
                "tool_version": step.tool_version,
                "state": step.state,
                "effect_id": step.effect_id,
            }
            for step in report.steps
        ],
    }
