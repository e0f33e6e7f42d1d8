"""What a search found, for people: whose event it is, where it stands, and what stood around the match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from counterfoil.cli.render.line import Line, Span, clip, width
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, duration, moment

if TYPE_CHECKING:
    from counterfoil.search.answer import Answer, Hit, Lag
    from counterfoil.search.snippet import Snippet

BEFORE_CELLS: Final = 24
"""Cells of a line that may stand in front of the first match."""


def found_lines(answer: Answer, columns: int, again: str, option: str) -> list[Line]:
    """Two lines for each match, then how far the index lags, why something may be missing, and what goes on."""
    from counterfoil.search.answer import REASONS

    lines = [line for hit in answer.hits for line in _hit_lines(hit, columns)]
    if not answer.hits:
        lines.append(Line(Span("· ", "quiet"), "nothing found"))
    lines.append(Line(Span(f"  {lag_words(answer.lag)}", "quiet")))
    if answer.approximate:
        lines += [
            Line(Span("! ", "strong"), f"approximate: {REASONS[reason]}") for reason in answer.approximate
        ]
    if answer.after is not None:
        lines.append(Line(Span(f"  more: {again} --after {answer.after}{option}", "quiet")))
    return lines


def lag_words(lag: Lag) -> str:
    """How far the index is behind the ledger."""
    if lag.stuck:
        return f"index lag: {marked(lag.stuck)}"
    if lag.caught_up:
        return "index lag: none"
    events = "some events" if lag.events is None else f"{count(lag.events)} events"
    return f"index lag: {events}, {duration(lag.ms)}"


def _hit_lines(hit: Hit, columns: int) -> list[Line]:
    name = marked(hit.conversation) if hit.conversation else hit.stream_id
    who = f"{hit.actor_type} {marked(hit.actor_id)}".strip()
    head = Line(
        Span(clip(name, 40), "strong"),
        f" {count(hit.sequence)}  {marked(hit.event_type)}  {who}  ",
        Span(moment(hit.recorded_at_ms), "quiet"),
    )
    return [head, Line("  ", *_snippet_spans(hit.snippet, columns - 2))]


def _snippet_spans(snippet: Snippet, room: int) -> list[Span]:
    """One line of the stretch around its first match, each match strong; what cannot be shown is marked."""
    first = snippet.marks[0][0] if snippet.marks else 0
    begin = first
    while begin > 0 and width(marked(snippet.text[begin - 1 : first])) <= BEFORE_CELLS:
        begin -= 1
    spans: list[Span] = [] if begin == 0 and snippet.begins else [Span("…", "quiet")]
    left = room - 2
    at = begin
    for start, end in (*snippet.marks, (len(snippet.text), len(snippet.text))):
        for stretch, style in ((snippet.text[at:start], "plain"), (snippet.text[start:end], "strong")):
            shown = clip(marked(stretch), left)
            spans.append(Span(shown, "strong" if style == "strong" else "plain"))
            left -= width(shown)
        at = end
    whole = left > 0 and snippet.ends
    return spans if whole else [*spans, Span("…", "quiet")]
