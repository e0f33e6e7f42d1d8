"""``counterfoil rebuild``: makes every derived row again from the events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.rebuilt import rebuilt_lines

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

PAGE_STREAMS = 500


@click.command(name="rebuild", short_help="Make the derived rows again from the events.")
@face_options(ledger=True)
@pass_face
def command(face: Face) -> None:
    """Make every derived row again from the events: what `verify` advises where rows differ from them.

    Lists, states and the keys that keep an effect from being sent twice are rows. Writers wait meanwhile, and nothing
    is seen half made. Rows of a broken stream, and those made from content that cannot be opened, stay as they are.
    """
    with face.open(write=True) as ledger:
        total = _events(ledger)
        with face.progress("rebuilding", "events") as progress:
            found = ledger.rebuild(lambda done: progress.at(done, total))
        if face.as_json:
            face.give(found.to_json())
        else:
            face.say(rebuilt_lines(found, face.columns, ledger_option(face)))


def _events(ledger: Ledger) -> int:
    """How many events there are to look at, as the head rows say; for the progress bar alone."""
    total, after = 0, ""
    while page := ledger.store.streams(after=after, limit=PAGE_STREAMS):
        total += sum(stream.head.sequence for stream in page if type(stream.head.sequence) is int)
        after = page[-1].stream_id
    return total
