"""What a lever does and holds, what became of a cancelled run, and what a policy in shadow said, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from counterfoil.cli.render.line import Line, Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import count, duration, moment, plural
from counterfoil.client.shadowing import ShadowLine
from counterfoil.client.stopping import HeldLever
from counterfoil.effects.holding import LeverMoved
from counterfoil.runtime.cancel import Cancelled
from counterfoil.store.rows import Row


def lever_lines(moved: Sequence[LeverMoved], under_way: Sequence[Row], option: str) -> Iterator[Line]:
    """What was moved, and what no lever stops because it had begun."""
    for lever in moved:
        what = f"tool {marked(lever.tool)}" if lever.scope == "tool" else f"tenant {marked(lever.tenant)}"
        already = " already" if lever.repeated else ""
        if lever.state == "held":
            yield Line(
                Span("■ ", "failure"), Span(what, "strong"), f" is held{already}: no new effect begins"
            )
        else:
            yield Line(
                Span("✓ ", "good"), Span(what, "strong"), f" is not held{' anyway' if already else ''}"
            )
    if under_way:
        yield Line(
            f"  {plural(len(under_way), 'effect')} under way or in doubt: ",
            Span(f"counterfoil ls effects{option}", "quiet"),
        )


def held_lines(held: Sequence[HeldLever], width: int, now_ms: int) -> list[Line]:
    """One line for each lever that is held."""
    if not held:
        return [Line(Span("✓ ", "good"), "nothing is held")]
    columns = (
        Column("held", shrinks=True),
        Column("since (UTC)", yields=2),
        Column("for", yields=3),
        Column("by", shrinks=True),
        Column("reason", shrinks=True, yields=1, least=16),
    )
    return table(columns, [_held(lever, now_ms) for lever in held], width)


def _held(lever: HeldLever, now_ms: int) -> list[Line]:
    what = {"tenant": "the whole tenant", "all": "the whole ledger"}.get(
        lever.scope, marked(lever.tool or "")
    )
    gone = Line(Span("not readable", "quiet"))
    return [
        Line(Span("■ ", "failure"), what),
        Line(moment(lever.since_ms).removesuffix("Z")),
        Line(duration(max(0, now_ms - lever.since_ms))),
        gone if lever.by is None else Line(marked(lever.by)),
        gone if lever.reason is None else Line(marked(lever.reason)),
    ]


def cancelled_lines(done: Cancelled, doubt: Sequence[Row], option: str) -> Iterator[Line]:
    """What became of the run, and which of its effects are still open."""
    already = " already" if done.repeated else ""
    if done.done == "ended":
        yield Line(Span("✓ ", "good"), Span(done.run_id, "strong"), f" is cancelled{already}")
    else:
        yield Line(
            Span("… ", "wait"),
            Span(done.run_id, "strong"),
            f" is asked{already} to end, and does at its next call",
        )
    if doubt:
        yield Line(
            f"  {plural(len(doubt), 'effect')} of it under way, in doubt or in review: ",
            Span(f"counterfoil recover {done.run_id}{option}", "quiet"),
        )


_WOULD: Final[Mapping[str, tuple[str, Style]]] = {
    "deny": ("would be denied", "failure"),
    "ask": ("would be put to people", "wait"),
    "constrain": ("would be changed", "strong"),
    "allow": ("would be allowed", "good"),
}


def shadow_line_table(lines: Sequence[ShadowLine], width: int) -> list[Line]:
    """One line for what was judged alike, the worst first; then how much of it all that was."""
    if not lines:
        return [Line(Span("· ", "quiet"), "no call was judged in shadow")]
    columns = (
        Column("policy", shrinks=True),
        Column("outcome"),
        Column("rules", shrinks=True, yields=1),
        Column("tool", shrinks=True, yields=2),
        Column("calls", "right"),
        Column("made", "right"),
    )
    rows = [
        [
            Line(marked(f"{line.policy} {line.revision}")),
            Line(Span(*_WOULD[line.outcome])),
            Line(marked(", ".join(line.rules))),
            Line(marked(line.tool)),
            Line(count(line.calls)),
            Line(count(line.made)),
        ]
        for line in lines
    ]
    calls = sum(line.calls for line in lines)
    other = sum(line.calls for line in lines if line.outcome != "allow")
    return [
        *table(columns, rows, width),
        Line(
            Span(
                f"{plural(calls, 'call')} judged in shadow, {count(other)} of them would not have been made as they were",
                "quiet",
            )
        ),
    ]
