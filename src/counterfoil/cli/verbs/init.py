"""``counterfoil init``: makes a ledger, and says where its keys lie and what losing them means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.keys.file_provider import FileKeyProvider

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger


@click.command(name="init", short_help="Make a ledger.")
@click.argument("directory", required=False, type=click.Path(path_type=str))
@click.option("--clear", is_flag=True, help="Keep content in the clear, not encrypted. Fixed for ever.")
@face_options(ledger=True)
@pass_face
def command(face: Face, directory: str | None, clear: bool) -> None:
    """Make a ledger in DIRECTORY (default: the ledger that commands would use). One that is there stays as it is."""
    from counterfoil.client.ledger import open as open_ledger

    face.ledger = directory or face.ledger
    place = face.place
    tenant = face.tenant or face.config.tenant
    with open_ledger(place, tenant=tenant, content="clear" if clear else None, clock=face.clock) as ledger:
        made = ledger.created
        kek = _keys_of(ledger)
        if face.as_json:
            told = {
                "ledger": ledger.id,
                "place": ledger.place,
                "created": made,
                "content": ledger.content,
                "key_encryption_keys": kek,
            }
            face.give(told)
            return
        face.say(_lines(ledger.id, ledger.place, made, kek, ledger_option(face)))


def _keys_of(ledger: Ledger) -> str | None:
    """Where the key-encryption keys lie, if content is sealed: a directory, or the kind of provider that holds them."""
    if ledger.content != "sealed":
        return None
    provider = ledger.keyring.provider
    return str(provider.directory) if isinstance(provider, FileKeyProvider) else type(provider).__name__


def _lines(ledger_id: str, place: str, made: bool, kek: str | None, option: str) -> list[Line]:
    shown = marked(place)
    words = "made" if made else "is there already, and stays as it is:"
    lines = [Line(Span("✓ ", "good"), f"ledger {ledger_id} {words} in {shown}")]
    if kek is None:
        lines.append(Line("  content is kept in the clear: whoever reads the files reads it"))
    else:
        lines += [
            Line("  content is encrypted; the key that opens its keys lies in ", Span(marked(kek), "strong")),
            Line("  Whoever loses keys.db or kek/ loses all content for ever. The chain still verifies."),
            Line("  Keep a copy of both apart from the ledger's own backups."),
        ]
    lines.append(Line(Span(f"  next: counterfoil import FILE{option}", "quiet")))
    return lines
