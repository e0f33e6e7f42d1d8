"""``counterfoil artifacts``: the bytes outside the events: list them, get one, check them all."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render import artifact_rows
from counterfoil.cli.render.artifact_rows import Listed, short
from counterfoil.cli.render.cells import text
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import plural
from counterfoil.cli.shapes import row_json
from counterfoil.errors import CounterfoilError, InvalidForm
from counterfoil.store.rows import Row

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

NAME_CHARACTERS_MAX: Final = 120
STANDARD_OUTPUT: Final = "-"

_conversation = click.option("--conversation", metavar="NAME", help="Only those of this conversation.")


@click.group(name="artifacts", short_help="Bytes outside the events: list, get, verify.")
@face_options(ledger=True)
def command() -> None:
    """Artifacts: files and large values that lie outside the events, encrypted, each under the SHA-256 of its object."""


@command.command(name="ls", short_help="List artifacts.")
@_conversation
@click.option("--run", "run_id", metavar="ID", help="Only those of this run.")
@click.option("--spilled", is_flag=True, help="Values that moved out of events too.")
@click.option("--after", metavar="STREAM SHA256", nargs=2, help="Go on after this one.")
@limit_option(50)
@reading_options
@face_options(ledger=True)
@pass_face
def ls(
    face: Face,
    conversation: str | None,
    run_id: str | None,
    spilled: bool,
    after: tuple[str, str] | None,
    limit: int,
) -> int:
    """List artifacts, the oldest first. A name is content: where it cannot be opened the line says so."""
    with face.shows() as ledger:
        found = ledger.artifacts.rows(
            conversation, run_id=run_id, spilled=spilled, after=after, limit=limit + 1
        )
        listed = [_listed(ledger, row) for row in found[:limit]]
        if face.as_json:
            for entry in listed:
                face.give(artifact_rows.listed_json(entry, row_json(entry.row)))
            return Exit.DONE
        if not listed:
            face.say(artifact_rows.empty_lines(ledger_option(face)))
            return Exit.DONE
        face.say(artifact_rows.artifact_lines(listed, _names(ledger, listed), face.columns))
        if len(found) > limit:
            last = listed[-1].row
            more = f"--after {text(last, 'stream_id')} {text(last, 'sha256')}{ledger_option(face)}"
            face.say(Line(Span(f"  more: counterfoil artifacts ls {more}", "quiet")))
    return Exit.DONE


@command.command(name="get", short_help="Write the bytes of an artifact to a new file.")
@click.argument("name", metavar="SHA256")
@click.option(
    "--out", metavar="FILE", help="The file to make; - is standard output. Default: its recorded name."
)
@_conversation
@reading_options
@face_options(ledger=True)
@pass_face
def get(face: Face, name: str, out: str | None, conversation: str | None) -> int:
    """Write the bytes of the artifact that SHA256, or 6 hex or more of its beginning, names.

    The file appears when all bytes are checked; one that exists is not overwritten. Its recorded name came from
    outside: only its last part is used, without characters that a shell or a terminal takes for something else.
    """
    with face.open(write=face.reader is not None) as ledger:
        face.begin(ledger, None if conversation is None else ledger.stream_of(conversation))
        found = ledger.artifacts.find(name, conversation)
        if out == STANDARD_OUTPUT:
            face.flush()
            for piece in found.pieces():
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return Exit.DONE
        path = Path(safe_name(found.name, found.sha256) if out is None else out)
        try:
            found.save(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InvalidForm(
                f"there is no directory {path.parent} for {path.name}", hint="make it first", path=str(path)
            ) from error
        except IsADirectoryError as error:
            raise InvalidForm(
                f"{path} is a directory", hint="name a file to make with --out", path=str(path)
            ) from error
        except FileExistsError as error:
            raise InvalidForm(
                f"{path} exists and is not overwritten", hint="name another file with --out", path=str(path)
            ) from error
        if face.as_json:
            told = {"sha256": found.sha256, "class": found.klass, "bytes": found.size, "path": str(path)}
            face.give(told)
        else:
            size = plural(found.size, "byte")
            face.say(Line(Span("✓ ", "good"), f"{marked(str(path))}  {size} of {short(found.sha256)}"))
    return Exit.DONE


@command.command(name="verify", short_help="Read artifacts and check every byte.")
@click.argument("names", metavar="[SHA256]...", nargs=-1)
@_conversation
@face_options(ledger=True)
@pass_face
def verify(face: Face, names: tuple[str, ...], conversation: str | None) -> int:
    """Read the artifacts named, or all, and name those that are missing or damaged.

    Exit code 1 if there is one, 77 if some could not be opened for want of a key and the others are sound.
    """
    with face.open(judges=True) as ledger:
        rows = [ledger.artifacts.row(name, conversation) for name in names] or _kept(ledger, conversation)
        unsound = _unsound(face, ledger, rows)
        if face.as_json:
            for entry in unsound:
                face.give(artifact_rows.listed_json(entry, row_json(entry.row)))
            face.give({"artifacts": len(rows), "unsound": len(unsound)})
        else:
            face.say(artifact_rows.checked_lines(unsound, len(rows), ledger_option(face)))
    states = {entry.state for entry in unsound}
    if states - {"withheld"}:
        return Exit.BROKEN
    return Exit.ACCESS if states else Exit.DONE


def _kept(ledger: Ledger, conversation: str | None) -> list[Row]:
    return [row for row in ledger.artifacts.rows(conversation) if row["state"] == "stored"]


def _unsound(face: Face, ledger: Ledger, rows: list[Row]) -> list[Listed]:
    found: list[Listed] = []
    with face.progress("reading", "artifacts") as progress:
        for number, row in enumerate(rows, 1):
            state = ledger.artifacts.look(row)
            progress.at(number, len(rows))
            if state.word != "present":
                found.append(Listed(row, None, None, None, state.word, state.reason))
    return found


def _listed(ledger: Ledger, row: Row) -> Listed:
    from counterfoil.client.artifacts import recorded

    try:
        event = recorded(ledger.ports, row)
        content = event.outline_or_none() or {}
    except (CounterfoilError, LookupError) as error:
        return Listed(row, None, None, None, "damaged", str(error))
    size = content.get("bytes")
    return Listed(
        row,
        _text(content.get("name")),
        _text(content.get("media_type")),
        size if type(size) is int else None,
        event.content_state,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _names(ledger: Ledger, listed: Iterable[Listed]) -> dict[str, str]:
    from counterfoil.client.reading import conversation

    streams = {str(entry.row["stream_id"]) for entry in listed}
    return {stream: conversation(ledger.ports, stream).name or stream for stream in streams}


def safe_name(name: str | None, sha256: str) -> str:
    """A file name made of a recorded one, which came from outside; the object's own where nothing is left of it."""
    last = re.split(r"[/\\]", name or "")[-1]
    kept = re.sub(r"[^A-Za-z0-9._-]+", "_", last).lstrip(".-")[:NAME_CHARACTERS_MAX]
    return kept if kept.strip("._-") else sha256[:16]
