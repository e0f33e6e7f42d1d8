"""What an import came to, for people: what the file holds, what was new, what deserves a look."""

from __future__ import annotations

from collections.abc import Iterator

from counterfoil.cli.commanding import word
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, plural
from counterfoil.importers.totals import Imported, Totals

CONVERSATIONS_SHOWN_MAX = 8


def imported_lines(path: str, totals: Totals, option: str) -> list[Line]:
    """The totals of one file, and the command that shows each conversation."""
    new = plural(totals.records_added, "new record") if totals.records_added else "nothing new"
    lines = [Line(Span("✓ ", "good"), Span(marked(path), "strong"), f"  {totals.format}, {new}")]
    lines += [Line(f"  {name:<14} {said}") for name, said in _facts(totals)]
    lines += list(_odd(totals))
    for session in totals.sessions[:CONVERSATIONS_SHOWN_MAX]:
        lines.append(_session(session, option))
    if len(totals.sessions) > CONVERSATIONS_SHOWN_MAX:
        more = len(totals.sessions) - CONVERSATIONS_SHOWN_MAX
        lines.append(Line(f"  and {plural(more, 'more conversation')}: counterfoil ls{option}"))
    return lines


def _facts(totals: Totals) -> Iterator[tuple[str, str]]:
    sessions = plural(totals.conversations, "conversation")
    if totals.sub_agents:
        sessions += f" and {plural(totals.sub_agents, 'sub-agent')} of them"
    yield "records", f"{count(totals.records)} in {sessions}"
    calls = count(totals.calls)
    if totals.calls_without_result:
        calls += f", {count(totals.calls_without_result)} with no result recorded"
    if totals.error_results:
        calls += f", {plural(totals.error_results, 'result')} with an error"
    yield "tool calls", calls
    yield "tokens", f"{count(totals.input_tokens)} in, {count(totals.output_tokens)} out"
    if totals.cost is not None:
        yield "cost", f"{totals.cost} {totals.currency or ''}".rstrip()
    if totals.compactions:
        yield "compactions", count(totals.compactions)


def _odd(totals: Totals) -> Iterator[Line]:
    """What the file holds that is not as it should be; all of it is kept."""
    kept = "kept as found"
    if totals.refused:
        objects = f", {count(totals.not_object)} of them no JSON object" if totals.not_object else ""
        yield Line("  ", Span(f"✗ {plural(totals.refused, 'line')} refused", "failure"), f"{objects}; {kept}")
    if totals.unknown_type:
        yield Line(f"  {plural(totals.unknown_type, 'record')} of an unknown type; {kept}")
    if totals.results_without_call:
        yield Line(f"  {plural(totals.results_without_call, 'result')} without a call; {kept}")


def _session(session: Imported, option: str) -> Line:
    return Line(Span(f"  counterfoil show {word(session.name, session.stream_id)}{option}", "quiet"))
