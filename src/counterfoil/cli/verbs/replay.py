"""``counterfoil replay``: run a recorded run's code again on its record, and say whether it behaves the same."""

from __future__ import annotations

import click
import msgspec

from counterfoil.cli import apps
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face, reading_options
from counterfoil.cli.render.replayed import replay_lines
from counterfoil.projections.registry import declare_all


@click.command(name="replay", short_help="Run a run's code again on its record.")
@click.argument("run_id", metavar="RUN")
@click.option("--app", metavar="MODULE", help=apps.APP_HELP)
@reading_options
@face_options(ledger=True)
@pass_face
def command(face: Face, run_id: str, app: str | None) -> int:
    """Run the registered agent of an ended run again on its recorded answers and results, and compare its behaviour.

    No model, tool or step is called and nothing is recorded; at the first thing that the record does not hold the code
    is stopped, and both sides are shown. A replay says what the code does with these answers, not what a model would
    answer today. Exit code 4: it behaves otherwise than recorded.
    """
    # The code is given what the record holds, and where it leaves that, both sides are shown.
    face.demand(face.reader, "--as")
    apps.load(face, app)
    with face.shows() as ledger:
        declare_all(ledger)
        done = ledger.replay(run_id)
    if face.as_json:
        face.give({"same": done.same, **msgspec.to_builtins(done)})
    else:
        face.say(replay_lines(done, face.columns))
    return Exit.DONE if done.same else Exit.CONFLICT
