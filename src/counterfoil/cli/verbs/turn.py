"""``counterfoil turn``: one turn stage by stage, and whether it is as it was written."""

from __future__ import annotations

from typing import Any

import click

from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face, reading_options
from counterfoil.cli.render import turned
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.turning import FoundTurn, find_turn, journal_option
from counterfoil.journal.answers import event_json


@click.group(name="turn", short_help="Show or check one turn.")
@face_options(ledger=True)
def command() -> None:
    """Turns: what a user saw of an agent as an ordered, chained record of digests."""


@command.command(name="show", short_help="Show a turn stage by stage.")
@click.argument("turn_id", metavar="ID")
@journal_option
@reading_options
@face_options(ledger=True)
@pass_face
def show(face: Face, turn_id: str, journal: str | None) -> int:
    """Show the stages of a turn, by its own id or its run's, and whether its chain holds."""
    found = find_turn(face, turn_id, journal)
    if face.as_json:
        events = [event_json(event) for event in found.events]
        face.give(_json(found) | {"events": events})
    else:
        face.say(
            turned.turn_page(
                found.events, found.chain, face.columns, closed=found.closed, hidden=found.readable_apart
            )
        )
    return Exit.DONE


@command.command(name="verify", short_help="Check a turn's chain.")
@click.argument("turn_id", metavar="ID")
@journal_option
@reading_options
@face_options(ledger=True)
@pass_face
def verify(face: Face, turn_id: str, journal: str | None) -> int:
    """Recompute the chain of a turn, and name the first event that an edit, removal, insertion or new order reaches.

    Exit code 1: it is broken. Exit code 77: content that it is made of cannot be read.
    """
    found = find_turn(face, turn_id, journal)
    if face.as_json:
        face.give(_json(found))
    else:
        face.say(
            [*turned.chain_lines(found.chain, face.columns, closed=found.closed, hidden=found.readable_apart)]
        )
        if found.chain.intact and (found.closed is None or found.compared):
            face.say(turned.proof_lines(found.head, face.columns, kept=found.kept, ledger=journal is None))
    if not found.chain.intact:
        return Exit.BROKEN
    return Exit.ACCESS if found.closed in {"withheld", "missing"} else Exit.DONE


@command.command(name="keep", short_help="Keep the heads of ended turns in the ledger.")
@click.option("--session", metavar="NAME", help="Only turns of this conversation.")
@face_options(ledger=True)
@pass_face
def keep(face: Face, session: str | None) -> int:
    """Record the heads of ended turns that the ledger does not keep yet, one turn.committed for each.

    For runs that ended by another's hand or before heads were kept. A worker does the same where counterfoil.toml says
    turns = true.
    """
    with face.open(write=True) as ledger:
        told = ledger.keep_turns(session=session)
    return _tell(face, told, "no head of a turn is due", "heads kept")


@command.command(name="abandon", short_help="Say of turns that nobody is at them any more.")
@click.option(
    "--older-than",
    "older_than_s",
    metavar="SECONDS",
    type=click.FloatRange(0, 3_155_760_000),
    default=86_400.0,
    show_default=True,
    help="How long nothing came to them.",
)
@face_options(ledger=True)
@pass_face
def abandon(face: Face, older_than_s: float) -> int:
    """Record turn.abandoned, with the head so far, for turns whose worker is gone and that nothing came to for so long.

    Their runs stay open: recover, and the same code run again, go on with them.
    """
    with face.open(write=True) as ledger:
        told = ledger.abandon_turns(older_than_s)
    return _tell(face, told, "no turn is left alone for so long", "turns given up")


def _tell(face: Face, turns: list[str], none: str, some: str) -> int:
    if face.as_json:
        for turn_id in turns:
            face.give({"turnId": turn_id})
    elif not turns:
        face.say([Line(Span("· ", "quiet"), none)])
    else:
        face.say([Line(turn_id) for turn_id in turns])
        face.note(Line(Span(f"{len(turns)} {some}", "quiet")))
    return Exit.DONE


def _json(found: FoundTurn) -> dict[str, Any]:
    return {
        "turnId": found.events[0].turn_id,
        "agentId": found.events[0].agent_id,
        "chainIntact": found.chain.intact,
        "brokenAtSeq": found.chain.broken_at_seq,
        "what": found.chain.what or None,
        "head": found.head,
        "headKept": found.kept,
        "contentState": found.closed,
        "unreadableSeqs": {str(seq): state for seq, state in found.hidden.items()},
    }
