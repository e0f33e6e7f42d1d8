"""``counterfoil backup``: a ledger with its keys and artifacts in one file, while writers run."""

from __future__ import annotations

import click

from counterfoil.cli.commanding import word
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, plural


@click.command(name="backup", short_help="Put a ledger, its keys and its artifacts into one file.")
@click.argument("place", metavar="[DIR|URL]", required=False)
@click.option(
    "--to", "target", metavar="FILE", required=True, help="Where it is written; nothing is written over."
)
@click.option("--without-keks", is_flag=True, help="Leave the key-encryption keys where they are.")
@click.option("--artifacts", metavar="DIR", help="Where its artifacts lie, if not in it.")
@face_options(ledger=True)
@pass_face
def command(face: Face, place: str | None, target: str, without_keks: bool, artifacts: str | None) -> None:
    """Back up the ledger at DIR|URL (else --ledger) while others write to it, and verify what was copied.

    The file holds everything that opens its content, unless the key-encryption keys lie elsewhere or are left out: keep it
    like them. After `keys rotate` and `keys destroy` older backups without key-encryption keys open nothing.
    """
    from counterfoil.client.backup import backup_ledger

    with face.progress("backing up") as progress:
        report = backup_ledger(
            place or face.place,
            target,
            with_keks=not without_keks,
            artifacts=artifacts or face.config.artifacts,
            clock=face.clock,
            progress=lambda _, done, total: progress.at(done, total),
        )
    if face.as_json:
        face.give({**report.to_json(), "to": target})
        return
    of = f"{plural(report.events, 'event')} in {plural(report.streams, 'stream')}"
    face.say(Line(Span("✓ ", "good"), Span(marked(target), "strong"), f"  {of}, verified"))
    keks = f"{count(report.keks)} with it" if report.keks else "not in it"
    face.say(
        Line(f"  keys {count(report.keys)}, key-encryption keys {keks}, artifacts {count(report.artifacts)}")
    )
    face.say(Line(f"  taken {report.taken_at}, sha256 {report.sha256}"))
    face.say(Line(Span(f"  to try it: counterfoil restore {word(target, 'FILE')} --to DIR", "quiet")))
