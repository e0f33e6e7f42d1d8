"""``counterfoil rehearse``: run a run again with another model or policy, as a new run whose effects are not made."""

from __future__ import annotations

import click

from counterfoil.cli import apps
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.naming import named_object, named_policy
from counterfoil.cli.options import face_options, pass_face, reading_options
from counterfoil.cli.render.rehearsed import rehearsal_json, rehearsal_lines
from counterfoil.projections.registry import declare_all


@click.command(name="rehearse", short_help="Run a run again with another model or policy.")
@click.argument("run_id", metavar="RUN")
@click.option("--app", metavar="MODULE", help=apps.APP_HELP)
@click.option(
    "--model", metavar="MODULE:NAME", help="The model to ask; default: recorded answers, else the agent's."
)
@click.option(
    "--policy",
    metavar="MODULE:NAME|FILE",
    help="The policy to obey: an object, or a file of Cedar policies (….cedar).",
)
@click.option(
    "--block-steps", is_flag=True, help="Block steps that the record has no result of; default: run them."
)
@reading_options
@face_options(ledger=True)
@pass_face
def command(
    face: Face, run_id: str, app: str | None, model: str | None, policy: str | None, block_steps: bool
) -> int:
    """Run the registered agent of an ended run again as a new run, with another model or policy, and compare the two.

    No tool is called: a call gets the outcome that the run has on record for the same tool and arguments, or it is
    blocked. Nobody is asked for an approval. The new run names the old one, and lies in a conversation of its own.
    The same prompt does not bring the same completion again.
    """
    apps.load(face, app)
    asked = None if model is None else named_object(face, model, "--model")
    ruling = None if policy is None else named_policy(face, policy)
    with face.open(write=True) as ledger:
        declare_all(ledger)
        # What is compared is shown, and the code is given what the record holds.
        face.begin(ledger)
        done = ledger.rehearse(run_id, model=asked, policy=ruling, steps="block" if block_steps else "run")
    if face.as_json:
        face.give(rehearsal_json(done))
    else:
        face.say(rehearsal_lines(done, face.columns))
    return Exit.DONE
