"""``counterfoil shadow``: what a policy that is only tried out would have refused, asked about or changed."""

from __future__ import annotations

import click

from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face, reading_options
from counterfoil.cli.render.stopped import shadow_line_table
from counterfoil.cli.shapes import row_json
from counterfoil.client.shadowing import shadow_calls


@click.command(name="shadow", short_help="What a policy in shadow would have refused.")
@click.option("--policy", metavar="NAME", help="Of this policy.")
@click.option("--revision", metavar="NAME", help="Of this revision.")
@click.option(
    "--calls", is_flag=True, help="Each call that would not have been allowed, as JSON, one a line."
)
@reading_options
@face_options(ledger=True)
@pass_face
def command(face: Face, policy: str | None, revision: str | None, calls: bool) -> int:
    """Count what policies in shadow ruled: what would have been denied, put to people or changed, and was made.

    A policy is put in shadow where the ledger is opened: policy=shadow(policy).
    """
    with face.shows() as ledger:
        if calls:
            for row in shadow_calls(ledger.ports, policy, revision):
                if row["outcome"] != "allow":
                    face.give({**row_json(row), "rules": str(row["rules"]).split()})
            return Exit.DONE
        lines = ledger.shadowed(policy, revision)
        if face.as_json:
            for line in lines:
                face.give(
                    {
                        "policy": line.policy,
                        "revision": line.revision,
                        "outcome": line.outcome,
                        "rules": list(line.rules),
                        "tool": line.tool or None,
                        "calls": line.calls,
                        "made": line.made,
                    }
                )
        else:
            face.say(shadow_line_table(lines, face.columns))
    return Exit.DONE
