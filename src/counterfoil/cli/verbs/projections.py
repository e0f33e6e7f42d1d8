"""``counterfoil projections``: how far each is kept, what it says now, and folding it anew."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import click

from counterfoil.cli.apps import APP_HELP
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.looking_back import declare_projections, view_json
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render.exact import written
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import count, moment, plural
from counterfoil.client.ledger import Ledger
from counterfoil.client.projector import View
from counterfoil.core.canonical import decode

PAGE: Final = 100

_app = click.option("--app", metavar="MODULE", help=APP_HELP)


@click.group(name="projections", short_help="State folded from events: list, show, rebuild.")
@face_options(ledger=True)
def command() -> None:
    """Projections: state that an application folds from events. It can be thrown away and made again."""


@command.command(name="ls", short_help="How far each projection is kept, and how far it lags.")
@click.argument("conversation", metavar="[CONVERSATION]", required=False)
@limit_option(PAGE, "Lines.")
@reading_options
@face_options(ledger=True)
@pass_face
def ls(face: Face, conversation: str | None, limit: int) -> int:
    """List the newest checkpoint of each projection in each conversation, with the events recorded since.

    No code of the application is needed. A checkpoint that was found and not used says why: its bytes were damaged,
    its form is not supported, it claimed more than the ledger holds, or it was of an older version.
    """
    with face.shows() as ledger:
        found = list(islice(ledger.projection_rows(conversation), limit + 1))
        if face.as_json:
            for row in found[:limit]:
                face.give(row)
            return Exit.DONE
        if not found:
            face.say(Line(Span("· no projection has been kept yet", "quiet")))
            return Exit.DONE
        face.say(_lines(found[:limit], face.columns))
        if len(found) > limit:
            face.say(Line(Span(f"  more than {count(limit)}: name a conversation, or give --limit", "quiet")))
    return Exit.DONE


def _lines(rows: list[dict[str, Any]], width: int) -> list[Line]:
    columns = (
        Column("projection", shrinks=True, least=12),
        Column("version", "right", yields=2),
        Column("kept at", "right"),
        Column("lag", "right"),
        Column("not used", yields=3),
        Column("kept (UTC)", yields=4),
        Column("conversation", yields=1),
    )
    return table(columns, [_row(row) for row in rows], width)


def _row(row: dict[str, Any]) -> list[Line]:
    newer = row["state"] == "rejected"
    return [
        Line(marked(str(row["projection"]))),
        Line(str(row["version"])),
        Line(count(row["up_to_sequence"])),
        Line(Span(count(row["lag"]), "quiet" if row["lag"] == 0 else "plain")),
        Line(Span(str(row["rejected"] or ""), "failure" if newer else "quiet")),
        Line(moment(int(row["at_ms"] or 0)).removesuffix("Z")),
        Line(str(row["stream_id"])),
    ]


@command.command(name="show", short_help="What a projection says now.")
@click.argument("name", metavar="PROJECTION")
@click.argument("conversation", metavar="[CONVERSATION]", required=False)
@_app
@reading_options
@face_options(ledger=True)
@pass_face
def show(face: Face, name: str, conversation: str | None, app: str | None) -> int:
    """Fold PROJECTION up to the last event, and print its state. Nothing is recorded.

    Without CONVERSATION it is one over all of them. A fold that fails says at which event; exit code 65.
    """
    with face.shows() as ledger:
        declare_projections(face, ledger, app)
        return _told(face, ledger.projection(name, conversation))


def _told(face: Face, view: View, *, shown: bool = True) -> int:
    if face.as_json:
        face.give(_json(view, shown=shown))
    if view.encoded is None:
        raise view.error()
    if not face.as_json:
        reached = f"{count(view.up_to_sequence)} of {plural(view.head_sequence, 'event')}"
        head = f"{view.name} version {view.version}"
        face.say(
            Line(Span(marked(head), "strong"), Span(f"  {reached}, from {count(view.began_at)}", "quiet"))
        )
        if shown:
            face.say([Line(f"  {marked(line)}") for line in written(decode(view.encoded))])
    return Exit.DONE


def _json(view: View, *, shown: bool) -> dict[str, Any]:
    return view_json(view) if shown else view_json(view) | {"state": None}


@command.command(name="rebuild", short_help="Fold a projection anew, from the first event.")
@click.argument("name", metavar="PROJECTION")
@click.argument("conversation", metavar="[CONVERSATION]", required=False)
@click.option("--all", "every", is_flag=True, help="In every conversation.")
@_app
@face_options(ledger=True)
@pass_face
def rebuild(face: Face, name: str, conversation: str | None, every: bool, app: str | None) -> int:
    """Fold PROJECTION from the first event and keep the result as its checkpoint.

    Without CONVERSATION it is one over all of them. With --all it is folded in every conversation; one whose fold stops
    is named, and the others go on. Exit code 65 where one has stopped. Where the configuration demands who reads, the
    state is kept and not printed: `projections show --as NAME --purpose TEXT` does.
    """
    if every and conversation is not None:
        raise click.UsageError("name a conversation, or say --all")
    with face.open(write=True) as ledger:
        declare_projections(face, ledger, app)
        if not every:
            return _told(face, ledger.rebuild_projection(name, conversation), shown=not face.guarded)
        return _rebuild_all(face, ledger, name)


def _rebuild_all(face: Face, ledger: Ledger, name: str) -> int:
    done, stopped = 0, 0
    with face.progress("folding", "conversations") as progress:
        for stream_id in _conversations(ledger):
            view = ledger.rebuild_projection(name, stream_id)
            done += 1
            stopped += view.encoded is None
            if face.as_json:
                face.give(_json(view, shown=not face.guarded))
            elif view.encoded is None:
                why = view.stopped.why if view.stopped else ""
                face.say(Line(Span("✗ ", "failure"), f"{stream_id}  {marked(why)}"))
            progress.at(done)
    if not face.as_json:
        face.say(Line(Span("✓ ", "good"), f"{plural(done - stopped, 'conversation')} folded anew"))
    return Exit.BAD_INPUT if stopped else Exit.DONE


def _conversations(ledger: Ledger) -> Iterator[str]:
    after = ""
    while page := ledger.store.streams(ledger.tenant, after, PAGE):
        yield from (one.stream_id for one in page if one.kind == "conversation")
        after = page[-1].stream_id
