"""What a rebuild made, and what it had to leave as it was, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, plural

if TYPE_CHECKING:
    from counterfoil.evidence.rebuild import Rebuilt

SHOWN_MAX: Final = 10


def rebuilt_lines(found: Rebuilt, width: int, option: str) -> list[Line]:
    """Counts by table, then what was left and why."""
    of = f"{plural(found.events, 'event')} in {plural(found.streams, 'stream')}"
    lines = [Line(Span("✓ ", "good"), f"{plural(sum(found.rows.values()), 'row')} made again from {of}")]
    for table, number in found.rows.items():
        kept = found.kept.get(table, 0)
        left = f"  of which {count(kept)} stay as they were: what they follow from cannot be read"
        lines.append(Line(f"  {marked(table):<19}{count(number):>9}", Span(left if kept else "", "quiet")))
    for stream_id, why in list(found.left_out.items())[:SHOWN_MAX]:
        said = f"{marked(stream_id)} was left as it is: {marked(why)}"
        lines += [Line("  ", piece) for piece in wrap(said, width - 2)]
    more = len(found.left_out) - SHOWN_MAX
    if more > 0:
        lines.append(Line(f"  and {plural(more, 'more stream')}"))
    lines.append(Line(Span(f"  next: counterfoil verify{option}", "quiet")))
    return lines
