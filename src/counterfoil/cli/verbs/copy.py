"""``counterfoil copy``: a whole ledger to another place or engine, where it goes on."""

from __future__ import annotations

import click

from counterfoil.cli.commanding import without_password, word
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, plural


@click.command(name="copy", short_help="Copy a whole ledger to another place or engine.")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--artifacts", metavar="DIR", help="Where the copy's artifacts lie, if not in the copy.")
@click.option("--from-artifacts", metavar="DIR", help="Where the artifacts of FROM lie, if not in it.")
@face_options(ledger=False)
@pass_face
def command(face: Face, source: str, target: str, artifacts: str | None, from_artifacts: str | None) -> None:
    """Copy the ledger FROM to TO, which is empty: a directory, or postgresql://USER@HOST/DATABASE.

    It keeps its id, its keys and its artifacts. Others may write until the end; then FROM is retired and refuses every
    append, so that there are never two. Killed in the middle, the same command goes on where it ended; run again when it is
    done it verifies the copy, says so, and changes nothing.
    """
    from counterfoil.client.copying import copy_ledger

    with face.progress("copying", "") as progress:
        report = copy_ledger(
            source,
            target,
            artifacts=artifacts,
            source_artifacts=from_artifacts or face.config.artifacts,
            clock=face.clock,
            progress=lambda _, done, total: progress.at(done, total),
        )
    if face.as_json:
        face.give(report.to_json())
        return
    of = f"{plural(report.events, 'event')} in {plural(report.streams, 'stream')}"
    shown = without_password(target)
    face.say(Line(Span("✓ ", "good"), Span(marked(shown), "strong"), f"  {of}"))
    if report.already:
        face.say(
            Line("  already copied: it verifies, and holds all that the source does; nothing was copied now")
        )
        return
    face.say(
        Line(f"  keys {count(report.keys)}, artifacts {count(report.artifacts)}, ledger {report.ledger}")
    )
    face.say(
        Line(
            f"  {marked(without_password(source))} is retired: it is read and verified, and takes no appends"
        )
    )
    face.say(Line(Span(f"  next: counterfoil verify --ledger {word(shown, 'TO')}", "quiet")))
