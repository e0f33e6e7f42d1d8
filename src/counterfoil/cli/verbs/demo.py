"""``counterfoil demo``: plays the demo of :mod:`counterfoil.demo`."""

from __future__ import annotations

import click

from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face


@click.command(name="demo", short_help="A refund survives a kill at the dangerous moment.")
@click.option("--directory", metavar="DIR", help="Where to play; default: a new temporary directory.")
@click.option("--ledger", metavar="PLACE", help="Where the ledger is made; default: in that directory.")
@click.option(
    "--keep/--no-keep", default=True, show_default=True, help="Leave the temporary directory for a look."
)
@face_options(ledger=False)
@pass_face
def command(face: Face, directory: str | None, keep: bool) -> int:
    """Play a refund twice: a worker is killed after the provider took the money and before the answer.

    Once the provider can be asked, once a person has to settle it. A third refund needs a permission first, and is undone
    by a repair. No network beyond this machine. Exit code 0 only when provider and ledger agree on exactly one refund in
    each case.
    """
    from counterfoil.demo import main

    return main(directory, ledger=face.ledger, keep=keep, as_json=face.as_json)
