"""Rows of model calls, tool calls and code steps: one row a step, whatever number of events tell of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from counterfoil.cli.render.building import Build
from counterfoil.cli.render.content import Content, name_of
from counterfoil.cli.render.line import Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.model import Note
from counterfoil.cli.render.run_rows import flags_of, say
from counterfoil.cli.render.times import count, plural
from counterfoil.cli.render.values import named, shown
from counterfoil.core.ids import is_id
from counterfoil.flow.event import Event

_UNKNOWN: Final = "a step without a name"


class StepBuild(Struct):
    """A step and its row."""

    row: Note
    kind: str
    run_id: str | None = None
    ended: bool = False
    attempts: int = 0
    failures: list[Span] = field(default_factory=list)


# ---- steps -----------------------------------------------------------------------------------------------------------


def _started(build: Build, event: Event) -> None:
    content = Content(event)
    step_id = event.header.step_id or event.event_id
    kind = str(event.data.get("kind", "code"))
    known = build.steps.get(step_id)
    if known is not None:
        build.reach(known.row, event)
        known.attempts += 1
        if not known.ended:
            known.row.below.append(Span("begun again: the attempt before has no end", "quiet"))
        known.ended = False
        return
    row = build.note(event, *_title(kind, event, content))
    step = build.steps[step_id] = StepBuild(row, kind, event.header.run_id, attempts=1)
    if kind != "model":
        _input(step.row, content)


def _title(kind: str, event: Event, content: Content) -> tuple[str, str]:
    name = marked(name_of(content, str(event.data.get("name", "")))) or _UNKNOWN
    return ("○", "model") if kind == "model" else ("▪", name) if kind == "tool" else ("▫", name)


def _input(row: Note, content: Content) -> None:
    if (gone := content.gone) is not None:
        row.detail.append(gone)
        return
    value = content.get("input")
    if isinstance(value, Mapping) and value.keys() == {"args", "kwargs"}:
        value = _arguments(value)
    if value is not None and value not in ({}, []):
        row.detail.append(Span(named(value)))
    row.aside += flags_of(content)


def _arguments(value: Mapping[str, Any]) -> Any:
    """A call's positional and named arguments, as they would be written."""
    args, kwargs = value["args"], value["kwargs"]
    if not kwargs:
        return args[0] if isinstance(args, list) and len(args) == 1 else args
    return kwargs if not args else {"args": args, **kwargs}


def _finished(build: Build, event: Event) -> None:
    content = Content(event)
    step_id = event.header.step_id or event.event_id
    step = build.steps.get(step_id)
    kind = str(event.data.get("kind", "code"))
    if step is None:
        row = build.note(event, *_title(kind, event, content))
        step = build.steps[step_id] = StepBuild(row, kind, event.header.run_id)
        # A result without its call says so; a step that began before the stretch shown does not.
        row.aside += flags_of(content)
    else:
        build.reach(step.row, event)
    step.ended = True
    outcome = str(event.data.get("outcome", ""))
    took = event.data.get("duration_ms")
    step.row.took_ms = took if isinstance(took, int) else None
    simulated = content.get("simulated")
    if isinstance(simulated, Mapping):
        word = "blocked, not made" if simulated.get("answer") == "blocked" else "from the record, not made"
        step.row.aside.append(Span(word, "wait"))
    _outcome(step, outcome, content)


def _outcome(step: StepBuild, outcome: str, content: Content) -> None:
    row = step.row
    if outcome == "error":
        row.outcome = Span("✗ error", "failure")
        row.below += _error(content) if step.kind != "model" else []
    elif outcome == "cancelled":
        row.outcome = Span("– cancelled", "quiet")
    elif step.kind != "model":
        row.outcome = Span("✓ ok", "good")
        row.fold = f"{row.glyph} {row.title} ok"


def _error(content: Content) -> list[Span]:
    if (gone := content.gone) is not None:
        return [gone]
    error = content.get("error")
    if isinstance(error, Mapping):
        words = f"{marked(str(error.get('class', 'error')))}: {shown(str(error.get('message', '')))}"
        return [Span(words, "failure")]
    result = content.spoken("result") or content.get("result")
    return [] if result is None else [Span(shown(result), "failure")]


# ---- model calls -----------------------------------------------------------------------------------------------------


def _requested(build: Build, event: Event) -> None:
    content = Content(event)
    step = build.steps.get(event.header.step_id or "")
    if step is None:
        row = build.note(event, "○", "model")
        step = build.steps[event.header.step_id or event.event_id] = StepBuild(
            row, "model", event.header.run_id
        )
    else:
        build.reach(step.row, event)
    model = marked(name_of(content, str(event.data.get("model", "")), "model"))
    purpose = str(event.data.get("purpose", "primary"))
    if not step.row.detail:
        step.row.detail.append(Span(model))
        if purpose != "primary":
            step.row.detail.append(Span(purpose.replace("_", " "), "quiet"))


