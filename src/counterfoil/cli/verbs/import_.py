"""``counterfoil import``: transcripts of other agents become conversations; again, only what is new is added."""

from __future__ import annotations

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.imported import imported_lines
from counterfoil.importers.totals import Totals


@click.command(name="import", short_help="Import transcripts of other agents.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=str))
@click.option(
    "--format",
    "kind",
    metavar="F",
    help="claude-code, claude-code-stream-json, codex, codex-exec or pi; found out by itself.",
)
@face_options(ledger=True)
@pass_face
def command(face: Face, paths: tuple[str, ...], kind: str | None) -> None:
    """Import transcripts from PATH...: of Claude Code, Codex and pi, one conversation for each session.

    Importing a file again adds only what is new in it. A ledger that is not there is made, once every PATH was found
    to be a transcript. With --json the totals of each file are one line.
    """
    from counterfoil.client.imports import LedgerImports
    from counterfoil.importers.run import check_file, import_file

    for path in paths:
        check_file(path, format=kind)
    with face.open(write=True, create=True) as ledger:
        target = LedgerImports(ledger)
        for path in paths:
            with face.progress("importing") as progress:
                totals = import_file(target, path, format=kind, progress=progress.at)
            _tell(face, path, totals)
            face.flush()


def _tell(face: Face, path: str, totals: Totals) -> None:
    if face.as_json:
        face.give(totals.to_json())
    else:
        face.say(imported_lines(path, totals, ledger_option(face)))
