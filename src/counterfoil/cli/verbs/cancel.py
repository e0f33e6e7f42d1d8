"""``counterfoil cancel``: end a run from outside, at its next call or at once."""

from __future__ import annotations

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.stopped import cancelled_lines
from counterfoil.effects.state import OPEN


@click.command(name="cancel", short_help="End a run from outside.")
@click.argument("run_id", metavar="RUN")
@click.option("--by", metavar="NAME", required=True, help="Who cancels it.")
@click.option("--reason", metavar="TEXT", required=True, help="Why.")
@face_options(ledger=True)
@pass_face
def command(face: Face, run_id: str, by: str, reason: str) -> int:
    """End a run as cancelled.

    A worker that holds it ends it at its next call: an effect under way is never aborted, and no other one is sent. A
    run that waits, or whose worker is gone, ends here. What it left in doubt is recovered and settled all the same.
    Cancelling again changes nothing; a run that had ended otherwise is a conflict (exit code 4).
    """
    with face.open(write=True) as ledger:
        done = ledger.cancel(run_id, by=by, reason=reason)
        doubt = [row for row in ledger.effects(run_id=run_id) if row["state"] in OPEN]
        if face.as_json:
            face.give(
                {
                    "run_id": done.run_id,
                    "stream_id": done.stream_id,
                    "done": done.done,
                    "repeated": done.repeated,
                    "open_effects": [str(row["effect_id"]) for row in doubt],
                }
            )
        else:
            face.say(cancelled_lines(done, doubt, ledger_option(face)))
    return Exit.DONE
