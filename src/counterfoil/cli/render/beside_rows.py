"""Rows of what a run does beside its calls: children, schedules, slots, drafts, sandboxes, budgets, checks, turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from counterfoil.cli.render.building import Build
from counterfoil.cli.render.content import Content, name_of
from counterfoil.cli.render.line import Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, duration, moment, plural
from counterfoil.cli.render.values import named, shown
from counterfoil.core.forms import time_ms
from counterfoil.flow.event import Event

LATE_MS: Final = 60_000
"""From this delay on a schedule that fired late stands out."""

_GOOD: Final = frozenset({"allow", "allowed", "clean", "ok", "pass", "passed"})
_BAD: Final = frozenset(
    {"block", "blocked", "denied", "deny", "error", "fail", "failed", "refused", "rejected"}
)
_UNITS: Final[Mapping[str, str]] = {"tokens": "tokens", "calls": "provider calls", "wall": "s of work"}


def when(value: object) -> str:
    """A time of a header for people."""
    return moment(time_ms(str(value)))


def present(*spans: Span | None) -> list[Span]:
    """Those that are there; the word for content that is gone stands once."""
    return list(dict.fromkeys(span for span in spans if span is not None and span.text))


# ---- children --------------------------------------------------------------------------------------------------------


def _child_started(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    agent = content.text("agent") or "agent unknown"
    build.children[str(data["child_stream_id"])] = agent
    note = build.note(event, "↳", "child begun")
    note.detail = present(Span(marked(agent), "strong"), content.span("input"))
    note.aside = [Span(str(data["child_run_id"]), "quiet"), Span(f"depth {data['depth']}", "quiet")]


_SETTLED: Final[Mapping[str, tuple[str, str, Style]]] = {
    "finished": ("✓", "finished", "good"),
    "stopped": ("×", "stopped", "wait"),
    "lost": ("?", "lost: it cannot be reached, and what it did is not known here", "failure"),
    "left": ("–", "left running, nobody waits for it", "wait"),
}


def _child_settled(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    stream_id = str(data["child_stream_id"])
    glyph, words, style = _SETTLED[data["state"]]
    result = content.get("result")
    told = result if isinstance(result, Mapping) else {}
    terminal = told.get("terminal")
    if data["state"] == "finished" and terminal not in (None, "success"):
        glyph, words, style = "✗", f"ended as {marked(str(terminal))}", "failure"
    note = build.note(event, "↲", "child ended", style="failure" if style == "failure" else "plain")
    note.detail = [Span(marked(build.children.get(stream_id, stream_id)), "strong")]
    if "parent_terminal" in data:
        note.detail.append(Span(f"its parent ended as {marked(str(data['parent_terminal']))}", "wait"))
    if (gone := content.gone) is not None:
        note.detail.append(gone)
    elif told.get("output") is not None:
        note.detail.append(Span(named(told["output"]), "quiet"))
    note.outcome = Span(f"{glyph} {words}", style)
    error = told.get("error")
    if isinstance(error, Mapping):
        said = f"{marked(str(error.get('class', 'error')))}: {shown(str(error.get('message', '')))}"
        note.below = [Span(said, "failure")]


# ---- schedules -------------------------------------------------------------------------------------------------------


def _scheduled(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    note = build.note(event, "◷", "scheduled")
    rhythm = {"once": "once", "every": "again and again", "calendar": "by the calendar"}[data["kind"]]
    if "period_ms" in data:
        rhythm = f"every {duration(data['period_ms'])}"
    zone = content.text("zone")
    note.detail = present(
        Span(f"{rhythm}, first at {when(data['due_at'])}"),
        content.span("expression"),
        Span(marked(zone), "quiet") if zone else None,
        content.span("payload", style="quiet"),
    )
    note.aside = [Span(str(data["schedule_id"]), "quiet")]


def _fired(build: Build, event: Event) -> None:
    data = event.data
    late = data.get("late_ms", 0)
    note = build.note(event, "◷", "time came")
    note.detail = [Span(f"due at {when(data['due_at'])}")]
    if late:
        note.detail.append(Span(f"{duration(late)} late", "wait" if late >= LATE_MS else "quiet"))
    following = f"next at {when(data['next_due_at'])}" if "next_due_at" in data else "no other time follows"
    note.detail.append(Span(following, "quiet"))
    note.aside = [Span(str(data["schedule_id"]), "quiet")]


def _unscheduled(build: Build, event: Event) -> None:
    data = event.data
    note = build.note(event, "×", "unscheduled", style="wait")
    note.detail = [Span(f"cancelled: what was due at {when(data['due_at'])} is not carried out", "wait")]
    note.aside = [Span(str(data["schedule_id"]), "quiet")]


# ---- notes -----------------------------------------------------------------------------------------------------------


def _slot(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    name = marked(name_of(content, str(data["slot"])))
    cleared = event.type == "state.cleared"
    note = build.note(event, "▱" if cleared else "▰", f"slot {name}")
    value = Span("holds nothing any more") if cleared else content.span("value")
    note.detail = present(value, Span(f"version {data['version']}", "quiet"))
    note.fold = f"{event.type} {name}"


def _draft(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    note = build.note(event, "✎", "draft kept")
    size = content.get("size")
    note.detail = present(
        content.span("name", style="strong"),
        Span(f"{plural(size, 'byte')} so far" if type(size) is int else ""),
        Span(plural(data["chunks"], "chunk"), "quiet"),
    )
    note.fold = event.type


def _probed(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    note = build.note(event, "▣", "sandbox")
    can = ", ".join(marked(name) for name in data["capabilities"]) or "nothing"
    note.detail = present(
        Span(marked(name_of(content, str(data["sandbox"]))), "strong"),
        Span(f"can: {can}"),
        content.span("output", style="quiet"),
    )
    note.outcome = Span("✓ works", "good") if data["ok"] else Span("✗ does not work", "failure")


def _budget(build: Build, event: Event) -> None:
    data = event.data
    unit = _UNITS.get(data["budget"]) or marked(str(data.get("currency", "")))
    limit = f"{marked(str(data['limit']))} {unit}".rstrip()
    if event.type == "budget.set":
        note = build.note(event, "▽", "budget")
        note.detail = [Span(f"at most {limit}")]
        return
    note = build.note(event, "✗", "budget spent", style="failure")
    spent = marked(str(data["spent"])) if "spent" in data else "spent in currencies that have no sum:"
    note.detail = [Span(f"{spent} of {limit}, the run is stopped", "failure")]


def _checkpoint(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    what = f"{marked(str(data['projection']))} version {data['version']} up to event {count(data['up_to_sequence'])}"
    if event.type == "checkpoint.created":
        note = build.note(event, "▤", "checkpoint")
        note.detail = [Span(what)]
        note.fold = f"{event.type} {data['projection']}"
        return
    note = build.note(event, "✗", "checkpoint", style="failure")
    cause = {
        "damaged": "its bytes are damaged",
        "unsupported": "its form is not known",
        "ahead": "it claims more than there is",
        "migration": "it is of an older version",
    }[data["cause"]]
    note.detail = present(
        Span(f"not used, {cause}", "failure"), Span(what), content.span("detail", style="quiet")
    )


# ---- turns -----------------------------------------------------------------------------------------------------------


def _checked(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    outcome, found = str(data["outcome"]), data.get("found")
    note = build.note(event, "◇", "guard" if data["stage"] == "guard" else "check")
    side = {"inbound": "what came in", "outbound": "what goes out", "model": "the model"}.get(
        data.get("side", "")
    )
    note.detail = present(
        Span(marked(name_of(content, str(data["check"]))), "strong"),
        Span(f"of {side}" if side else ""),
        Span(f"{count(found)} found" if type(found) is int else ""),
        content.span("reason"),
    )
    glyph, style = _verdict(outcome)
    note.outcome = Span(f"{glyph} {marked(outcome)}", style)


def _verdict(outcome: str) -> tuple[str, Style]:
    """Outcomes of guards are the application's own words: those that are known for neither are not called good."""
    if outcome in _GOOD:
        return "✓", "good"
    return ("✗", "failure") if outcome in _BAD else ("!", "strong")


