"""``counterfoil schedule``: what comes to conversations by itself: list, add, cancel."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.given import json_given
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render.scheduled import empty_lines, made_lines, over_lines, schedule_lines
from counterfoil.cli.shapes import row_json
from counterfoil.core.event_types import CLASSES, DEFAULT_CLASS
from counterfoil.core.forms import time_text
from counterfoil.errors import InvalidForm
from counterfoil.runtime.schedules.create import Schedule

if TYPE_CHECKING:
    from counterfoil.runtime.schedules.plan import Missed

STATES = ("active", "ended", "cancelled", "all")


@click.group(name="schedule", short_help="What comes by itself: list, add, cancel.")
@face_options(ledger=True)
def command() -> None:
    """Schedules: inputs that come to a conversation once, every so often or by the calendar; workers fire and run them."""


@command.command(name="ls", short_help="List schedules.")
@click.option("--conversation", metavar="NAME", help="Only those of this conversation.")
@click.option("--state", type=click.Choice(STATES), default="active", show_default=True, help="Which ones.")
@limit_option(50, "How many.")
@reading_options
@face_options(ledger=True)
@pass_face
def ls(face: Face, conversation: str | None, state: str, limit: int) -> int:
    """List schedules, the next due first. What they say is content and not shown."""
    with face.shows() as ledger:
        rows = ledger.schedules(conversation, None if state == "all" else state, limit)
        if face.as_json:
            for row in rows:
                face.give(row_json(row))
        elif not rows:
            face.say(empty_lines(ledger_option(face)))
        else:
            face.say(schedule_lines(rows, face.columns, face.now_ms))
    return Exit.DONE


@command.command(name="add", short_help="Add a schedule.")
@click.argument("agent", metavar="AGENT")
@click.option("--conversation", metavar="NAME", required=True, help="Where its inputs go.")
@click.option("--at", metavar="TIME", help="When, or first when: 2027-01-31T08:30:00+01:00.")
@click.option("--every", "every_s", metavar="SECONDS", type=float, help="How often.")
@click.option("--calendar", metavar="EXPRESSION", help='Five fields of cron: "30 8 * * mon-fri".')
@click.option("--zone", metavar="ZONE", default="UTC", show_default=True, help="The calendar's time zone.")
@click.option("--message", metavar="TEXT", help="What it says.")
@click.option("--json-message", metavar="JSON", help="What it says, as a JSON value.")
@click.option(
    "--missed",
    type=click.Choice(("latest", "all")),
    default="latest",
    show_default=True,
    help="Of times that pass while no worker looks: fire the last one, or each.",
)
@click.option(
    "--class",
    "classification",
    type=click.Choice(CLASSES),
    default=DEFAULT_CLASS,
    show_default=True,
    help="What the message is, and the runs that it begins.",
)
@click.option("--key", metavar="KEY", help="The same key is the same schedule, however often it is added.")
@face_options(ledger=True)
@pass_face
def add(
    face: Face, /, agent: str, at: str | None, message: str | None, json_message: str | None, **how: Any
) -> int:
    """Bring a message to a conversation by itself, for AGENT to run."""
    if message is not None and json_message is not None:
        raise click.UsageError("--message and --json-message exclude each other")
    value = message if json_message is None else json_given("--json-message", json_message)
    how["missed"] = cast("Missed", how["missed"])
    with face.open(write=True) as ledger:
        made = ledger.schedule(agent, message=value, at=None if at is None else _time(at), **how)
        if face.as_json:
            face.give(_json(made))
        else:
            face.say(made_lines(made, ledger_option(face)))
    return Exit.DONE


@command.command(name="cancel", short_help="End a schedule.")
@click.argument("schedule_id", metavar="ID")
@click.option("--by", metavar="NAME", required=True, help="Who ends it.")
@face_options(ledger=True)
@pass_face
def cancel(face: Face, schedule_id: str, by: str) -> int:
    """End a schedule as the person NAME. What it brought before goes on; ending it again changes nothing."""
    with face.open(write=True) as ledger:
        over = ledger.cancel_schedule(schedule_id, by=by)
        if face.as_json:
            face.give(_json(over))
        else:
            face.say(over_lines(over))
    return Exit.DONE


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidForm("--at is no time: write 2027-01-31T08:30:00+01:00", argument="at") from None
    if found.utcoffset() is None:
        raise InvalidForm("--at needs a zone: +01:00, or Z for UTC", argument="at")
    return found.astimezone(UTC)


def _json(schedule: Schedule) -> dict[str, Any]:
    return {
        "schedule_id": schedule.schedule_id,
        "stream_id": schedule.stream_id,
        "kind": schedule.kind,
        "state": schedule.state,
        "due_at": time_text(schedule.due_ms),
        "repeated": schedule.repeated,
    }
