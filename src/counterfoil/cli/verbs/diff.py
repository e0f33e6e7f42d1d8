"""``counterfoil diff``: two runs side by side."""

from __future__ import annotations

import click

from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face, reading_options
from counterfoil.cli.render.rehearsed import difference_json, difference_lines


@click.command(name="diff", short_help="Two runs side by side.")
@click.argument("left", metavar="RUN")
@click.argument("right", metavar="RUN")
@click.option("--all", "whole", is_flag=True, help="Also the lines that are the same.")
@reading_options
@face_options(ledger=True)
@pass_face
def command(face: Face, left: str, right: str, whole: bool) -> int:
    """Compare two runs: requests, responses, decisions, effects, steps, facts, checks, artifacts, end, and what they used.

    Exit code 4: they differ in anything but what they used.
    """
    with face.shows() as ledger:
        found = ledger.diff(left, right)
    if face.as_json:
        face.give(difference_json(found, whole=whole))
    else:
        face.say(difference_lines(found, face.columns, whole=whole))
    return Exit.DONE if found.same else Exit.CONFLICT
