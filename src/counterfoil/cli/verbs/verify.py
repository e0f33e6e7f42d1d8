"""``counterfoil verify``: every stored byte checked, and what that proves and cannot see."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from counterfoil.cli.exits import Exit, failure_of
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.proof import Exhibit, exhibit
from counterfoil.cli.render.verified import report_lines
from counterfoil.core.ids import is_id
from counterfoil.errors import LedgerLost, SchemaTooNew, SchemaUnknown, StoreCorrupt, StreamNotFound
from counterfoil.evidence.report import GRADES, LEVELS, Grade, Level, Report

MARK_AT = 68
"""Where SQLite keeps a file's application id."""

NAMES_MAX = 50
PAGE_STREAMS = 500


@click.command(name="verify", short_help="Check every stored byte, and say what that proves.")
@click.argument("conversations", metavar="[CONVERSATION]...", nargs=-1)
@click.option(
    "--require", type=click.Choice(list(GRADES)), default="A0", show_default=True, help="The grade to reach."
)
@click.option(
    "--level",
    type=click.Choice(list(LEVELS)),
    default="content",
    show_default=True,
    help="How deep: hashes; stored records too; records opened.",
)
@click.option("--no-rows", is_flag=True, help="Leave out the derived rows.")
@face_options(ledger=True)
@pass_face
def command(face: Face, conversations: tuple[str, ...], require: str, level: str, no_rows: bool) -> int:
    """Check the ledger, or some CONVERSATIONs, and say what is broken, what is proven and what was not covered.

    Exit code 0: intact at the required grade. 1: broken. 2: intact below the required grade.
    """
    try:
        with exhibit(face) as found:
            report = _verify(
                face, found, conversations, cast("Grade", require), cast("Level", level), not no_rows
            )
            if face.as_json:
                face.give(report.to_json())
            else:
                streams = {finding.stream_id for finding in report.findings if finding.stream_id}
                names = found.names(sorted(streams)[:NAMES_MAX])
                face.say(report_lines(report, face.columns, names, found.place))
    except (StoreCorrupt, LedgerLost) as damage:
        # A file too damaged to be read record by record is broken, whatever else may be said of it.
        face.tell(failure_of(damage, Exit.BROKEN))
        return Exit.BROKEN
    except SchemaTooNew as newer:
        # Not broken for all this version knows, and not proven either (FORMAT 19).
        face.tell(failure_of(newer, Exit.BELOW_GRADE))
        return Exit.BELOW_GRADE
    except SchemaUnknown as damage:
        if not _is_marked(face.place):
            raise
        face.tell(failure_of(damage, Exit.BROKEN))
        return Exit.BROKEN
    return report.exit_code


def _is_marked(place: str) -> bool:
    """Whether the database says in its first bytes that it is a ledger: then what it does not say was taken away."""
    from counterfoil.adapters.sqlite import DATABASE_NAME
    from counterfoil.adapters.sqlite.schema import APPLICATION_ID

    try:
        with (Path(place).expanduser() / DATABASE_NAME).open("rb") as file:
            return file.read(MARK_AT + 4)[MARK_AT:] == APPLICATION_ID.to_bytes(4)
    except OSError:
        return False


def _verify(
    face: Face, found: Exhibit, conversations: tuple[str, ...], require: Grade, level: Level, rows: bool
) -> Report:
    from counterfoil.client.features import FEATURES
    from counterfoil.evidence.verify import verify

    streams = [_stream(found, name) for name in conversations] or None
    total = _events(found, streams)
    with face.progress("verifying", "events") as progress:
        return verify(
            found.store,
            found.keyring,
            FEATURES,
            streams=streams,
            level=level,
            require=require,
            rows=rows,
            registry=None if found.ledger is None else found.ledger.registry,
            key_store_id=found.recorded_key_store(),
            keys_fault=found.keys_fault,
            artifacts=found.artifacts,
            progress=lambda done: progress.at(done, total),
        )


def _stream(found: Exhibit, name: str) -> str:
    if is_id(name, "str"):
        return name
    if found.ledger is None:
        raise StreamNotFound(
            "names cannot be looked up in this ledger", hint="verify without one, or by str_… id"
        )
    return found.ledger.stream_of(name)


def _events(found: Exhibit, streams: list[str] | None) -> int | None:
    """How many events there are to look at, as the head rows say; for the progress bar alone."""
    if streams is None:
        return _all_events(found)
    heads = [found.store.head(stream_id) for stream_id in streams]
    return sum(head.sequence for head in heads if head is not None)


def _all_events(found: Exhibit) -> int | None:
    total, after = 0, ""
    while page := found.store.streams(after=after, limit=PAGE_STREAMS):
        try:
            total += sum(stream.head.sequence for stream in page)
        except TypeError:
            return None  # a head row was changed; verify itself names it
        after = page[-1].stream_id
    return total
