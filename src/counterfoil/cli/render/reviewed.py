"""A review for people: whose it is, how long it waits and why; and what became of it."""

from __future__ import annotations

from counterfoil.cli.render.cells import number, text
from counterfoil.cli.render.doubts import CAUSES
from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.listing import conversation_name
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import duration, moment
from counterfoil.client.reading import ConversationInfo
from counterfoil.effects.assigning import Assigned
from counterfoil.effects.settle import Settled
from counterfoil.store.rows import Row


def review_heading(row: Row, effect: Row, info: ConversationInfo, now_ms: int, width: int) -> list[Line]:
    """What stands above the pair."""
    opened = number(row, "opened_at_ms")
    is_open = row["state"] == "open"
    if is_open:
        word = Span(f" ◆? open for {duration(now_ms - opened)} ", "doubt_bar")
    else:
        settled = number(row, "settled_at_ms")
        word = Span(f"✎ settled as {text(row, 'outcome')} after {duration(settled - opened)}")
    lines = [
        Line("Review ", Span(text(row, "review_id"), "strong"), "  ", word),
        Line(f"{text(effect, 'tool')} {text(effect, 'tool_version')} in ", conversation_name(info)),
    ]
    cause = CAUSES.get(text(row, "cause"), text(row, "cause"))
    lines += [Line(piece) for piece in wrap(f"A person was asked {moment(opened)}: {cause}.", width)]
    due = row["due_at_ms"]
    if is_open and isinstance(due, int):
        late = f", {duration(now_ms - due)} ago" if due < now_ms else ""
        lines.append(Line(Span(f"It is due {moment(due)}{late}.", "doubt_bar" if late else "plain")))
    return [*lines, Line()]


def settled_lines(settled: Settled, effect: Row, option: str) -> list[Line]:
    """What a settlement did, and what goes on from there."""
    again = (
        "was settled like this before: the name and the reason given then stand, yours were not recorded"
        if settled.repeated
        else f"settled as {settled.outcome}"
    )
    lines = [Line(Span("✓ ", "good"), f"{settled.review_id} {again}")]
    if not settled.repeated:
        if settled.without_content:
            lines.append(
                Line(
                    "  The conversation's key is missing: outcome and person are recorded, the reason is not."
                )
            )
        lines.append(Line("  It is never sent again. The run that waits goes on when its code is run again."))
    lines.append(
        Line(Span(f"  counterfoil show {text(effect, 'run_id') or settled.stream_id}{option}", "quiet"))
    )
    return lines


def assigned_lines(assigned: Assigned, option: str) -> list[Line]:
    """Whom a review was given to."""
    due = "" if assigned.due_at_ms is None else f", due {moment(assigned.due_at_ms)}"
    return [
        Line(Span("✓ ", "good"), f"{assigned.review_id} given to {marked(assigned.assignee)}{due}"),
        Line(Span(f"  counterfoil review show {assigned.review_id}{option}", "quiet")),
    ]
