"""Rows of conversations, inputs, runs and imports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from counterfoil.cli.render.building import Build
from counterfoil.cli.render.content import Content, name_of
from counterfoil.cli.render.line import Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, duration, plural
from counterfoil.cli.render.values import named, shown
from counterfoil.flow.event import Event

_GOOD: Final = frozenset({"success", "absorbed", "superseded"})


def _conversation_opened(build: Build, event: Event) -> None:
    content = Content(event)
    note = build.note(event, "⚑", "conversation")
    name = content.span("name", style="strong")
    origin = event.data.get("origin")
    agent = name_of(content, str(event.data.get("agent", "")), "agent")
    note.detail = [
        *([name] if name is not None else []),
        Span(f"agent {marked(agent)}"),
        *([Span("imported")] if origin == "import" else []),
        *([Span("child of another conversation")] if origin == "child" else []),
    ]


def _conversation_closed(build: Build, event: Event) -> None:
    content = Content(event)
    note = build.note(event, "⚑", "closed")
    note.detail = [Span(str(event.data.get("cause", ""))), *_present(content.span("note", style="quiet"))]


# ---- inputs ----------------------------------------------------------------------------------------------------------


def _accepted(build: Build, event: Event) -> None:
    content = Content(event)
    title = "user" if event.header.actor.get("type") == "user" else "input"
    note = build.note(event, "▷", title, style="strong")
    _say(note_detail=note.detail, content=content, names=("message",))
    note.text = content.spoken("message")
    note.aside += _flags(content)


def _admission(build: Build, event: Event) -> None:
    content = Content(event)
    what = event.type.partition(".")[2]
    refused = what == "rejected"
    note = build.note(
        event, "⊘" if refused else "▷", f"input {what}", style="failure" if refused else "plain"
    )
    cause = str(event.data.get("cause", "")).replace("_", " ")
    note.detail = [Span(f"because of {cause}" if cause else "", "failure" if refused else "plain")]
    if (run := event.data.get("run_id")) is not None:
        note.detail.append(Span(str(run), "quiet"))
    note.detail += _present(content.span("message", style="quiet"))


# ---- runs ------------------------------------------------------------------------------------------------------------


def _started(build: Build, event: Event) -> None:
    content = Content(event)
    data = event.data
    original = data.get("rehearsal_of")
    word = "run started" if original is None else "rehearsal"
    note = build.note(event, "●", word, style="strong")
    note.boundary = True
    if original is not None:
        note.aside.append(Span(f"of {original}: no effect is made", "wait"))
    version = f" {data['agent_version']}" if "agent_version" in data else ""
    note.detail = [
        Span(marked(f"{data.get('agent', '')}{version}")),
        Span(f"token {data.get('fencing_token')}"),
    ]
    note.aside += _worker(content.get("worker"))
    if event.header.run_id is not None:
        build.tokens[event.header.run_id] = int(data.get("fencing_token", 0))
        note.aside.append(Span(event.header.run_id, "quiet"))


_CLAIMS: Final[Mapping[str, str]] = {
    "takeover": "taken over",
    "recovery": "recovery",
    "resume": "claimed again",
}


def _claimed(build: Build, event: Event) -> None:
    content = Content(event)
    data = event.data
    cause = str(data.get("cause", ""))
    note = build.note(
        event, "⇄", _CLAIMS.get(cause, "claimed"), style="strong" if cause == "takeover" else "plain"
    )
    note.detail = [Span(f"token {data.get('previous_token')} → {data.get('fencing_token')}", "strong")]
    if cause in ("takeover", "recovery"):
        note.detail.append(Span("the worker before is silent, and fenced off from here on"))
    note.aside += _worker(content.values)
    if event.header.run_id is not None:
        build.tokens[event.header.run_id] = int(data.get("fencing_token", 0))


def _suspended(build: Build, event: Event) -> None:
    content = Content(event)
    cause = str(event.data.get("cause", ""))
    note = build.note(event, "‖", "suspended", style="wait")
    waits = [str(name) for name in event.data.get("waits_for") or ()]
    note.detail = [Span(f"waits for {_waits(cause)}", "wait"), *(Span(name, "quiet") for name in waits)]
    note.aside += _present(content.span("note", style="quiet"))
    build.waiting = f"waited for {_waits(cause)}"
    if event.header.run_id is not None:
        build.suspended[event.header.run_id] = build.time(event)


def _cancelled(build: Build, event: Event) -> None:
    content = Content(event)
    by = content.get("by")
    name = by.get("name") if isinstance(by, Mapping) else None
    note = build.note(event, "■", "cancelled", style="wait")
    note.detail = [Span(f"by {shown(name)}" if name else "by a person", "wait")]
    note.aside += _present(content.span("reason", style="quiet"))


def _waits(cause: str) -> str:
    return {
        "review": "a person to settle a review",
        "effect": "the outcome of an effect",
        "approval": "an approval",
        "schedule": "its time",
        "child": "a child run",
        "input": "its input to be given again",
    }.get(cause, marked(cause))


def _resumed(build: Build, event: Event) -> None:
    content = Content(event)
    note = build.note(event, "●", "resumed")
    since = build.suspended.pop(event.header.run_id or "", None)
    if since is not None:
        note.detail.append(Span(f"after {duration(build.time(event) - since)}", "wait"))
    note.detail += _present(content.span("note", style="quiet"))


def _finished(build: Build, event: Event) -> None:
    content = Content(event)
    data = event.data
    terminal = str(data.get("terminal", ""))
    good = terminal in _GOOD
    note = build.note(event, "■", "run finished", style="strong")
    note.boundary = True
    style: Style = "good" if terminal == "success" else "plain" if good else "failure"
    glyph = "✓" if terminal == "success" else "–" if good else "✗"
    note.detail = [Span(f"{glyph} {marked(terminal)}", style), *_tally(data)]
    note.below = _error(content, "failure")
    if (output := content.get("output")) is not None:
        note.detail.append(Span(named(output), "quiet"))
    if event.header.run_id is not None:
        build.ended.add(event.header.run_id)


def _tally(data: Mapping[str, Any]) -> list[Span]:
    found = [Span(plural(int(data.get("calls", 0)), "model call"))]
    if data.get("input_tokens") or data.get("output_tokens"):
        found.append(Span(f"{count(int(data['input_tokens']))} in, {count(int(data['output_tokens']))} out"))
    if "cost" in data:
        found.append(Span(f"{data['cost']} {data.get('currency', '')}".rstrip()))
    return found


def _error(content: Content, style: Style) -> list[Span]:
    error = content.get("error")
    if not isinstance(error, Mapping):
        return []
    return [
        Span(f"{marked(str(error.get('class', 'error')))}: {shown(str(error.get('message', '')))}", style)
    ]


# ---- imports ---------------------------------------------------------------------------------------------------------


def _transcript(build: Build, event: Event) -> None:
    content = Content(event)
    data = event.data
    note = build.note(event, "⇣", "imported")
    note.detail = [Span(f"{data.get('format')}, {plural(int(data.get('records', 0)), 'record')}")]
    if data.get("refused"):
        note.detail.append(Span(f"{count(int(data['refused']))} refused", "failure"))
    note.aside += _present(content.span("path", style="quiet"))


def _refused(build: Build, event: Event) -> None:
    content = Content(event)
    data = event.data
    note = build.note(event, "✗", "line refused", style="failure")
    note.detail = [
        Span(f"line {data.get('line')}, byte {data.get('offset')}: {data.get('cause')}", "failure"),
        *_present(content.span("note", style="quiet")),
        *_present(content.span("bytes", style="quiet")),
    ]


def _compaction(build: Build, event: Event) -> None:
    content = Content(event)
    data = event.data
    note = build.note(event, "⤓", "compaction")
    first, last = int(data.get("from_sequence", 0)), int(data.get("to_sequence", 0))
    covered = (
        f"events {count(first)} to {count(last)} became one summary" if last >= first else "nothing before it"
    )
    note.detail = [Span(covered), *_flags(content), *_present(content.span("summary", style="quiet"))]


# ---- small things ----------------------------------------------------------------------------------------------------


def _worker(value: Any) -> list[Span]:
    if not isinstance(value, Mapping) or "host" not in value:
        return []
    return [Span(f"worker {marked(str(value['host']))}:{marked(str(value.get('process', '?')))}", "quiet")]


def _say(note_detail: list[Span], content: Content, names: tuple[str, ...]) -> None:
    if (gone := content.gone) is not None:
        note_detail.append(gone)
        return
    text = content.spoken(*names)
    if text:
        note_detail.append(Span(shown(text)))
        return
    value = next((found for name in names if (found := content.get(name)) is not None), None)
    note_detail.append(Span("no message recorded", "quiet") if value is None else Span(shown(value)))


say = _say


def _flags(content: Content) -> list[Span]:
    flags = content.get("flags")
    if not isinstance(flags, list):
        return []
    return [Span(f"[{marked(str(flag)).replace('_', ' ')}]", "quiet") for flag in flags]


flags_of = _flags


def _present(span: Span | None) -> list[Span]:
    return [] if span is None else [span]


HANDLERS: Final[Mapping[str, Callable[[Build, Event], None]]] = {
    "conversation.opened": _conversation_opened,
    "conversation.closed": _conversation_closed,
    "admission.accepted": _accepted,
    "admission.deferred": _admission,
    "admission.released": _admission,
    "admission.absorbed": _admission,
    "admission.superseded": _admission,
    "admission.rejected": _admission,
    "run.started": _started,
    "run.claimed": _claimed,
    "run.suspended": _suspended,
    "run.resumed": _resumed,
    "run.cancel_requested": _cancelled,
    "run.finished": _finished,
    "transcript.imported": _transcript,
    "record.refused": _refused,
    "compaction.recorded": _compaction,
}
