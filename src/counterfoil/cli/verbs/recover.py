"""``counterfoil recover``: ends the doubt of effects whose worker is gone, and names what stays undecided."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.recovered import recovered_lines
from counterfoil.cli.shapes import row_json
from counterfoil.client.config import import_app, load_app
from counterfoil.core.ids import is_id
from counterfoil.errors import StreamNotFound
from counterfoil.runtime.recover import EffectReport, RecoveryReport

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger


@click.command(name="recover", short_help="End the doubt of effects whose worker is gone.")
@click.argument("only", metavar="[ID]...", nargs=-1)
@click.option(
    "--app", metavar="MODULE", help="The module that declares the tools; default: app in counterfoil.toml."
)
@face_options(ledger=True)
@pass_face
def command(face: Face, only: tuple[str, ...], app: str | None) -> int:
    """Look at every effect in doubt and end its doubt as its tool's rule says: ask the provider, or ask a person.

    ID names effects, runs, conversations or tools to look at. Without the tools' code, effects are listed and left.
    What waits in review is listed too. May be stopped and started again, and run anywhere at the same time. Exit
    code 3: something is still undecided, or waits for a person.
    """
    loaded = _load(face, app)
    with face.open(write=True) as ledger:
        report = ledger.recover(only=[_id(ledger, name) for name in only] or None)
        if face.as_json:
            face.give(_json(report, loaded))
        else:
            face.say(recovered_lines(report, face.columns, ledger_option(face), loaded))
    return Exit.UNDECIDED if report.undecided else Exit.DONE


def _load(face: Face, app: str | None) -> str | None:
    """Import the tools; the name of their module, or None if none is named."""
    if app is None:
        return load_app(face.config)
    here = str((face.directory or Path.cwd()).resolve())
    if here not in sys.path:
        sys.path.insert(0, here)
    hint = "name a module that Python can import from this directory, such as shop.agents"
    return import_app(app, f"--app {app}", hint)


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
        "effects": [_effect(effect) for effect in report.effects],
        "retries": [_effect(effect) for effect in report.retries],
        "waiting": [_effect(effect) for effect in report.waiting],
        "undecided": len(report.undecided),
        "tools_missing": report.tools_missing,
        "open_runs": [row_json(row) for row in report.open_runs],
    }


def _effect(effect: EffectReport) -> dict[str, Any]:
    return {
        "effect_id": effect.effect_id,
        "tool": effect.tool,
        "tool_version": effect.tool_version,
        "run_id": effect.run_id,
        "stream_id": effect.stream_id,
        "done": effect.done,
        "state": effect.state,
        "why": effect.why,
    }
