"""``counterfoil doctor``: the health of a ledger in one screen."""

from __future__ import annotations

from typing import Final

import click
from msgspec.structs import asdict

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.examined import finding_lines
from counterfoil.client.finding import ORDER, Finding

NEEDS_PEOPLE: Final = frozenset({"oldest doubt", "oldest review", "oldest approval"})
"""Findings with which an effect is undecided, or waits for a person."""


@click.command(name="doctor", short_help="The health of a ledger in one screen.")
@face_options(ledger=True)
@pass_face
def command(face: Face) -> int:
    """Look at the store, its keys and clocks, free space, and what waits. Reads only, also without keys.

    Leaves with 3 where an effect is undecided or waits for a person, 77 where keys are not at hand, not the newest or
    exposed, 69 where the store is in danger, and 75 where what waits could not be read; else with 0, warnings included.
    """
    with face.open(judges=True) as ledger:
        ledger.search_place = "on"
        found = ledger.doctor()
    if face.as_json:
        worst = max((finding.state for finding in found), key=ORDER.index)
        face.give({"place": ledger.place, "state": worst, "findings": [asdict(each) for each in found]})
    else:
        face.say(finding_lines(found, face.columns, ledger_option(face)))
    return exit_of(found)


def exit_of(found: list[Finding]) -> Exit:
    """The worst of what was found, by the one table of codes."""
    bad = {each.about for each in found if each.state == "bad"}
    if "store" in bad:
        return Exit.STORE
    if "keys" in bad:
        return Exit.ACCESS
    waits = any(each.name in NEEDS_PEOPLE and each.state == "warn" for each in found)
    if waits:
        return Exit.UNDECIDED
    # Nobody may take for healthy what could not be looked at.
    unseen = any(each.about == "work" and each.state == "unknown" for each in found)
    return Exit.TRY_AGAIN if unseen else Exit.DONE
