"""``counterfoil review``: what waits for a person, all that is known of it, and its settlement."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.given import json_given, time_given
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render.draw import timeline_lines
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.reviewed import assigned_lines, review_heading, settled_lines
from counterfoil.cli.render.timeline import timeline
from counterfoil.cli.shapes import row_json, timeline_row_json
from counterfoil.cli.verbs.ls import reviews
from counterfoil.client.reading import conversation
from counterfoil.core.forms import time_text
from counterfoil.effects.decide import ReviewCause
from counterfoil.effects.rows import EFFECTS, REVIEWS
from counterfoil.effects.settle import SettledOutcome
from counterfoil.errors import ReviewNotFound
from counterfoil.flow.event import Event
from counterfoil.store.rows import Row

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger


@click.group(name="review", short_help="What waits for a person: list, show, assign, settle.")
@face_options(ledger=True)
def command() -> None:
    """Reviews: effects that no machine could bring to an outcome, which wait for a person."""


@command.command(name="ls", short_help="List reviews.")
@click.option(
    "--state",
    type=click.Choice(["open", "settled", "all"]),
    default="open",
    show_default=True,
    help="Which ones.",
)
@click.option("--tool", metavar="NAME", help="Only effects of this tool.")
@click.option("--cause", type=click.Choice(get_args(ReviewCause)), help="Only those asked for this reason.")
@click.option("--run", "run_id", metavar="ID", help="Only those of this run.")
@click.option("--conversation", metavar="NAME", help="Only those of this conversation.")
@click.option("--assignee", metavar="NAME", help="Only those that this person has.")
@click.option("--unassigned", is_flag=True, help="Only those that nobody has.")
@click.option("--overdue", is_flag=True, help="Only those that were due before now.")
@click.option("--after", metavar="ID", help="Go on after this one.")
@limit_option(50)
@reading_options
@face_options(ledger=True)
@pass_face
def ls(
    face: Face, /, state: str, after: str | None, limit: int, conversation: str | None, **filters: Any
) -> int:
    """List reviews, the longest waiting first."""
    with face.shows() as ledger:
        given = {"conversation": conversation, "run": filters["run_id"], **filters}
        words = "".join(
            f" --{name}" if value is True else f" --{name} {shlex.quote(value)}"
            for name, value in given.items()
            if value and name != "run_id"
        )
        stream_id = None if conversation is None else ledger.stream_of(conversation)
        reviews(face, ledger, state, after, limit, words, stream_id=stream_id, **filters)
    return Exit.DONE


@command.command(name="assign", short_help="Give a review to a named person.")
@click.argument("review_id", metavar="ID")
@click.option("--to", metavar="NAME", required=True, help="Who should settle it.")
@click.option("--by", metavar="NAME", required=True, help="Who gives it to them.")
@click.option(
    "--due", metavar="TIME", help="By when: 2026-09-01T12:00Z, or a span from now such as 4h or 2d."
)
@click.option("--note", metavar="TEXT", default="", help="What to say with it.")
@face_options(ledger=True)
@pass_face
def assign(face: Face, review_id: str, to: str, by: str, due: str | None, note: str) -> int:
    """Give an open review to the person NAME, with the time by which it should be settled.

    The last assignment counts. Anybody may settle the review all the same; who did stands in the record.
    """
    if not to.strip() or not by.strip():
        raise click.UsageError("--to and --by are names of people; neither may be empty")
    when = None if due is None else time_given("--due", due, face.now_ms)
    with face.open(write=True) as ledger:
        assigned = ledger.assign(review_id, to, by=by, note=note, due=when)
        if face.as_json:
            due_at = None if assigned.due_at_ms is None else time_text(assigned.due_at_ms)
            told = {"review_id": review_id, "effect_id": assigned.effect_id, "assignee": to, "due_at": due_at}
            face.give({**told, "stream_id": assigned.stream_id})
        else:
            face.say(assigned_lines(assigned, ledger_option(face)))
    return Exit.DONE


@command.command(name="show", short_help="Show all that is known of a review.")
@click.argument("review_id", metavar="ID")
@reading_options
@face_options(ledger=True)
@pass_face
def show(face: Face, review_id: str) -> int:
    """Show the effect of a review as its pair: what was intended, what came of it, who was asked and why.

    Exit code 3 while the review is open.
    """
    with face.shows() as ledger:
        row, effect = _review(ledger, review_id)
        events = list(_events(ledger, effect))
        info = conversation(ledger.ports, str(row["stream_id"]))
        drawn = timeline(events, now_ms=face.now_ms, ledger_option=ledger_option(face), folded=False)
        if face.as_json:
            pair = next((timeline_row_json(found) for found in drawn.rows), None)
            face.give({"review": row_json(row), "effect": row_json(effect), "timeline": pair})
        else:
            face.say(review_heading(row, effect, info, face.now_ms, face.columns))
            face.say(timeline_lines(drawn, face.columns, face.now_ms, full=True))
            face.say(
                Line(Span(f"  the run: counterfoil show {row['run_id']!s}{ledger_option(face)}", "quiet"))
            )
    return Exit.UNDECIDED if row["state"] == "open" else Exit.DONE


@command.command(name="settle", short_help="Settle a review as a named person.")
@click.argument("review_id", metavar="ID")
@click.option("--outcome", type=click.Choice(get_args(SettledOutcome)), required=True, help="How it ended.")
@click.option("--by", metavar="NAME", required=True, help="Who settles it.")
@click.option("--reason", metavar="TEXT", required=True, help="How that is known.")
@click.option(
    "--result",
    metavar="JSON",
    help='What the tool would have returned; the run gets it. Exact decimals: {"$decimal":"1.10"}.',
)
@face_options(ledger=True)
@pass_face
def settle(face: Face, review_id: str, outcome: str, by: str, reason: str, result: str | None) -> int:
    """Settle a review as the person NAME.

    succeeded: it happened. rejected: the provider refused for good. failed: it is known not to have happened.
    abandoned: nobody knows, and it is given up. None of them sends it again. The same settlement again changes
    nothing; another one is a conflict.

    The result is JSON with the tags of FORMAT 2: {"$decimal":"1.10"} is a Decimal, {"$datetime":"…"} a time. Integers
    are exact; a number with a fraction is a float, and one that a float cannot hold exactly is refused.
    """
    if not by.strip() or not reason.strip():
        raise click.UsageError("--by and --reason say who and why; neither may be empty")
    value = None if result is None else json_given("--result", result)
    with face.open(write=True) as ledger:
        settled = ledger.settle(
            review_id, cast("SettledOutcome", outcome), by=by, reason=reason, result=value
        )
        _, effect = _review(ledger, review_id)
        if face.as_json:
            told = {
                "review_id": settled.review_id,
                "effect_id": settled.effect_id,
                "stream_id": settled.stream_id,
                "outcome": settled.outcome,
                "repeated": settled.repeated,
                "without_content": settled.without_content,
            }
            face.give(told)
        else:
            face.say(settled_lines(settled, effect, ledger_option(face)))
    return Exit.DONE


def _review(ledger: Ledger, review_id: str) -> tuple[Row, Row]:
    row = ledger.store.get(REVIEWS.name, (review_id,))
    if row is None or row["tenant"] != ledger.tenant:
        raise ReviewNotFound(
            f"there is no review {review_id} in {ledger.place}",
            hint="`counterfoil review ls` lists them",
            review_id=review_id,
        )
    return row, ledger.store.get(EFFECTS.name, (row["effect_id"],)) or {}


def _events(ledger: Ledger, effect: Row) -> list[Event]:
    """Every event of an effect: those of its run, and what was told about it from outside."""
    if not effect:
        return []
    start = int(effect["first_sequence"] or 1) - 1
    found = ledger.events(str(effect["stream_id"]), start, run_id=str(effect["run_id"]))
    return [event for event in found if event.data.get("effect_id") == effect["effect_id"]]
