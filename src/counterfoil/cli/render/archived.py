"""What an export or an import of an archive came to, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from counterfoil.archive.package import SUFFIX
from counterfoil.cli.commanding import word
from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, plural

if TYPE_CHECKING:
    from counterfoil.archive.writing import Exported
    from counterfoil.client.taking import Taken

SHOWN_MAX: Final = 8


def exported_lines(done: Exported, target: str, kind: str | None, width: int) -> list[Line]:
    """Counts, where it lies, what was damaged."""
    of = f"{plural(done.events, 'event')} in {plural(len(done.streams), 'conversation')}"
    lines = [Line(Span("✓ ", "good"), Span(marked(target), "strong"), f"  {of}")]
    facts = [
        ("records", f"{count(done.records)}, {count(done.erased)} erased"),
        ("artifacts", count(done.objects)),
        ("digest", done.sha256),
        ("keys", "none" if kind is None else f"{marked(target + SUFFIX)} ({kind})"),
    ]
    lines += [Line(f"  {name:<14} {said}") for name, said in facts]
    for fault in done.faults[:SHOWN_MAX]:
        said = f"{fault.code} at {fault.stream_id or 'an artifact'} {fault.sequence or ''}: {fault.what}"
        lines += [Line("  ", Span(piece, "failure")) for piece in wrap(marked(said), width - 2)]
    if done.faults:
        told = f"  {plural(len(done.faults) + done.faults_dropped, 'fault')}: it comes in only with --accept-damaged"
        lines.append(Line(Span(told, "failure")))
    lines.append(Line(Span(f"  next: counterfoil import {word(target, 'FILE')} --ledger OTHER", "quiet")))
    return lines


def taken_lines(path: str, taken: Taken, width: int, option: str) -> list[Line]:
    """Each conversation with where it came from, and what was accepted."""
    of = f"{plural(taken.events, 'event')} in {plural(len(taken.streams), 'conversation')}"
    lines = [Line(Span("✓ ", "good"), Span(marked(path), "strong"), f"  {of}")]
    keys = f"{plural(taken.keys, 'key')} ({taken.keys_by})" if taken.keys else "none"
    facts = [("records", f"{count(taken.records)}, {count(taken.erased)} erased")]
    facts += [("artifacts", count(taken.objects)), ("keys", keys)]
    lines += [Line(f"  {name:<14} {said}") for name, said in facts]
    lines += list(_streams(taken, option))
    for fault, place in taken.damage[:SHOWN_MAX]:
        where = f"line {place.line}: " if place is not None else ""
        lines += [
            Line("  ", Span(piece, "failure"))
            for piece in wrap(marked(f"{where}{fault.code}: {fault.what}"), width - 2)
        ]
    if taken.damaged:
        lines.append(Line(Span(f"  {plural(taken.damaged, 'fault')} accepted", "failure")))
    return lines


def _streams(taken: Taken, option: str) -> Iterator[Line]:
    for stream in taken.streams[:SHOWN_MAX]:
        said = "" if stream["keys"] else "  without its keys: read and verified, not gone on with"
        yield Line(
            f"  {stream['stream_id']}  {count(stream['events'])} events from {stream['home']}",
            Span(said, "quiet"),
        )
    if len(taken.streams) > SHOWN_MAX:
        yield Line(f"  and {plural(len(taken.streams) - SHOWN_MAX, 'more conversation')}")
    yield Line(Span(f"  next: counterfoil verify{option}", "quiet"))
