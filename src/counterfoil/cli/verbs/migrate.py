"""``counterfoil migrate``: takes an older store over into a ledger of this version's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.times import plural

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger
    from counterfoil.client.migrating import Migration


@click.command(name="migrate", short_help="Take an older store over into a ledger of this schema.")
@face_options(ledger=True)
@pass_face
def command(face: Face) -> None:
    """Take a runtime store of schema 1 over: one stream for each conversation, in one transaction.

    It may be stopped at any moment and run again. A ledger that has this version's schema is left as it is. Opening for
    writing does the same by itself.
    """
    from counterfoil.client.migrating import Migration

    with face.progress("migrating", "conversations") as progress:
        report = Migration(progress=progress.at)
        with face.open(write=True, migration=report) as ledger:
            if face.as_json:
                face.give(
                    {"place": ledger.place, "ledger": ledger.id, "migrated": report.done, **report.to_json()}
                )
            else:
                face.say(_lines(ledger, report, face.columns, ledger_option(face)))


def _lines(ledger: Ledger, report: Migration, columns: int, option: str) -> list[Line]:
    if not report.done:
        return [Line(Span("✓ ", "good"), f"{ledger.id} has this version's schema; nothing was to be done")]
    of = f"{plural(report.messages, 'message')} and {plural(report.runs, 'run')}"
    lines = [
        Line(Span("✓ ", "good"), f"{plural(report.conversations, 'conversation')} with {of} taken over"),
        Line(f"  {ledger.id}"),
    ]
    notes = (
        (report.open_runs, "open run", "recorded as interrupted; a new message begins a new run"),
        (report.waiting_inputs, "input", "had begun no run: to be delivered again, it is new here"),
        (report.damaged_rows, "damaged row", "kept as the bytes that lay there"),
    )
    for number, what, words in notes:
        if number:
            lines += [Line("  ", piece) for piece in wrap(f"{plural(number, what)}: {words}", columns - 2)]
    lines += [Line(f"    {stream_id}") for stream_id in report.damaged_conversations[:10]]
    lines.append(Line(Span(f"  next: counterfoil verify{option}", "quiet")))
    return lines
