"""``counterfoil restore``: the ledger of a backup, which is read until a person accepts what is lost."""

from __future__ import annotations

import click

from counterfoil.cli.commanding import word
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import plural
from counterfoil.client.restoring import LOOK_BACK_DAYS


@click.command(name="restore", short_help="Make the ledger of a backup, and accept what is lost.")
@click.argument("source", metavar="FILE|LEDGER")
@click.option("--to", "target", metavar="DIR", help="Where the ledger of FILE is made; nothing is there yet.")
@click.option("--accept-loss", is_flag=True, help="Record what is lost, and let the restored LEDGER go on.")
@click.option("--by", metavar="NAME", help="Who accepts it.")
@click.option("--reason", metavar="TEXT", help="Why.")
@click.option(
    "--look-back-days",
    metavar="N",
    type=float,
    default=LOOK_BACK_DAYS,
    show_default=True,
    help="How long effects are asked for before they are sent.",
)
@face_options(ledger=False)
@pass_face
def command(
    face: Face,
    source: str,
    target: str | None,
    accept_loss: bool,
    by: str | None,
    reason: str | None,
    look_back_days: float,
) -> None:
    """Restore the backup FILE into DIR: it is read and verified, and takes no appends.

    Then look at it, and let it go on: `counterfoil restore DIR --accept-loss --by NAME --reason TEXT`. What was recorded
    after the backup is lost. An effect that was sent then is found at its provider before it would be sent again.
    """
    from counterfoil.client.restoring import accept_loss as accept
    from counterfoil.client.restoring import restore_backup

    if accept_loss == (target is not None):
        raise click.UsageError("give FILE with --to DIR, or LEDGER with --accept-loss")
    if target is not None:
        with face.progress("restoring") as progress:
            done = restore_backup(
                source, target, clock=face.clock, progress=lambda _, n, total: progress.at(n, total)
            )
    elif not by or not reason:
        raise click.UsageError("--accept-loss needs --by and --reason")
    else:
        done = accept(source, by=by, reason=reason, look_back_days=look_back_days, clock=face.clock)
    if face.as_json:
        face.give(done.to_json())
        return
    of = f"{plural(done.events, 'event')} in {plural(done.streams, 'stream')}, taken {done.taken_at}"
    face.say(Line(Span("✓ ", "good"), Span(marked(done.place), "strong"), f"  {of}"))
    where = word(done.place, "DIR")
    if done.standing == "restored":
        face.say(Line("  it is read and verified; what was recorded after it was taken is not in it"))
        face.say(Line(Span(f"  look: counterfoil verify --ledger {where}", "quiet")))
        next_ = f"  then: counterfoil restore {where} --accept-loss --by NAME --reason TEXT"
        face.say(Line(Span(next_, "quiet")))
    else:
        face.say(Line("  it goes on; the loss is on record"))
        face.say(Line(Span(f"  next: counterfoil recover --ledger {where}", "quiet")))