_STATUS: Final[Mapping[str, tuple[str, Style]]] = {
    "completed": ("✓", "good"),
    "error": ("✗", "failure"),
    "cancelled": ("–", "wait"),
    "refused": ("⊘", "failure"),
}


def _turn(build: Build, event: Event) -> None:
    data: Mapping[str, Any] = event.data
    note = build.note(event, "▪", "turn")
    note.detail = [
        Span(f"of {marked(str(data['agent']))}, {plural(data['events'], 'event')}"),
        Span(str(data["turn_id"]), "quiet"),
    ]
    if event.type == "turn.abandoned":
        note.outcome = Span("✗ abandoned, nobody is at it any more", "failure")
        return
    glyph, style = _STATUS[data["status"]]
    note.outcome = Span(f"{glyph} {data['status']}", style)


HANDLERS: Final[Mapping[str, Callable[[Build, Event], None]]] = {
    "child.started": _child_started,
    "child.settled": _child_settled,
    "schedule.created": _scheduled,
    "schedule.fired": _fired,
    "schedule.cancelled": _unscheduled,
    "state.set": _slot,
    "state.cleared": _slot,
    "draft.checkpointed": _draft,
    "sandbox.probed": _probed,
    "budget.set": _budget,
    "budget.exceeded": _budget,
    "checkpoint.created": _checkpoint,
    "checkpoint.rejected": _checkpoint,
    "turn.checked": _checked,
    "turn.committed": _turn,
    "turn.abandoned": _turn,
}
