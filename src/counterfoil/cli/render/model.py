"""The timeline as data: a row is a step, an effect is a pair, and what is in doubt says so."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from counterfoil.cli.render.line import Span, Style

Outcome = Literal["quiet", "good", "failure", "doubt", "wait"]


class Row(Struct):
    """Where a row stands: its first and last sequence, and their times."""

    sequence: int
    time_ms: int
    last: int = 0
    ended_ms: int = 0
    events: int = 1

    def reach(self, sequence: int, time_ms: int) -> None:
        """One more event belongs to this row."""
        self.last = max(self.last, sequence)
        self.ended_ms = max(self.ended_ms, time_ms)
        self.events += 1

    def __post_init__(self) -> None:
        self.last = self.last or self.sequence
        self.ended_ms = self.ended_ms or self.time_ms


class Note(Row):
    """A row of one line: glyph, title and what belongs to it; ``below`` holds lines that must not be overlooked.

    ``aside`` holds what may be left out where there is no room. ``text`` is what somebody said, ``quote`` its beginning
    for a line of its own. ``fold`` is equal for rows that may be folded into one when they follow each
    other; a refusal or a doubt has none.
    """

    glyph: str = "·"
    title: str = ""
    detail: list[Span] = field(default_factory=list)
    aside: list[Span] = field(default_factory=list)
    text: str = ""
    quote: str = ""
    style: Style = "plain"
    below: list[Span] = field(default_factory=list)
    took_ms: int | None = None
    fold: str | None = None
    outcome: Span | None = None
    boundary: bool = False


class Stub(Struct):
    """The intention: what was about to be done, under which key, and what happens in doubt."""

    tool: str
    version: str
    fields: list[tuple[str, Span]] = field(default_factory=list)
    key: Span | None = None
    rule: str = ""
    attempt: int = 1


class Cheque(Struct):
    """The observation: how it ended, what the provider said, and how a doubt was ended."""

    sequence: int
    time_ms: int
    glyph: str
    word: str
    style: Style
    by: str = ""
    facts: list[tuple[str, Span]] = field(default_factory=list)


class Doubt(Struct):
    """The missing half: how long, what is known, who or what decides, and the commands that lead out."""

    word: str
    since_ms: int
    known: list[str] = field(default_factory=list)
    verdict: str = ""
    decides: str = ""
    commands: list[str] = field(default_factory=list)


class Pair(Row):
    """An effect. Exactly one of ``cheque``, ``doubt`` and ``under_way`` says what is on the right."""

    effect_id: str = ""
    state: str = "intended"
    stub: Stub = field(default_factory=lambda: Stub("", ""))
    cheque: Cheque | None = None
    doubt: Doubt | None = None
    under_way: str = ""
    story: list[str] = field(default_factory=list)
    touches_nothing: bool = False
    outside: bool = False

    @property
    def small(self) -> bool:
        """Whether one line says it all: a tool that touches nothing and succeeded."""
        return (
            self.touches_nothing
            and self.doubt is None
            and self.cheque is not None
            and self.cheque.style == "good"
            and not self.story
        )


class Fold(Row):
    """Rows that followed one another and ended alike."""

    first: Note | Pair = field(default_factory=lambda: Note(0, 0))
    count: int = 0


class Gap(Row):
    """Time in which nothing was recorded: idle, or a wait that says for what."""

    length_ms: int = 0
    words: str = "idle"


AnyRow = Note | Pair | Fold | Gap


class Timeline(Struct):
    """The rows of a stretch of events, in the order of their first events."""

    rows: list[AnyRow] = field(default_factory=list)
    first: int = 0
    last: int = 0
    events: int = 0

    @property
    def doubts(self) -> list[Pair]:
        """The pairs in doubt."""
        return [row for row in self.rows if isinstance(row, Pair) and row.doubt is not None]
