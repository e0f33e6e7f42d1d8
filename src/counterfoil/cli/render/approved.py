"""Approvals for people: the queue, what one asks exactly, who answered, and what an answer did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from counterfoil.approvals.answer import Answered
from counterfoil.cli.render.cells import number, text
from counterfoil.cli.render.content import Content
from counterfoil.cli.render.line import Line, Span, Style, wrap_spans
from counterfoil.cli.render.listing import conversation_name
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import duration, moment, plural
from counterfoil.cli.render.values import shown
from counterfoil.client.approving import state_now
from counterfoil.client.reading import ConversationInfo
from counterfoil.flow.event import Event
from counterfoil.store.rows import Row

_STATES: Final[Mapping[str, tuple[str, Style]]] = {
    "pending": ("◆? pending", "doubt_bar"),
    "granted": ("✓ granted, not used yet", "good"),
    "consumed": ("✓ used", "good"),
    "denied": ("⊘ denied", "failure"),
    "revoked": ("⊘ taken back", "failure"),
    "expired": ("– expired", "quiet"),
}

_ANSWERS: Final[Mapping[str, str]] = {
    "approval.granted": "✓ granted",
    "approval.denied": "⊘ denied",
    "approval.revoked": "⊘ taken back",
    "approval.expired": "– expired",
    "approval.consumed": "✓ used by the effect",
    "approval.mismatched": "⊘ another call came, and was refused",
}


class Asked(Struct, frozen=True):
    """An approval with everything that its page says."""

    row: Row
    request: Event
    ruling: Event | None
    story: Sequence[Event]


def empty_lines(state: str, option: str) -> list[Line]:
    """An empty queue."""
    words = "no approvals" if state == "all" else f"no {state} approvals"
    return [
        Line(Span("· ", "quiet"), f"{words}: a policy that asks, and a call that it asks about, make one"),
        Line(Span(f"  counterfoil approve ls --state all{option}", "quiet")),
    ]


def approval_lines(rows: Sequence[Row], width: int, now_ms: int) -> list[Line]:
    """One line for each approval, the oldest first."""
    columns = (
        Column("approval"),
        Column("tool", shrinks=True, least=12),
        Column("state"),
        Column("waits", "right", yields=1),
        Column("due (UTC)", yields=3),
        Column("run", yields=4),
    )
    return table(columns, [_line(row, now_ms) for row in rows], width)


def _line(row: Row, now_ms: int) -> list[Line]:
    due = row["due_at_ms"]
    is_pending = state_now(row, now_ms) == "pending"
    overdue = is_pending and isinstance(due, int) and due < now_ms
    return [
        Line(text(row, "approval_id")),
        Line(marked(text(row, "tool") or "?")),
        Line(state_span(row, now_ms)),
        Line(duration(now_ms - number(row, "requested_at_ms"))) if is_pending else Line(),
        Line(Span(moment(due).removesuffix("Z"), "doubt" if overdue else "plain"))
        if isinstance(due, int)
        else Line(),
        Line(text(row, "run_id")),
    ]


def state_span(row: Row, now_ms: int) -> Span:
    """The state in a word with its glyph; where several people have to agree, how many are missing."""
    state = state_now(row, now_ms)
    words, style = _STATES[state]
    if state == "pending" and number(row, "needed") > 1:
        words = f"{words}, {number(row, 'missing')} of {number(row, 'needed')} missing"
    return Span(f" {words} " if style == "doubt_bar" else words, style)


def approval_page(asked: Asked, info: ConversationInfo, now_ms: int, width: int, option: str) -> list[Line]:
    """All that is known of one approval: what is asked exactly, why, of whom, and what was answered."""
    row = asked.row
    # Whoever permits a call sees what it is called with, also where that moved out of the event.
    content = Content(asked.request, whole=True)
    approval_id = text(row, "approval_id")
    lines = [
        Line("Approval ", Span(approval_id, "strong"), "  ", state_span(row, now_ms)),
        Line(f"{marked(text(row, 'tool'))} {marked(text(row, 'tool_version'))} in ", conversation_name(info)),
        Line(),
    ]
    facts = [*_question(content), *_why(asked.ruling), *_terms(row, content, now_ms)]
    for name, span in facts:
        lines += _fact(name, span, width)
    if asked.story:
        lines.append(Line())
        lines += [line for event in asked.story for line in _told(event, width)]
    lines.append(Line())
    if state_now(row, now_ms) == "pending":
        lines.append(Line(Span(f"  counterfoil approve grant {approval_id} --by NAME{option}", "strong")))
        lines.append(Line(Span(f"  counterfoil approve deny {approval_id} --by NAME{option}", "strong")))
    lines.append(Line(Span(f"  the run: counterfoil show {text(row, 'run_id')}{option}", "quiet")))
    return lines


def _question(content: Content) -> Iterable[tuple[str, Span]]:
    if (gone := content.gone) is not None:
        yield "asks", gone
        return
    if (question := content.span("question", style="strong")) is not None:
        yield "asks", question
    arguments = content.get("arguments")
    if isinstance(arguments, Mapping):
        members = arguments.get("$literal", arguments)
        for name, value in members.items():
            yield marked(str(name)), Span(shown(value))


def _why(ruling: Event | None) -> Iterable[tuple[str, Span]]:
    if ruling is None:
        return
    data = ruling.data
    rules = ", ".join(map(str, data["rules"]))
    yield "because of", Span(f"{data['policy']} {data['revision']}{': ' + rules if rules else ''}")
    reasons = (ruling.content_or_none() or {}).get("reasons")
    if isinstance(reasons, list):
        for reason in reasons:
            yield "reason", Span(shown(reason))


def _terms(row: Row, content: Content, now_ms: int) -> Iterable[tuple[str, Span]]:
    needed = number(row, "needed")
    names = [shown(person.get("name", "?")) for person in content.get("assignees") or ()]
    if names:
        yield "waits for", Span(", ".join(names))
    if needed > 1:
        yield "needs", Span(f"{plural(needed, 'person', 'people')}, {number(row, 'missing')} missing")
    yield (
        "holds for",
        Span("this effect, once" if row["scope"] == "once" else "this run, with these arguments"),
    )
    for column, word in (("due_at_ms", "due"), ("expires_at_ms", "expires")):
        time_ms = row[column]
        if isinstance(time_ms, int):
            open_ = state_now(row, now_ms) in ("pending", "granted")
            late = open_ and time_ms < now_ms
            yield word, Span(moment(time_ms), "doubt" if late else "plain")
    yield "asked", Span(moment(number(row, "requested_at_ms")))


def _fact(name: str, span: Span, width: int) -> list[Line]:
    room = max(width - 14, 20)
    return [
        Line(Span(f"  {name if place == 0 else '':<12}", "quiet"), line)
        for place, line in enumerate(wrap_spans([span], room))
    ]


def _told(event: Event, width: int) -> list[Line]:
    content = Content(event)
    by = content.get("by")
    name = by.get("name") if isinstance(by, Mapping) else None
    who = f" by {shown(name)}" if isinstance(name, str) else ""
    words = [Span(f"{_ANSWERS.get(event.type, event.type)}{who}")]
    if (comment := content.span("comment")) is not None and event.type in _ANSWERS:
        words += [Span(": "), comment]
    return _fact(moment(event.recorded_at_ms)[5:16], Span("".join(span.text for span in words)), width)


def answered_lines(answered: Answered, option: str) -> list[Line]:
    """What an answer did, and what goes on from there."""
    if answered.repeated:
        words = "was answered like this before; nothing changed"
    elif answered.answer == "granted" and answered.state != "granted":
        words = "granted; more people have to agree"
    else:
        words = {"granted": "granted", "denied": "denied", "revoked": "taken back"}[answered.answer]
    lines = [Line(Span("✓ ", "good"), f"{answered.approval_id} {words}")]
    if not answered.repeated:
        lines.append(Line("  The run that waits goes on when its code is run again."))
    lines.append(Line(Span(f"  counterfoil show {answered.run_id}{option}", "quiet")))
    return lines


def asked_json(asked: Asked, row: Mapping[str, Any]) -> dict[str, Any]:
    """One approval for a program, with what people were shown and who answered."""
    content = asked.request.content_or_none()
    return {
        "approval": dict(row),
        "content_state": asked.request.content_state,
        "request": None if content is None else dict(content),
        "ruling": None if asked.ruling is None else dict(asked.ruling.data),
        "answers": [
            {"event_type": event.type, "sequence": event.sequence, "content": event.content_or_none()}
            for event in asked.story
        ],
    }
