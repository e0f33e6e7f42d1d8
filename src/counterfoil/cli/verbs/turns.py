"""``counterfoil turns``: the turns of a ledger or of a journal beside another agent, newest first."""

from __future__ import annotations

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render import turned
from counterfoil.cli.turning import journal_option, opened_journal
from counterfoil.journal.answers import info_json
from counterfoil.journal.contract import MAX_LIST
from counterfoil.journal.event import TurnInfo


@click.command(name="turns", short_help="List turns, the newest first.")
@click.option("--agent", metavar="NAME", help="Only turns of this agent.")
@click.option(
    "--session",
    metavar="NAME",
    help="Only turns of this session: a conversation, or what the journal was told.",
)
@limit_option(MAX_LIST)
@journal_option
@reading_options
@face_options(ledger=True)
@pass_face
def command(face: Face, agent: str | None, session: str | None, limit: int, journal: str | None) -> int:
    """List turns with the status of each: completed, cancelled, refused, error:… or open.

    Every run of a ledger has a turn. --journal reads the journal of another agent instead; its sessions are found by
    name, or by their digest where the journal has a key of its own.
    """
    found = _found(face, agent, session, limit, journal)
    if face.as_json:
        for info in found:
            face.give(info_json(info))
    elif not found:
        face.say(turned.empty_lines(ledger_option(face)))
    else:
        face.say(turned.turn_lines(found, face.columns))
    return Exit.DONE


def _found(
    face: Face, agent: str | None, session: str | None, limit: int, journal: str | None
) -> list[TurnInfo]:
    if journal is None:
        with face.shows() as ledger:
            return ledger.turns(agent=agent, session=session, limit=limit)
    from counterfoil.core.forms import is_digest
    from counterfoil.journal.digests import session_digest

    wanted = session if session is None or is_digest(session) else session_digest(session)
    with opened_journal(face, journal) as (reader, tenant):
        return reader.turns(tenant, agent_id=agent, session_hash=wanted, limit=limit)
