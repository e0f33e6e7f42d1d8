"""``counterfoil hold``: let no new effect of a tool, a tenant or the whole ledger begin, until it is released."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face, reading_options
from counterfoil.cli.render.stopped import held_lines, lever_lines
from counterfoil.core.forms import time_text
from counterfoil.effects.holding import LeverMoved
from counterfoil.effects.state import IN_DOUBT
from counterfoil.store.rows import Row

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

IN_FLIGHT_MAX = 1_000
"""Effects under way that are counted after a lever was pulled."""


@click.group(name="hold", short_help="The stop lever: let no new effect begin.")
@face_options(ledger=True)
def command() -> None:
    """The stop lever: what it holds starts no new effect, in any process, until a person releases it."""


@command.command(name="set", short_help="Hold a tool, a tenant or everything.")
@click.option("--tool", metavar="NAME", help="One tool.")
@click.option("--all", "everywhere", is_flag=True, help="Every tenant of the ledger.")
@click.option("--by", metavar="NAME", required=True, help="Who holds it.")
@click.option("--reason", metavar="TEXT", required=True, help="Why.")
@face_options(ledger=True)
@pass_face
def set_(face: Face, tool: str | None, everywhere: bool, by: str, reason: str) -> int:
    """Refuse every new effect: of one tool (--tool), of a tenant (--tenant NAME), or of all tenants (--all).

    A call that comes then is refused with EffectHeld, on record, and its tool is not called. Calls under way are not
    touched: they go on and are recorded. Recovery still asks providers, and sends nothing. Holding again changes
    nothing.
    """
    _check(face, tool, everywhere)
    with face.open(write=True) as ledger:
        moved = ledger.hold(tool, by=by, reason=reason, everywhere=everywhere)
        under_way = _under_way(ledger, tool)
        if face.as_json:
            face.give({"levers": [_json(lever) for lever in moved], "under_way": len(under_way)})
        else:
            face.say(lever_lines(moved, under_way, ledger_option(face)))
    return Exit.DONE


@command.command(name="release", short_help="Release what is held.")
@click.option("--tool", metavar="NAME", help="One tool.")
@click.option("--all", "everywhere", is_flag=True, help="Every tenant of the ledger.")
@click.option("--by", metavar="NAME", required=True, help="Who releases it.")
@click.option("--reason", metavar="TEXT", required=True, help="Why.")
@face_options(ledger=True)
@pass_face
def release(face: Face, tool: str | None, everywhere: bool, by: str, reason: str) -> int:
    """Undo a hold of the same tool, tenant or ledger. A tool that is held in two ways stays held until both are released."""
    _check(face, tool, everywhere)
    with face.open(write=True) as ledger:
        moved = ledger.release(tool, by=by, reason=reason, everywhere=everywhere)
        if face.as_json:
            face.give({"levers": [_json(lever) for lever in moved]})
        else:
            face.say(lever_lines(moved, [], ledger_option(face)))
    return Exit.DONE


@command.command(name="ls", short_help="List what is held.")
@reading_options
@face_options(ledger=True)
@pass_face
def ls(face: Face) -> int:
    """List what is held in the tenant, since when, by whom and why."""
    with face.shows() as ledger:
        held = ledger.holds()
        if face.as_json:
            for lever in held:
                face.give(
                    {
                        "scope": lever.scope,
                        "tool": lever.tool,
                        "since": time_text(lever.since_ms),
                        "by": lever.by,
                        "reason": lever.reason,
                        "event_id": lever.event_id,
                    }
                )
        else:
            face.say(held_lines(held, face.columns, face.now_ms))
    return Exit.DONE


def _check(face: Face, tool: str | None, everywhere: bool) -> None:
    """Nobody stops everything by leaving an option out: a whole tenant is named."""
    if tool is not None and everywhere:
        raise click.UsageError("--tool and --all exclude each other")
    if tool is None and not everywhere and face.tenant is None:
        raise click.UsageError("say what: --tool NAME, --tenant NAME (`default` if you use none) or --all")


def _under_way(ledger: Ledger, tool: str | None) -> list[Row]:
    rows = [row for state in sorted(IN_DOUBT) for row in ledger.effects(state=state, limit=IN_FLIGHT_MAX)]
    return [row for row in rows if tool in (None, row["tool"])]


def _json(lever: LeverMoved) -> dict[str, object]:
    return {
        "tenant": lever.tenant,
        "scope": lever.scope,
        "tool": lever.tool or None,
        "state": lever.state,
        "repeated": lever.repeated,
    }
