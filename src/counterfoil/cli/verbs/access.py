"""``counterfoil access``: who was shown what, and why; breaking the glass."""

from __future__ import annotations

from itertools import islice

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render.accessed import decision_json, decision_lines
from counterfoil.cli.render.line import Line, Span
from counterfoil.client.access import STREAM


@click.group(name="access", short_help="Who was shown what, and why; breaking the glass.")
@face_options(ledger=True)
def command() -> None:
    """Access: the record of who was shown what, what for, and whether it was allowed."""


@command.command(name="ls", short_help="List decisions about access.")
@click.option("--after", type=click.IntRange(0), default=0, help="Go on after this one; the foot names it.")
@limit_option(50)
@reading_options
@face_options(ledger=True)
@pass_face
def ls(face: Face, after: int, limit: int) -> int:
    """List decisions in the order in which they were made: who, what for, what of, and by which rule.

    Who and what for are content: shown on record, as that of any conversation.
    """
    with face.open(write=face.reader is not None) as ledger:
        face.begin(ledger, ledger.streams.id_of(STREAM) if ledger.streams.exists(STREAM) else None)
        found = list(islice(ledger.access.decisions(after), limit + 1))
    if face.as_json:
        for line in found[:limit]:
            face.give(decision_json(line))
        return Exit.DONE
    face.say(decision_lines(found[:limit], face.columns))
    if len(found) > limit:
        more = f"--after {found[limit - 1].sequence}{ledger_option(face)}"
        face.say(Line(Span(f"  more: counterfoil access ls {more}", "quiet")))
    return Exit.DONE


@command.command(name="glass", short_help="Read for a while what your roles do not give.")
@click.option("--as", "actor", metavar="NAME", required=True, help="Who breaks it; it counts for them alone.")
@click.option("--reason", metavar="TEXT", required=True, help="Why.")
@click.option(
    "--minutes",
    type=click.FloatRange(0, 24 * 60),
    default=60,
    show_default=True,
    help="For how long; 0 ends it.",
)
@face_options(ledger=True)
@pass_face
def glass(face: Face, actor: str, reason: str, minutes: float) -> int:
    """Break the glass: read and search for a while what your roles do not give, if one of them lets you do this.

    Decision, reason and end are recorded first, and every reading is by itself.
    """
    with face.open(write=True) as ledger:
        until = ledger.access.break_glass(actor, reason, minutes=minutes)
    if face.as_json:
        face.give({"until": until, "closed": minutes == 0})
    elif minutes == 0:
        face.say(Line(Span("✓ ", "good"), "the glass is whole again"))
    else:
        face.say(Line(Span("■ ", "failure"), f"the glass is broken until {until}"))
    return Exit.DONE
