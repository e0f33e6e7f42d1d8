"""``counterfoil slots``: what a conversation keeps between its runs, and how each of it came about."""

from __future__ import annotations

from typing import Any

import click

from counterfoil.cli.commanding import ledger_option, word
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.slotted import slot_lines
from counterfoil.client.stating import Slot
from counterfoil.core.forms import time_text
from counterfoil.errors import ContentUnavailable, NotFoundError


@click.group(name="slots", short_help="State slots of a conversation: list, history.")
@face_options(ledger=True)
def command() -> None:
    """State slots: named values that the runs of a conversation set and clear. Only runs do; here they are shown."""


@command.command(name="ls", short_help="List the slots that hold a value.")
@click.argument("conversation", metavar="CONVERSATION")
@click.option("--at", type=click.IntRange(0), metavar="N", help="As they were at this sequence.")
@limit_option(50)
@reading_options
@face_options(ledger=True)
@pass_face
def ls(face: Face, conversation: str, at: int | None, limit: int) -> int:
    """List the slots of CONVERSATION that hold a value, by name: the value, its version, and the run that set it."""
    with face.shows(conversation) as ledger:
        found = ledger.slots(conversation, at)
        _tell(face, found[:limit], "no slot holds a value")
    if len(found) > limit and not face.as_json:
        face.say(Line(Span(f"  {len(found) - limit} more: give --limit", "quiet")))
    return Exit.DONE


@command.command(name="history", short_help="Every version of one slot.")
@click.argument("conversation", metavar="CONVERSATION")
@click.argument("slot", metavar="SLOT")
@limit_option(50)
@reading_options
@face_options(ledger=True)
@pass_face
def history(face: Face, conversation: str, slot: str, limit: int) -> int:
    """List every version of SLOT, the newest first: the value that was set, or that it was cleared, when and by which run.

    SLOT is its name as the code gave it, or the ~… that stands for one in the open.
    """
    with face.shows(conversation) as ledger:
        found = ledger.slot_history(conversation, slot, limit + 1)
        if not found:
            raise NotFoundError(
                "this conversation has never set such a slot",
                hint=f"`counterfoil slots ls {word(conversation, 'C')}{ledger_option(face)}` lists them",
            )
        _tell(face, found[:limit], "")
    if len(found) > limit and not face.as_json:
        face.say(Line(Span("  older ones: give --limit", "quiet")))
    return Exit.DONE


def _tell(face: Face, slots: list[Slot], none: str) -> None:
    if face.as_json:
        for slot in slots:
            face.give(_json(slot))
    elif not slots:
        face.say(Line(Span(f"· {none}", "quiet")))
    else:
        face.say(slot_lines(slots, face.columns))


def _json(slot: Slot) -> dict[str, Any]:
    event = slot.event
    state, value = event.content_state, None
    if slot.holds:
        try:
            value = event.content["value"]
        except ContentUnavailable as error:
            state = error.fields.get("state", state)
    return {
        "slot": slot.name,
        "state": "set" if slot.holds else "cleared",
        "version": slot.version,
        "sequence": slot.sequence,
        "recorded_at": time_text(event.recorded_at_ms),
        "run_id": slot.run_id,
        "event_id": event.event_id,
        "content_state": state,
        "value": value,
    }
