"""``counterfoil recover``: ends the doubt of effects whose worker is gone, and names what stays undecided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from counterfoil.cli.apps import APP_HELP, load
from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.recovered import recovered_lines
from counterfoil.cli.shapes import child_report_json, effect_report_json, row_json
from counterfoil.cli.verbs.worker import EVERY, serve
from counterfoil.core.ids import is_id
from counterfoil.errors import StreamNotFound
from counterfoil.projections.registry import declare_all
from counterfoil.runtime.recover import RecoveryReport

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger


@click.command(name="recover", short_help="End the doubt of effects whose worker is gone.")
@click.argument("only", metavar="[ID]...", nargs=-1)
@click.option("--app", metavar="MODULE", help=APP_HELP)
@click.option("--watch", is_flag=True, help="Go on until told to stop, and tell what happens.")
@EVERY
@face_options(ledger=True)
@pass_face
def command(face: Face, only: tuple[str, ...], app: str | None, watch: bool, every_s: float) -> int:
    """Look at every effect in doubt and end its doubt as its tool's rule says: ask the provider, or ask a person.

    Retries that are due are made too. ID names effects, runs, conversations or tools to look at. Without the tools' code, effects are listed and left.
    What waits in review is listed too. May be stopped and started again, and run anywhere at the same time. Exit
    code 3: something is still undecided, or waits for a person.
    """
    if watch and only:
        raise click.UsageError("--watch looks at everything; leave ID out")
    loaded = load(face, app)
    if watch:
        return serve(face, loaded, every_s=every_s, once=False, enter=False)
    with face.open(write=True) as ledger:
        declare_all(ledger)
        report = ledger.recover(only=[_id(ledger, name) for name in only] or None)
        if face.as_json:
            face.give(_json(report, loaded))
        else:
            face.say(recovered_lines(report, face.columns, ledger_option(face), loaded))
    return Exit.UNDECIDED if report.undecided else Exit.DONE


def _id(ledger: Ledger, name: str) -> str:
    """An id as it is; anything else is the name of a conversation, or of a tool."""
    if is_id(name, "eff", "run"):
        return name
    try:
        return ledger.stream_of(name)
    except StreamNotFound:
        return name


def _json(report: RecoveryReport, app: str | None) -> dict[str, Any]:
    return {
        "app": app,
        "effects": [effect_report_json(effect) for effect in report.effects],
        "retries": [effect_report_json(effect) for effect in report.retries],
        "waiting": [effect_report_json(effect) for effect in report.waiting],
        "children": [child_report_json(child) for child in report.children],
        "undecided": len(report.undecided),
        "tools_missing": report.tools_missing,
        "open_runs": [row_json(row) for row in report.open_runs],
    }
