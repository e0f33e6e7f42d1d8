"""``counterfoil export``: conversations into an archive, as they are stored."""

from __future__ import annotations

import click

from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.archived import exported_lines
from counterfoil.cli.secrets_given import key_given, passphrase_given
from counterfoil.client.archiving import KeysBy

KINDS = ("passphrase", "recipient", "epoch")


@click.command(name="export", short_help="Write conversations into an archive.")
@click.argument("conversations", metavar="CONVERSATION...", nargs=-1, required=True)
@click.option(
    "--to", "target", metavar="FILE|DIR", required=True, help="A ZIP if it ends in .zip, else a directory."
)
@click.option("--keys", "kind", type=click.Choice(KINDS), help="Put the keys into a package beside it.")
@click.option("--passphrase-file", metavar="FILE", help="The passphrase; asked for without it.")
@click.option("--recipient", metavar="KEY|FILE", help="The public key of whom the keys are for.")
@click.option("--for", "other_party", metavar="NAME", help="Who gets it; kept with the record of the export.")
@click.option("--as", "actor", metavar="NAME", help="Who exports: the decision is recorded first.")
@click.option("--purpose", metavar="TEXT", help="What for; goes with --as.")
@face_options(ledger=True)
@pass_face
def command(
    face: Face,
    conversations: tuple[str, ...],
    target: str,
    kind: str | None,
    passphrase_file: str | None,
    recipient: str | None,
    other_party: str | None,
    actor: str | None,
    purpose: str | None,
) -> None:
    """Write CONVERSATION..., by name or stream id, into an archive that `counterfoil import` takes in byte for byte.

    Content goes out as it is stored, encrypted. With --keys what opens it goes into TO.keys.json: sealed under a
    passphrase, for a recipient (`counterfoil keys recipient` makes a pair), or under the current epoch, for backups.
    """
    if (actor is None) is not (purpose is None):
        raise click.UsageError("--as and --purpose are given together")
    face.demand(actor, "--as")
    keys = _keys(kind, passphrase_file, recipient)
    with face.open(write=True) as ledger:
        with face.progress("exporting", "events") as progress:
            done = ledger.export_archive(
                conversations,
                target,
                keys=keys,
                actor=actor,
                purpose=purpose,
                other_party=other_party,
                progress=progress.at,
            )
        if face.as_json:
            face.give({**done.to_json(), "to": target, "keys": kind or "none"})
        else:
            face.say(exported_lines(done, target, kind, face.columns))


def _keys(kind: str | None, passphrase_file: str | None, recipient: str | None) -> KeysBy | None:
    if kind != "passphrase" and passphrase_file is not None:
        raise click.UsageError("--passphrase-file goes with --keys passphrase")
    if (kind == "recipient") != (recipient is not None):
        raise click.UsageError("--recipient goes with --keys recipient, and that needs it")
    match kind:
        case "passphrase":
            return KeysBy(passphrase=passphrase_given(passphrase_file, twice=True))
        case "recipient":
            assert recipient is not None
            return KeysBy(recipient=key_given("--recipient", recipient))
        case "epoch":
            return KeysBy(epoch=True)
        case _:
            return None
