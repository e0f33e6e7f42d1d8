"""Lists of conversations, runs, effects and reviews; an empty one says what would stand there and how it comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from counterfoil.cli.render.cells import number, text
from counterfoil.cli.render.content import LOOKS
from counterfoil.cli.render.doubts import CAUSES
from counterfoil.cli.render.line import Line, Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import count, duration, moment
from counterfoil.client.reading import ConversationInfo
from counterfoil.store.rows import Row

EMPTY: Final[Mapping[str, tuple[str, str]]] = {
    "events": ("no events: runs and imports record them", "import FILE"),
    "conversations": (
        "no conversations yet: each run of an agent and each imported session makes one",
        "import FILE",
    ),
    "runs": ("no runs yet: an agent makes one with `with ledger.run(…)`", "demo"),
    "effects": ("no effects: a decorated tool called inside a run makes one", "demo"),
    "children": ("No run has spawned another here.", "ls runs"),
    "reviews": (
        "no open reviews: an effect that no machine can settle would wait here for a person",
        "ls effects",
    ),
}
"""What an empty list says, and the command that fills it or shows more."""


class Listed(Struct, frozen=True):
    """A conversation with what its line says beside it."""

    info: ConversationInfo
    last_run: Row | None
    last_event_ms: int | None
    in_doubt: int
    in_review: int
    to_approve: int = 0


def empty_lines(what: str, ledger_option: str) -> list[Line]:
    """An empty list."""
    words, command = EMPTY[what]
    return [
        Line(Span("· ", "quiet"), words),
        Line("  ", Span(f"counterfoil {command}{ledger_option}", "quiet")),
    ]


# ---- conversations ---------------------------------------------------------------------------------------------------


def conversation_lines(listed: Sequence[Listed], width: int) -> list[Line]:
    """One line for each; a conversation that needs a person has an amber edge."""
    columns = (
        Column(""),
        Column("conversation", shrinks=True, least=44),
        Column("agent", yields=3, shrinks=True),
        Column("needs"),
        Column("last run", yields=1),
        Column("runs", "right", yields=4),
        Column("events", "right", yields=2),
        Column("last event (UTC)", yields=5),
    )
    return table(columns, [_conversation(entry) for entry in listed], width)


def _conversation(entry: Listed) -> list[Line]:
    info = entry.info
    needs, style = _needs(entry)
    return [
        Line(Span("▌", "doubt")) if needs else Line(" "),
        conversation_name(info),
        Line(marked(info.agent)),
        Line(Span(needs, style)),
        run_state(entry.last_run, live=info.state == "running"),
        Line(count(info.runs)),
        Line(Span(*LOOKS["damaged"]) if info.head_sequence is None else count(info.head_sequence)),
        Line("" if entry.last_event_ms is None else moment(entry.last_event_ms).removesuffix("Z")),
    ]


def conversation_name(info: ConversationInfo) -> Line:
    """The name; else the word for why it cannot be read, with the id; else the id alone."""
    if info.name is not None:
        return Line(Span(marked(info.name), "strong"))
    look = LOOKS.get(info.name_state)
    if look is not None:
        return Line(info.stream_id, " ", Span(*look))
    return Line(info.stream_id)


def _needs(entry: Listed) -> tuple[str, Style]:
    """Amber, with a glyph and a word, when a person is needed."""
    if entry.in_review:
        return f"◆? {count(entry.in_review)} in review", "doubt_bar"
    if entry.in_doubt:
        return f"◆? {count(entry.in_doubt)} in doubt", "doubt_bar"
    if entry.to_approve:
        return f"◆? {count(entry.to_approve)} to approve", "doubt_bar"
    return "", "plain"


_TERMINALS: Final[Mapping[str, tuple[str, Style]]] = {
    "success": ("✓", "good"),
    "absorbed": ("–", "quiet"),
    "superseded": ("–", "quiet"),
    "cancelled": ("–", "quiet"),
    "interrupted": ("–", "quiet"),
    "shutdown": ("–", "quiet"),
}


def run_state(row: Row | None, *, live: bool) -> Line:
    """``✓ success``, ``✗ provider_failure``, ``‖ waits: review``, ``● running``, ``◌ worker gone``."""
    if row is None:
        return Line(Span("none", "quiet"))
    state = text(row, "state")
    if state == "suspended":
        return Line(Span(f"‖ waits: {text(row, 'cause')}", "wait"))
    if state == "running":
        return Line(Span("● running", "stub") if live else Span("◌ worker gone", "wait"))
    terminal = text(row, "terminal")
    glyph, style = _TERMINALS.get(terminal, ("✗", "failure"))
    return Line(Span(f"{glyph} {marked(terminal)}", style))


# ---- runs ------------------------------------------------------------------------------------------------------------


def run_lines(rows: Sequence[Row], names: Mapping[str, str], live: Collection[str], width: int) -> list[Line]:
    """One line for each run, newest first. ``live`` are the conversations that a worker holds."""
    columns = (
        Column("run"),
        Column("conversation", shrinks=True, least=16),
        Column("agent", yields=4, shrinks=True, least=16),
        Column("state"),
        Column("started (UTC)", yields=1),
        Column("took", "right", yields=3),
        Column("tokens", "right", yields=5),
        Column("cost", "right", yields=2),
    )
    return table(columns, [_run(row, names, live) for row in rows], width)


def _run(row: Row, names: Mapping[str, str], live: Collection[str]) -> list[Line]:
    stream_id = text(row, "stream_id")
    tokens = number(row, "input_tokens") + number(row, "output_tokens")
    took = number(row, "changed_at_ms") - number(row, "started_at_ms")
    cost = f"{text(row, 'cost')} {text(row, 'currency')}".strip()
    return [
        Line(text(row, "run_id")),
        Line(marked(names.get(stream_id, stream_id))),
        Line(marked(" ".join(filter(None, [text(row, "agent"), text(row, "agent_version")])))),
        run_state(row, live=stream_id in live),
        Line(moment(number(row, "started_at_ms")).removesuffix("Z")),
        Line(duration(took)) if row["state"] == "finished" else Line(),
        Line(count(tokens)) if tokens else Line(),
        Line(cost),
    ]


# ---- effects ---------------------------------------------------------------------------------------------------------

_EFFECT_STATES: Final[Mapping[str, tuple[str, Style]]] = {
    "intended": ("◆? in doubt", "doubt_bar"),
    "unknown": ("◆? in doubt", "doubt_bar"),
    "in_review": ("◆? in review", "doubt_bar"),
    "contradicted": ("◆? contradicted", "doubt_bar"),
    "succeeded": ("✓ succeeded", "good"),
    "rejected": ("⊘ rejected", "failure"),
    "failed": ("✗ failed", "failure"),
    "settled": ("✎ settled", "plain"),
}


def effect_state(row: Row, *, under_way: bool) -> Line:
    """The state in one word with its glyph; a call that may be answered at any moment is under way, not in doubt."""
    state = text(row, "state")
    if under_way:
        return Line(Span("… under way", "quiet"))
    words, style = _EFFECT_STATES.get(state, (marked(state), "plain"))
    if state == "settled" and row["outcome"]:
        words = f"{words} as {text(row, 'outcome')}"
    return Line(Span(words, style))


def effect_lines(
    rows: Sequence[Row],
    under_way: Collection[str],
    width: int,
    now_ms: int,
    repairs: Mapping[str, str] | None = None,
) -> list[Line]:
    """One line for each effect, the newest first; those in doubt say for how long, those ``under_way`` are not.

    ``repairs`` says how the last repair of an effect stands; what is undone is never listed as if it stood.
    """
    columns = (
        Column("effect"),
        Column("tool", shrinks=True, least=26),
        Column("state"),
        Column("for", "right", yields=1),
        Column("tries", "right", yields=3),
        Column("intended (UTC)", yields=2),
        Column("run", yields=4),
    )
    return table(columns, [_effect(row, under_way, now_ms, repairs or {}) for row in rows], width)


_REPAIRS: Final[Mapping[str, str]] = {
    "open": "being repaired",
    "repaired": "repaired",
    "partial": "repaired in part",
    "irreversible": "irreversible",
}


def _effect(row: Row, under_way: Collection[str], now_ms: int, repairs: Mapping[str, str]) -> list[Line]:
    intended = number(row, "intended_at_ms")
    state = effect_state(row, under_way=text(row, "effect_id") in under_way)
    waits = "◆?" in state.text
    repair = repairs.get(text(row, "effect_id"))
    if repair is not None:
        state = state + ", " + Span(_REPAIRS.get(repair, repair), "doubt" if repair == "open" else "strong")
    return [
        Line(text(row, "effect_id")),
        Line(Span(text(row, "tool"), "strong" if waits else "plain")),
        state,
        Line(Span(duration(now_ms - intended), "strong")) if waits else Line(),
        Line(text(row, "attempt")),
        Line(moment(intended).removesuffix("Z")),
        Line(text(row, "run_id")),
    ]


# ---- reviews ---------------------------------------------------------------------------------------------------------


def review_lines(rows: Sequence[tuple[Row, Row | None]], width: int, now_ms: int) -> list[Line]:
    """One line for each review, the oldest first, with its effect's tool."""
    columns = (
        Column("review"),
        Column("tool", shrinks=True, least=12),
        Column("state"),
        Column("waits", "right"),
        Column("because", yields=2, shrinks=True, least=16),
        Column("conversation", yields=3),
    )
    return table(columns, [_review(row, effect, now_ms) for row, effect in rows], width)


def _review(row: Row, effect: Row | None, now_ms: int) -> list[Line]:
    is_open = row["state"] == "open"
    state = Span("◆? open", "doubt_bar") if is_open else Span(f"✎ {text(row, 'outcome')}", "plain")
    opened = number(row, "opened_at_ms")
    until = now_ms if is_open else number(row, "settled_at_ms")
    return [
        Line(text(row, "review_id")),
        Line("?" if effect is None else text(effect, "tool")),
        Line(state),
        Line(duration(until - opened)),
        Line(CAUSES.get(text(row, "cause"), text(row, "cause"))),
        Line(text(row, "stream_id")),
    ]
