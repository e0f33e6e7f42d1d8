"""``counterfoil import``: transcripts of other agents, and archives of other ledgers, become conversations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from counterfoil.archive.place import LINES, is_archive
from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.archived import taken_lines
from counterfoil.cli.render.imported import imported_lines
from counterfoil.cli.secrets_given import key_given, passphrase_given

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger


@click.command(name="import", short_help="Import transcripts of other agents, or archives.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=str))
@click.option(
    "--format",
    "kind",
    metavar="F",
    help="claude-code, claude-code-stream-json, codex, codex-exec or pi; found out by itself.",
)
@click.option("--archive", is_flag=True, help="PATH is an archive; found out by itself.")
@click.option("--no-keys", is_flag=True, help="Leave the key package closed: read and verify only.")
@click.option("--passphrase-file", metavar="FILE", help="The package's passphrase; asked for without it.")
@click.option("--private-key", metavar="FILE", help="The key that the package was made for.")
@click.option("--as-tenant", metavar="NAME", help="Take in what belongs to another tenant, under this one.")
@click.option("--accept-damaged", is_flag=True, help="Take in what was damaged where it came from.")
@click.option(
    "--from", "other_party", metavar="NAME", help="Whom it is from; kept with the record of the import."
)
@face_options(ledger=True)
@pass_face
def command(
    face: Face,
    paths: tuple[str, ...],
    kind: str | None,
    archive: bool,
    no_keys: bool,
    passphrase_file: str | None,
    private_key: str | None,
    as_tenant: str | None,
    accept_damaged: bool,
    other_party: str | None,
) -> None:
    """Import PATH...: archives of `counterfoil export`, and transcripts of Claude Code, Codex and pi.

    A transcript becomes one conversation for each session, and importing it again adds only what is new. An archive
    comes in byte for byte, whole or not at all, into conversations that are not here yet; at its first fault nothing is
    taken in, and the line and byte are named. A ledger that is not there is made. With --json the totals of each file
    are one line.
    """
    archives = [path for path in paths if archive or (kind is None and is_archive(Path(path)))]
    others = [path for path in paths if path not in archives]
    if as_tenant is not None:
        face.tenant = as_tenant
    for path in others:
        from counterfoil.importers.run import check_file

        check_file(path, format=kind)
    with face.open(write=True, create=True) as ledger:
        for path in paths:
            if path in others:
                _transcript(face, ledger, path, kind)
            else:
                _archive(
                    face,
                    ledger,
                    path,
                    as_tenant=as_tenant is not None,
                    accept_damaged=accept_damaged,
                    with_keys=not no_keys,
                    passphrase=lambda: passphrase_given(passphrase_file, twice=False),
                    private_key=None if private_key is None else key_given("--private-key", private_key),
                    other_party=other_party,
                )
            face.flush()


def _archive(face: Face, ledger: Ledger, path: str, **how: Any) -> None:
    size = _size(Path(path))
    with face.progress("importing") as progress:
        taken = ledger.import_archive(path, progress=lambda done, _: progress.at(done, size), **how)
    if face.as_json:
        face.give({**taken.to_json(), "path": path})
    else:
        face.say(taken_lines(path, taken, face.columns, ledger_option(face)))


def _transcript(face: Face, ledger: Ledger, path: str, kind: str | None) -> None:
    from counterfoil.client.imports import LedgerImports
    from counterfoil.importers.run import import_file

    with face.progress("importing") as progress:
        totals = import_file(LedgerImports(ledger), path, format=kind, progress=progress.at)
    if face.as_json:
        face.give(totals.to_json())
    else:
        face.say(imported_lines(path, totals, ledger_option(face)))


def _size(path: Path) -> int | None:
    """Bytes of the lines, or nearly so; for the progress bar alone."""
    try:
        return (path / LINES if path.is_dir() else path).stat().st_size
    except OSError:
        return None
