"""``counterfoil bench``: runs the measurements of :mod:`counterfoil.bench`."""

from __future__ import annotations

from pathlib import Path

import click

from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face


@click.command(name="bench", short_help="Measure side by side against the budgets.")
@click.option("--only", metavar="NAME", help="Only this measurement.")
@click.option("--quick", is_flag=True, help="Rough figures in less than a minute.")
@click.option(
    "--postgres", metavar="URL", help="Measure on this server; without it one is started, if that can be."
)
@click.option(
    "--peers", is_flag=True, help="Compare with other libraries too (from a checkout: ./run bench --peers)."
)
@click.option(
    "--save",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the figures to a file, as JSON.",
)
@face_options(ledger=False)
@pass_face
def command(
    face: Face, only: str | None, quick: bool, postgres: str | None, peers: bool, save: Path | None
) -> int:
    """Measure this machine side by side with plain SQLite and others, as ratios, and compare with the budgets.

    Exit code 1: a budget was missed.
    """
    from counterfoil.bench import main

    return main(only=only, quick=quick, as_json=face.as_json, postgres=postgres, peers=peers, save=save)
