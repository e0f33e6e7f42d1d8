"""Turns for people: a list, one turn stage by stage, and what checking its chain came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from counterfoil.cli.render.line import Line, Span, Style, cut, wrap, wrap_spans
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import clock, day, moment, plural
from counterfoil.journal.chain import Chain
from counterfoil.journal.event import OPEN, TurnEvent, TurnInfo, info_of

_STAGE_CELLS: Final = 10
_INDENT: Final = 28
_BESIDE_MIN: Final = 30
"""Cells that a summary needs beside its stage; with fewer it stands below."""

HIDDEN_SHOWN: Final = 8
"""Events that cannot be read which are named one by one."""

_NARROW_INDENT: Final = 6
_NOISE: Final = ("session=", "run=", "event=")
"""Fields that are the same for a whole turn, or only for programs; ``--json`` has them."""


def status_span(status: str) -> Span:
    """A turn's status in its look: words and a glyph, so that it reads without colour."""
    shown: dict[str, tuple[str, Style]] = {
        "completed": ("✓ completed", "good"),
        "cancelled": ("– cancelled", "quiet"),
        "refused": ("⊘ refused", "failure"),
        OPEN: ("… open", "wait"),
    }
    text, style = shown.get(status, (f"✗ {marked(status)}", "failure"))
    return Span(text, style)


def turn_lines(turns: Sequence[TurnInfo], width: int) -> list[Line]:
    """One line for each turn, the newest first."""
    columns = (
        Column("turn"),
        Column("status", shrinks=True, least=12),
        Column("agent", shrinks=True, least=8, yields=1),
        Column("began (UTC)", yields=2),
        Column("tries", "right", yields=4),
        Column("events", "right", yields=3),
    )
    rows = [
        [
            Line(marked(info.turn_id)),
            Line(status_span(info.status)),
            Line(marked(info.agent_id)),
            Line(moment(info.began_at_ms)),
            Line(str(info.attempts)),
            Line("" if info.events is None else str(info.events)),
        ]
        for info in turns
    ]
    return table(columns, rows, width)


def empty_lines(option: str) -> list[Line]:
    """No turn fits."""
    return [
        Line(
            Span("· ", "quiet"),
            "no turns: every run of a ledger has one, and every turn begun with a journal",
        ),
        Line(Span(f"  counterfoil ls runs{option}", "quiet")),
    ]


def turn_page(
    events: Sequence[TurnEvent],
    chain: Chain,
    width: int,
    *,
    closed: str | None = None,
    hidden: Mapping[int, str] = MappingProxyType({}),
) -> list[Line]:
    """A turn stage by stage, and whether it is as it was written."""
    info = info_of(events)
    named, status = Line(Span(marked(info.turn_id), "strong")), Line("  ", status_span(info.status))
    heading = [
        *([named + status] if (named + status).width <= width else [named, *wrap_spans(status.spans, width)]),
        *(Line(f"  {piece}") for piece in wrap(marked(info.agent_id), max(20, width - 2))),
    ]
    told = f"  {day(info.began_at_ms)}, {plural(len(events), 'event')}"
    if info.attempts > 1:
        told += f", {plural(info.attempts, 'attempt')}"
    lines = [*heading, Line(Span(told, "quiet")), Line()]
    for event in events:
        lines += _event_lines(event, width, broken=event.seq == chain.broken_at_seq)
    return [*lines, Line(), *chain_lines(chain, width, closed=closed, hidden=hidden)]


def _event_lines(event: TurnEvent, width: int, *, broken: bool) -> Iterator[Line]:
    words = [word for word in event.summary.split(" ") if not word.startswith(_NOISE)]
    told = marked(" ".join(words))
    word = cut(marked(str(event.type).replace("_CALL", "").lower()), _STAGE_CELLS - 1)
    mark = Span("✗", "failure") if broken else Span(" ")
    stage = Line(
        mark,
        f"{event.seq:>3}  ",
        Span(clock(event.created_at_ms), "quiet"),
        "  ",
        Line(word).pad(_STAGE_CELLS),
    )
    beside = width - _INDENT >= _BESIDE_MIN
    indent = _INDENT if beside else _NARROW_INDENT
    pieces = wrap(told, max(8, width - indent))
    yield (stage + pieces.pop(0) if beside else stage).rstrip()
    yield from (Line(" " * indent + piece) for piece in pieces if piece)


def chain_lines(
    chain: Chain,
    width: int,
    *,
    closed: str | None = None,
    hidden: Mapping[int, str] = MappingProxyType({}),
) -> Iterator[Line]:
    """What is broken first, then what is proven, then what is not; ``hidden`` could not be read, all else was checked."""
    if not chain.intact:
        told = [Span(f"✗ broken at event {chain.broken_at_seq}", "failure"), Span(f": {marked(chain.what)}")]
    elif hidden:
        which = ", ".join(f"{seq} ({marked(state)})" for seq, state in list(hidden.items())[:HIDDEN_SHOWN])
        more = f" and {len(hidden) - HIDDEN_SHOWN} more" if len(hidden) > HIDDEN_SHOWN else ""
        told = [
            Span("✓ intact", "good"),
            Span(f" as far as it can be read: content of events {which}{more} cannot be had;"),
            Span(" every other event was compared with the hash that the ledger keeps of it", "quiet"),
        ]
    elif closed == "unknown":
        told = [
            Span("· its head was kept by another version, which this one cannot make again;"),
            Span(" counterfoil verify checks the events", "quiet"),
        ]
    elif closed is not None:
        told = [
            Span(
                f"· content that its digests are made of is {marked(closed)}, so the chain cannot be made again;"
            ),
            Span(" counterfoil verify checks the events", "quiet"),
        ]
    else:
        told = [Span("✓ intact", "good"), Span(": every event is the one that was written, in its place")]
    yield from wrap_spans(told, width)


def proof_lines(head: str | None, width: int, *, kept: bool, ledger: bool) -> list[Line]:
    """What the chain alone cannot see, and who can."""
    if kept:
        told = f"its head {head} is kept in the ledger, which verify and seals cover"
    elif ledger:
        told = f"its head is {head}; the ledger keeps none of it (turns=True does): counterfoil verify checks the events"
    else:
        told = f"its head is {head}; nothing else keeps it, so a turn made anew whole, or cut at its end, is not seen"
    return [Line(Span(f"  {piece}", "quiet")) for piece in wrap(told, max(20, width - 2))]
