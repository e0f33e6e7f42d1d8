"""The report of a verification for people: broken first, then what is proven, the unsealed tail, what was not covered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from counterfoil.cli.render.line import Line, Span, Style, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, plural
from counterfoil.evidence.report import GRADES, NOT_BROKEN, Finding, Report

FINDINGS_SHOWN_MAX: Final = 20
NOTICES_SHOWN_MAX: Final = 10
EXAMPLES_SHOWN_MAX: Final = 3


def report_lines(report: Report, width: int, names: Mapping[str, str], place: str) -> list[Line]:
    """The report. Its first line is the verdict, and it is never a bare OK."""
    body = _Body(width)
    _verdict(body, report, names)
    _rows_differ(body, report)
    _proven(body, report)
    _tail(body, report)
    body.gap()
    _covered(body, report)
    _not_covered(body, report)
    _notices(body, report)
    body.gap()
    body.add(Line(Span(f"exit code {report.exit_code} · {marked(place)} · {report.ledger}", "quiet")))
    return body.lines


class _Body:
    """Lines as they are added, wrapped to the width."""

    def __init__(self, width: int) -> None:
        self.lines: list[Line] = []
        self.width = width

    def add(self, line: Line) -> None:
        self.lines.append(line)

    def gap(self) -> None:
        if self.lines and self.lines[-1].text:
            self.lines.append(Line())

    def point(
        self, glyph: str, style: Style, strong: str, rest: str = "", *, lead: Style | None = None
    ) -> None:
        """A glyph, a phrase that counts and what belongs to it, wrapped under the phrase."""
        indent = len(glyph) + 1
        text = f"{strong} {rest}".strip()
        for number, piece in enumerate(wrap(text, self.width - indent)):
            head = Span(f"{glyph} ", style) if number == 0 else Span(" " * indent)
            if number == 0 and piece.startswith(strong):
                self.add(Line(head, Span(strong, lead or style), piece.removeprefix(strong)))
            else:
                self.add(Line(head, piece))

    def row(self, name: str, value: str, note: str = "", style: Style = "plain") -> None:
        """One line of a table of facts, its note wrapped in a column of its own."""
        column = 33
        pieces = wrap(note, max(self.width - column, 20)) if note else [""]
        head = Line(f"  {name:<19}", Span(f"{value:>9}", style), "   ").pad(column)
        for number, piece in enumerate(pieces):
            self.add(Line(head if number == 0 else " " * column, Span(piece, "quiet")))


# ---- what is broken --------------------------------------------------------------------------------------------------


def _verdict(body: _Body, report: Report, names: Mapping[str, str]) -> None:
    if report.broken:
        said = (
            f"{plural(report.broken_streams, 'stream')} broken"
            if report.broken_streams
            else "the ledger is broken"
        )
        kinds = ", ".join(
            f"{kind} {number}" for kind, number in report.kinds.items() if kind not in NOT_BROKEN
        )
        body.point("✗", "failure", f"BROKEN: {said}", f"({kinds})")
    elif not report.reached:
        reached = f"intact at grade {report.grade}" if report.grade else "partly unread"
        body.point(
            "✗", "failure", f"BELOW THE REQUIRED GRADE {report.require}:", f"what was checked is {reached}"
        )
    for finding in report.findings[:FINDINGS_SHOWN_MAX]:
        _finding(body, finding, names)
    more = len(report.findings) - FINDINGS_SHOWN_MAX
    more = max(more, 0) + report.findings_left_out
    if more:
        body.add(Line(f"  and {plural(more, 'more finding')}: counterfoil verify --json"))
    if report.findings:
        body.gap()


def _finding(body: _Body, finding: Finding, names: Mapping[str, str]) -> None:
    name = names.get(finding.stream_id or "")
    called = f" ({marked(name)})" if name else ""
    style: Style = "plain" if finding.kind in NOT_BROKEN else "failure"
    body.point(f"  {finding.kind}", style, f"{finding.where}{called}:", marked(finding.what), lead="strong")


def _rows_differ(body: _Body, report: Report) -> None:
    """Above what is proven: the proof is of the events, and what people look at are rows."""
    if not report.rows_differ:
        return
    names = ", ".join(table.table for table in report.rows_differ)
    body.point(
        "≠",
        "wait",
        "DERIVED ROWS DIFFER FROM THE EVENTS",
        f"({names}): run `counterfoil rebuild`",
        lead="strong",
    )
    if report.unguarded:
        said = "an effect may be sent twice as long as these rows are missing or wrong"
        body.point(" ", "plain", f"Rows of effects are among them: {said}.", lead="strong")
    body.point(" ", "plain", "Events are the truth, and what follows is said of them alone.", lead="plain")
    body.gap()


# ---- what is proven --------------------------------------------------------------------------------------------------


def _proven(body: _Body, report: Report) -> None:
    intact = report.intact_streams
    if report.grade is None or intact == 0:
        if report.counts.streams == 0:
            body.point("·", "quiet", "nothing to prove yet:", "the ledger has no stream", lead="plain")
        return
    whose = "the other " if report.broken else ""
    streams = f"{whose}{plural(intact, 'stream')} proven to grade {report.grade} ({GRADES[report.grade]}):"
    body.point("✓", "good", streams, _depth(report), lead="strong")


def _depth(report: Report) -> str:
    """What was looked at, and no more than was."""
    if report.level == "chain":
        return "hashes, shape and columns"
    looked = "hashes, shape, columns, the digest of every stored record"
    if report.level == "digests":
        return looked
    opened, stored = report.counts.records_opened, report.counts.records_by_digest
    if opened < stored:
        return f"{looked}; {count(opened)} of {count(stored)} records opened"
    return f"{looked}, and every record opened"


def _tail(body: _Body, report: Report) -> None:
    if report.tail.events:
        where = plural(report.tail.streams, "stream")
        body.point(
            "·",
            "quiet",
            f"{plural(report.tail.events, 'event')} in {where} unsealed:",
            "nothing outside this ledger vouches for them; they rest on the chain alone",
            lead="strong",
        )


# ---- what was covered ------------------------------------------------------------------------------------------------


def _covered(body: _Body, report: Report) -> None:
    counts = report.counts
    body.add(Line(Span("covered", "strong")))
    body.row("streams", count(counts.streams))
    body.row("events", count(counts.events), "every stored header, hashed again")
    body.row("records by digest", count(counts.records_by_digest))
    body.row("records opened", count(counts.records_opened))
    if counts.records_erased:
        body.row("records erased", count(counts.records_erased), "under certificates")
    if counts.artifacts:
        said = f"read and compared with their names; {count(counts.artifacts_opened)} opened"
        body.row("artifacts", count(counts.artifacts), said)
    if counts.companions:
        body.row(
            "companions", count(counts.companions), "opened, and as the events say that they were written"
        )
    if counts.artifacts_erased:
        body.row("artifacts erased", count(counts.artifacts_erased), "under certificates")
    body.row("keys", count(counts.keys), _keys_note(report))
    _derived(body, report)


def _derived(body: _Body, report: Report) -> None:
    """Derived rows: those that agree in one line, each table that does not in its own."""
    equal = [table for table in report.derived if table.state == "rebuilt"]
    if equal:
        total = sum(table.refolded for table in equal)
        where = f"in {plural(len(equal), 'table')}: made again from events, and equal"
        body.row("derived rows", count(total), where)
    left: dict[str, list[str]] = {}
    for table in report.derived:
        if table.state == "not_refolded":
            left.setdefault(table.why or "left out", []).append(table.table)
    for why, names in left.items():
        body.row("derived rows", "–", f"not made again ({', '.join(names)}): {why}")
    for table in (table for table in report.derived if table.state == "mismatched"):
        said = (
            f"derived, and not what the events say: {count(table.differing)} differ,"
            f" {count(table.lacking)} lacking, {count(table.unexplained)} unexplained"
        )
        body.row(f"{table.table} rows", count(table.refolded), said, "failure")
        for example in table.examples[:EXAMPLES_SHOWN_MAX]:
            body.add(Line(f"    {marked(example)}"))


def _keys_note(report: Report) -> str:
    if report.keys.state == "absent":
        return "the key store is not found, so content is withheld"
    if report.keys.copies == "not_covered":
        return "the key-encryption key lies beside the data: a copy of the directory holds everything"
    return ""


def _not_covered(body: _Body, report: Report) -> None:
    body.gap()
    body.add(Line(Span("not covered", "strong")))
    for left in report.not_covered:
        number = "" if left.count is None else f" ({count(left.count)})"
        body.point("  –", "quiet", f"{marked(left.what)}{number}:", marked(left.why), lead="plain")
    for unseen in report.unseen:
        body.point("  –", "quiet", "unseen at A0:", unseen, lead="plain")


def _notices(body: _Body, report: Report) -> None:
    if not report.notices:
        return
    body.gap()
    body.add(Line(Span("to know", "strong")))
    for notice in report.notices[:NOTICES_SHOWN_MAX]:
        body.point(
            "  ·",
            "quiet",
            notice.kind,
            _notice(notice.what, notice.count, notice.stream_id, notice.sequence),
            lead="plain",
        )
    more = len(report.notices) - NOTICES_SHOWN_MAX
    more = max(more, 0) + report.notices_left_out
    if more:
        body.add(Line(f"  and {plural(more, 'more notice')}: counterfoil verify --json"))


def _notice(what: str, times: int, stream_id: str | None, sequence: int | None) -> str:
    where = f", first in {stream_id}" if stream_id else ""
    where += f" event {sequence}" if sequence else ""
    return f"{marked(what)}{f' ({count(times)} times)' if times > 1 else ''}{where}"
