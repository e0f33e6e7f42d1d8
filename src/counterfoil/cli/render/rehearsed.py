"""Two runs side by side, and a rehearsal beside its original, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import asdict

from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import plural
from counterfoil.replay.difference import Fact, Pair, RunDifference
from counterfoil.replay.rehearsal import Rehearsal

LINES_MAX: Final = 500
"""Lines of a comparison that are drawn; ``--json`` has them all."""

_DIGITS: Final = 8
_USED: Final[Mapping[str, str]] = {
    "steps": "steps",
    "calls": "provider calls",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "cost": "cost",
}


def difference_lines(found: RunDifference, width: int, *, whole: bool = False) -> list[Line]:
    """The lines in which two runs differ, or all, and what each used."""
    pairs = found.pairs if whole else found.different
    same = len(found.pairs) - len(found.different)
    lines: list[Line] = []
    if pairs:
        lines += _pair_table(found, pairs[:LINES_MAX], width)
        if len(pairs) > LINES_MAX:
            lines.append(Line(Span(f"  and {len(pairs) - LINES_MAX} more; --json has them", "quiet")))
        lines.append(Line())
    lines += _used_table(found, width)
    if found.same:
        return [*lines, Line(Span("✓ the same", "good"), f": {plural(same, 'line')}, and the same end")]
    told = f": {plural(len(found.different), 'line')} differ, {same} are the same"
    return [*lines, *(Line(part) for part in wrap(f"≠ different{told}", width))]


def _pair_table(found: RunDifference, pairs: list[Pair], width: int) -> list[Line]:
    columns = (
        Column(" "),
        Column("what"),
        Column(found.left, shrinks=True, least=12),
        Column(found.right, shrinks=True, least=12),
    )
    return table(
        columns,
        [[_mark(pair), Line(_kind(pair)), _cell(pair.left), _cell(pair.right)] for pair in pairs],
        width,
    )


def _mark(pair: Pair) -> Line:
    if pair.same:
        return Line(Span("=", "quiet"))
    if pair.left is None:
        return Line(Span("+", "wait"))
    return Line(Span("−" if pair.right is None else "≠", "failure"))


def _kind(pair: Pair) -> str:
    fact = pair.left or pair.right
    return "" if fact is None else fact.kind


def _cell(fact: Fact | None) -> Line:
    if fact is None:
        return Line(Span("nothing", "quiet"))
    return Line(marked(fact.name), "  ", marked(fact.told), Span(f"  {fact.digest[:_DIGITS]}", "quiet"))


def _used_table(found: RunDifference, width: int) -> list[Line]:
    columns = (Column("used"), Column(found.left, "right"), Column(found.right, "right"))
    rows = [
        [Line(word), Line(_used(found.left_used, name)), Line(_used(found.right_used, name))]
        for name, word in _USED.items()
    ]
    return table(columns, rows, width)


def _used(used: Mapping[str, Any], name: str) -> str:
    value = used.get(name)
    if value is None:
        return "–"
    return f"{value} {used.get('currency', '')}".strip() if name == "cost" else str(value)


def rehearsal_lines(done: Rehearsal, width: int) -> list[Line]:
    """What a rehearsal came to, then the two runs side by side."""
    lines = [*_outcome_lines(done, width), Line()]
    return lines if done.difference is None else [*lines, *difference_lines(done.difference, width)]


def _outcome_lines(done: Rehearsal, width: int) -> Iterator[Line]:
    counts = done.counts
    raised = f" ({marked(done.error_class)})" if done.error_class else ""
    yield Line(Span(done.run_id, "strong"), f"  {marked(done.agent)}  {done.terminal or 'open'}{raised}")
    yield Line(Span(f"  rehearsal of {done.rehearsal_of}, in {done.stream_id}", "quiet"))
    told = [
        f"answers of models: {counts.answers_recorded} from the record, {counts.answers_live} asked anew",
        f"steps: {counts.steps_recorded} from the record, {counts.steps_run} run",
        f"calls of tools: {counts.calls_answered} from the record, {counts.calls_denied} denied,"
        f" {len(counts.blocked)} blocked; none was made",
    ]
    if counts.children_answered:
        told.append(f"children: {counts.children_answered} from the record; none was begun")
    for line in told:
        yield from (Line(f"  {part}") for part in wrap(line, width - 2))
    for blocked in counts.blocked[:LINES_MAX]:
        words = f"blocked {blocked.kind} {marked(blocked.name)}: {marked(blocked.why)}"
        yield from (Line(Span(f"  {part}", "wait")) for part in wrap(words, width - 2))


def difference_json(found: RunDifference, *, whole: bool = True) -> dict[str, Any]:
    """The comparison for programs."""
    pairs = found.pairs if whole else found.different
    return {
        "left": found.left,
        "right": found.right,
        "same": found.same,
        "lines": len(found.pairs),
        "different": len(found.different),
        "pairs": [
            {"same": pair.same, "left": _fact(pair.left), "right": _fact(pair.right)} for pair in pairs
        ],
        "used": {"left": dict(found.left_used), "right": dict(found.right_used)},
    }


def _fact(fact: Fact | None) -> dict[str, Any] | None:
    return None if fact is None else asdict(fact)


def rehearsal_json(done: Rehearsal) -> dict[str, Any]:
    """A rehearsal for programs."""
    return {
        "run_id": done.run_id,
        "rehearsal_of": done.rehearsal_of,
        "stream_id": done.stream_id,
        "agent": done.agent,
        "terminal": done.terminal,
        "error_class": done.error_class,
        "counts": asdict(done.counts),
        "difference": None if done.difference is None else difference_json(done.difference, whole=False),
    }
