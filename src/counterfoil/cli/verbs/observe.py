"""``counterfoil observe``: keeps what a provider said by itself about an effect."""

from __future__ import annotations

from typing import cast

import click
from msgspec.structs import asdict

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.given import json_given
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.heard import heard_lines
from counterfoil.effects.doubt import OUTCOMES, Outcome
from counterfoil.effects.state import OPEN


@click.command(name="observe", short_help="Keep what a provider said by itself about an effect.")
@click.argument("key", metavar="KEY")
@click.option("--outcome", type=click.Choice(OUTCOMES), required=True, help="How it ended; failed: not done.")
@click.option("--tool", metavar="NAME", help="Refuse it if the key is another tool's.")
@click.option("--result", metavar="JSON", help="What the tool would have returned; the run gets it.")
@click.option("--provider-id", metavar="ID", help="The provider's own id of the effect.")
@click.option("--message", metavar="TEXT", default="", help="What the provider said of a refusal or failure.")
@click.option(
    "--delivery", metavar="ID", help="The provider's id of this message; again, it changes nothing."
)
@click.option("--attempt", metavar="N", type=click.IntRange(1), help="The attempt that a failure is about.")
@face_options(ledger=True)
@pass_face
def command(
    face: Face,
    /,
    key: str,
    outcome: str,
    tool: str | None,
    result: str | None,
    provider_id: str | None,
    message: str,
    delivery: str | None,
    attempt: int | None,
) -> int:
    """Keep what a provider said about the effect with this idempotency KEY (or eff_ id), as a webhook would.

    It ends doubt, never overwrites, and contradicts what is recorded otherwise; then a person is asked. The same message
    again changes nothing. Exit code 3: the effect is still, or again, undecided.
    """
    value = None if result is None else json_given("--result", result)
    with face.open(write=True) as ledger:
        heard = ledger.observe(
            key,
            cast("Outcome", outcome),
            tool=tool,
            result=value,
            provider_id=provider_id,
            message=message,
            delivery=delivery,
            attempt=attempt,
        )
        if face.as_json:
            face.give(asdict(heard))
        else:
            face.say(heard_lines(heard, ledger_option(face)))
    return Exit.UNDECIDED if heard.state in OPEN else Exit.DONE
