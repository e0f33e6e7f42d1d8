"""``counterfoil bench``: runs the measurements of :mod:`counterfoil.bench`."""

from __future__ import annotations

import click

from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face


@click.command(name="bench", short_help="Measure side by side against the budgets.")
@click.option("--only", metavar="NAME", help="Only this measurement.")
@click.option("--quick", is_flag=True, help="Rough figures in 20 seconds.")
@face_options(ledger=False)
@pass_face
def command(face: Face, only: str | None, quick: bool) -> int:
    """Measure this machine side by side with plain SQLite and others, as ratios, and compare with the budgets.

    Exit code 1: a budget was missed.
    """
    from counterfoil.bench import main

    return main(only=only, quick=quick, as_json=face.as_json)
