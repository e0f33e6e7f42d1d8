"""What stands above a timeline: whose it is, what is open in it, and what needs a person, before everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from counterfoil.cli.render.card import command_lines
from counterfoil.cli.render.cells import number, text
from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.listing import conversation_name, run_state
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, duration, moment, plural
from counterfoil.client.reading import ConversationInfo
from counterfoil.effects.state import IN_REVIEW
from counterfoil.store.rows import Row

DOUBTS_SHOWN_MAX: Final = 20


def conversation_heading(info: ConversationInfo, width: int) -> list[Line]:
    """Name, state and counts of a conversation."""
    facts = [
        f"agent {marked(info.agent)}" if info.agent else "",
        plural(info.runs, "run"),
        "head row damaged: see `counterfoil verify`"
        if info.head_sequence is None
        else plural(info.head_sequence, "event"),
        f"opened {moment(info.opened_at_ms)}" if info.opened_at_ms is not None else "",
        "imported" if info.origin == "import" else "",
        info.state if info.state != "open" else "",
    ]
    lines = [Line("Conversation ", conversation_name(info))]
    if info.title:
        lines.append(Line(Span(marked(info.title), "strong")))
    lines += [Line(Span(piece, "quiet")) for piece in wrap(" · ".join(filter(None, facts)), width)]
    if info.name is not None:
        lines.append(Line(Span(info.stream_id, "quiet")))
    if info.state == "interrupted":
        said = "A run is open and its worker is gone: running its code again resumes it."
        lines += [
            Line(Span("◌ " if number == 0 else "  ", "wait"), piece)
            for number, piece in enumerate(wrap(said, width - 2))
        ]
    return lines


def run_heading(run: Row, name: str, width: int, *, live: bool) -> list[Line]:
    """Agent, state and totals of a run."""
    started, changed = number(run, "started_at_ms"), number(run, "changed_at_ms")
    finished = run["state"] == "finished"
    agent = " ".join(filter(None, [text(run, "agent"), text(run, "agent_version")]))
    facts = [
        f"agent {marked(agent)}",
        f"started {moment(started)}",
        f"took {duration(changed - started)}" if finished else "",
        plural(number(run, "calls"), "model call") if finished else "",
        f"{count(number(run, 'input_tokens'))} in, {count(number(run, 'output_tokens'))} out"
        if finished
        else "",
        f"{text(run, 'cost')} {text(run, 'currency')}".strip(),
        f"token {number(run, 'token')}",
    ]
    lines = [Line("Run of ", Span(marked(name), "strong"), "  ", run_state(run, live=live))]
    lines += [Line(Span(piece, "quiet")) for piece in wrap(" · ".join(filter(None, facts)), width)]
    lines.append(Line(Span(text(run, "run_id"), "quiet")))
    return lines


def keys_lines(note: str, width: int) -> list[Line]:
    """That the keys are not at hand, above what then cannot be read."""
    pieces = wrap(note, width - 2) if note else []
    return [Line(Span("▒ " if number == 0 else "  ", "wait"), piece) for number, piece in enumerate(pieces)]


def doubt_lines(rows: Sequence[Row], now_ms: int, command: Callable[[str], str], width: int) -> list[Line]:
    """One amber line for each effect that needs somebody, with the command that leads out."""
    lines: list[Line] = []
    for row in rows[:DOUBTS_SHOWN_MAX]:
        in_review = row["state"] in IN_REVIEW
        length = duration(now_ms - number(row, "intended_at_ms"))
        word = "contradicted" if row["state"] == "contradicted" else "in review" if in_review else "in doubt"
        said = f"◆? {text(row, 'tool')} {word}, sent {length} ago ({number(row, 'intended_sequence')})"
        lines += [Line(Span(f" {piece} ", "doubt_bar")) for piece in wrap(said, width - 2)]
        out = f"review show {text(row, 'review_id')}" if in_review else "recover"
        lines += command_lines(command(out), width)
    if len(rows) > DOUBTS_SHOWN_MAX:
        more = f" ◆? and {plural(len(rows) - DOUBTS_SHOWN_MAX, 'more effect')} in doubt or in review "
        lines += [Line(Span(more, "doubt_bar")), Line("    ", Span(command("ls effects"), "strong"))]
    return lines