def _brought(build: Build, event: Event) -> None:
    """What a request brings to the context tree stands in its step's row."""
    step = build.steps.get(event.header.step_id or "")
    if step is not None:
        build.reach(step.row, event)
    else:
        build.note(event, "·", "messages").detail.append(
            Span(plural(int(event.data.get("bodies", 0)), "message"), "quiet")
        )


def _responded(build: Build, event: Event) -> None:
    content = Content(event)
    step = build.steps.get(event.header.step_id or "")
    if step is None or step.kind != "model":
        _assistant(build, event)
        return
    build.reach(step.row, event)
    row = step.row
    row.detail += _usage(event.data)
    finish = event.data.get("finish")
    if finish not in ("stop", "tools"):
        row.detail.append(Span(f"ended by {finish}"))
    row.text = content.spoken("body", "message")
    if content.gone is not None:
        say(row.detail, content, ("body",))
    row.quote = shown(row.text)
    step.ended = True


def _assistant(build: Build, event: Event) -> None:
    """A response of an imported transcript: it has no step, for its request is not in the file."""
    content = Content(event)
    row = build.note(event, "◁", "assistant")
    row.text = content.spoken("message")
    if row.text or content.gone is not None:
        say(row.detail, content, ("message",))
    else:
        row.detail.append(Span("no text", "quiet"))
    model = content.text("model")
    row.aside += [Span(marked(model), "quiet")] if model else []
    row.aside += [Span(span.text, "quiet") for span in _usage(event.data)]
    row.aside += [flag for flag in flags_of(content) if "usage missing" not in flag.text]


def _usage(data: Mapping[str, Any]) -> list[Span]:
    tokens = f"{count(int(data.get('input_tokens', 0)))} in, {count(int(data.get('output_tokens', 0)))} out"
    found = [Span(tokens)] if data.get("input_tokens") or data.get("output_tokens") else []
    if "cost" in data:
        found.append(Span(f"{data['cost']} {data.get('currency', '')}".rstrip()))
    return found


def _failed(build: Build, event: Event) -> None:
    content = Content(event)
    step = build.steps.get(event.header.step_id or "")
    row = step.row if step is not None else build.note(event, "○", "model")
    if step is not None:
        build.reach(row, event)
    status = f" {event.data['status']}" if "status" in event.data else ""
    message = content.text("message")
    said = f": {shown(message)}" if message else ""
    number = event.header.attempt or 1
    row.below.append(
        Span(f"✗ attempt {number} {marked(str(event.data.get('error_class')))}{status}{said}", "failure")
    )


# ---- records of a transcript -----------------------------------------------------------------------------------------


def _imported(build: Build, event: Event) -> None:
    content = Content(event)
    kind = str(event.data.get("kind", ""))
    if kind == "response_part":
        text = content.spoken("message")
        if text or content.gone is not None:
            # A later line that holds only calls says nothing: the calls have rows of their own.
            row = build.note(event, "◁", "assistant")
            row.text = text
            say(row.detail, content, ("message",))
        return
    row = build.note(event, "·", "record")
    name = marked(name_of(content, kind)).replace("_", " ")
    odd = kind in ("unknown", "malformed")
    row.detail = [
        Span(f"{name}, kept as found" if odd else name, "plain" if odd else "quiet"),
        *flags_of(content),
    ]
    if (gone := content.gone) is not None:
        row.detail.append(gone)
    for member in ("child", "parent"):
        other = content.get(member)
        if isinstance(other, Mapping) and is_id(other.get("stream_id"), "str"):
            row.detail.append(Span(f"{member} {other['stream_id']}", "quiet"))
    row.fold = f"record {kind}"


def finish(build: Build) -> None:
    """What the end of the record says about steps that never ended."""
    for step in build.steps.values():
        if step.ended or step.row.outcome is not None:
            continue
        if step.run_id is None:
            step.row.outcome = Span("no result recorded", "quiet")
        elif step.run_id in build.ended:
            step.row.outcome = Span("did not end", "quiet")
        else:
            step.row.outcome = Span("… no end recorded yet", "quiet")


HANDLERS: Final[Mapping[str, Callable[[Build, Event], None]]] = {
    "step.started": _started,
    "step.finished": _finished,
    "provider.message_recorded": _brought,
    "provider.requested": _requested,
    "provider.responded": _responded,
    "provider.failed": _failed,
    "record.imported": _imported,
}
