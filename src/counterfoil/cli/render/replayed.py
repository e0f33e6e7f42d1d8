"""A replay for people: the same, or the first difference with both sides."""

from __future__ import annotations

from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.replay.recorded import RunReplay, Side

_SHOWN_DIGITS = 12


def replay_lines(done: RunReplay, width: int) -> list[Line]:
    """What a replay came to."""
    if done.same:
        said = f"{marked(done.run_id)} behaves as recorded: {done.asked} asked for, and the same end"
        return [Line(Span(part, "good")) for part in wrap(said, width)]
    where = "at its end" if done.at is None else f"at {done.at + 1}"
    said = f"{marked(done.run_id)} differs {where}: {marked(done.difference)}"
    return [
        *(Line(Span(part, "failure")) for part in wrap(said, width)),
        *(Line(part) for part in wrap(f"  recorded  {_side(done.recorded)}", width)),
        *(Line(part) for part in wrap(f"  replayed  {_side(done.replayed)}", width)),
    ]


def _side(side: Side | None) -> str:
    if side is None:
        return "nothing more"
    digest = "" if side.digest is None else f" · {side.digest[:_SHOWN_DIGITS]}"
    return f"{side.kind} {marked(side.name)}{digest}"
