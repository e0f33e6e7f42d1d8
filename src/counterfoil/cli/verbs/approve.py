"""``counterfoil approve``: what waits for somebody's permission, what it asks exactly, and the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit, failure_of
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render import approved
from counterfoil.cli.render.failure import failure_lines
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.shapes import row_json
from counterfoil.errors import CounterfoilError
from counterfoil.flow.event import Event
from counterfoil.store.rows import Row

if TYPE_CHECKING:
    from counterfoil.approvals.answer import Answered
    from counterfoil.client.ledger import Ledger

STATES = ("pending", "granted", "denied", "revoked", "expired", "consumed", "all")
BATCH_MAX = 10_000

_by = click.option("--by", metavar="NAME", required=True, help="Who answers.")
_comment = click.option("--comment", metavar="TEXT", default="", help="What to say with it.")
_tool = click.option("--tool", metavar="NAME", help="Only calls of this tool.")
_run = click.option("--run", "run_id", metavar="ID", help="Only those of this run.")
_conversation = click.option("--conversation", metavar="NAME", help="Only those of this conversation.")
_assignee = click.option("--assignee", metavar="NAME", help="Only those that name this person.")


@click.group(name="approve", short_help="What waits for permission: list, show, grant, deny, revoke.")
@face_options(ledger=True)
def command() -> None:
    """Approvals: calls that a policy put to people, bound to exactly what was asked."""


@command.command(name="ls", short_help="List approvals.")
@click.option("--state", type=click.Choice(STATES), default="pending", show_default=True, help="Which ones.")
@_tool
@_run
@_conversation
@_assignee
@click.option("--overdue", is_flag=True, help="Only those whose answer was due before now.")
@click.option("--after", metavar="ID", help="Go on after this one.")
@limit_option(50)
@reading_options
@face_options(ledger=True)
@pass_face
def ls(face: Face, /, state: str, overdue: bool, after: str | None, limit: int, **filters: str | None) -> int:
    """List approvals, the longest waiting first."""
    with face.shows() as ledger:
        wanted = _filters(ledger, **filters)
        rows = ledger.approvals(
            None if state == "all" else state, overdue=overdue, after=after, limit=limit + 1, **wanted
        )
        if face.as_json:
            for row in rows[:limit]:
                face.give(_json(row, face.now_ms))
        elif not rows:
            face.say(approved.empty_lines(state, ledger_option(face)))
        else:
            face.say(approved.approval_lines(rows[:limit], face.columns, face.now_ms))
            if len(rows) > limit:
                last = rows[limit - 1]["approval_id"]
                more = f"  more: counterfoil approve ls --state {state} --after {last!s}{ledger_option(face)}"
                face.say(Line(Span(more, "quiet")))
    return Exit.DONE


@command.command(name="show", short_help="Show exactly what an approval asks.")
@click.argument("approval_id", metavar="ID")
@reading_options
@face_options(ledger=True)
@pass_face
def show(face: Face, approval_id: str) -> int:
    """Show what is asked exactly, why, of whom, and what was answered.

    Exit code 3 while it is pending.
    """
    from counterfoil.client.reading import conversation

    with face.shows() as ledger:
        asked = _asked(ledger, approval_id)
        if face.as_json:
            face.give(approved.asked_json(asked, _json(asked.row, face.now_ms)))
        else:
            info = conversation(ledger.ports, str(asked.row["stream_id"]))
            face.say(approved.approval_page(asked, info, face.now_ms, face.columns, ledger_option(face)))
        state = _json(asked.row, face.now_ms)["state"]
    return Exit.UNDECIDED if state == "pending" else Exit.DONE


@command.command(name="grant", short_help="Grant an approval as a named person.")
@click.argument("approval_id", metavar="ID")
@_by
@_comment
@face_options(ledger=True)
@pass_face
def grant(face: Face, approval_id: str, by: str, comment: str) -> int:
    """Permit the call as the person NAME, who must not be the one for whom the run acts.

    It is used once, by exactly the call that was asked about. Granting again changes nothing.
    """
    return _answer(face, "approve", approval_id, by, comment)


@command.command(name="deny", short_help="Deny an approval as a named person.")
@click.argument("approval_id", metavar="ID")
@_by
@_comment
@face_options(ledger=True)
@pass_face
def deny(face: Face, approval_id: str, by: str, comment: str) -> int:
    """Refuse the call as the person NAME: its code gets ApprovalDenied."""
    return _answer(face, "deny", approval_id, by, comment)


@command.command(name="revoke", short_help="Take an approval back that was not used yet.")
@click.argument("approval_id", metavar="ID")
@_by
@_comment
@face_options(ledger=True)
@pass_face
def revoke(face: Face, approval_id: str, by: str, comment: str) -> int:
    """Take back what was asked for or granted, before it is used."""
    return _answer(face, "revoke", approval_id, by, comment)


@command.command(name="batch", short_help="Answer many at once: named ones, or all that fit.")
@click.argument("answer", type=click.Choice(["grant", "deny", "revoke"]))
@click.argument("ids", metavar="[ID]...", nargs=-1)
@_by
@_comment
@_tool
@_run
@_conversation
@_assignee
@click.option("--dry-run", is_flag=True, help="Only list what would be answered.")
@face_options(ledger=True)
@pass_face
def batch(
    face: Face,
    /,
    answer: str,
    ids: tuple[str, ...],
    by: str,
    comment: str,
    dry_run: bool,
    **filters: str | None,
) -> int:
    """Answer the approvals named, or all that fit the filters: pending ones, and for revoke those not used yet.

    Each is answered by itself: one that cannot be is named, and the others are answered all the same.
    """
    _check_person(by)
    if bool(ids) == any(filters.values()):
        raise click.UsageError(
            "name the approvals, or say by --tool, --run, --conversation or --assignee which"
        )
    verb = {"grant": "approve", "deny": "deny", "revoke": "revoke"}[answer]
    with face.open(write=not dry_run) as ledger:
        chosen = list(ids) or _fitting(ledger, "granted" if answer == "revoke" else "pending", filters)
        code = Exit.DONE
        for approval_id in chosen:
            if dry_run:
                _list(face, _asked(ledger, approval_id).row)
            else:
                done = _one(face, ledger, verb, approval_id, by, comment)
                code = code or done
    return code


def _fitting(ledger: Ledger, state: str, filters: dict[str, str | None]) -> list[str]:
    rows = ledger.approvals(state, limit=BATCH_MAX, **_filters(ledger, **filters))
    return [str(row["approval_id"]) for row in rows]


def _list(face: Face, row: Row) -> None:
    if face.as_json:
        face.give(_json(row, face.now_ms))
    else:
        face.say(approved.approval_lines([row], face.columns, face.now_ms)[1:])


def _one(face: Face, ledger: Ledger, verb: str, approval_id: str, by: str, comment: str) -> Exit:
    try:
        answered: Answered = getattr(ledger, verb)(approval_id, by=by, comment=comment)
    except CounterfoilError as error:
        failure = failure_of(error)
        if face.as_json:
            face.give({"approval_id": approval_id, **failure.to_json()})
        else:
            face.note(failure_lines(failure, face.columns))
        return failure.exit
    if face.as_json:
        face.give(_answered_json(answered))
    else:
        face.say(approved.answered_lines(answered, ledger_option(face))[:1])
    return Exit.DONE


def _answer(face: Face, verb: str, approval_id: str, by: str, comment: str) -> int:
    _check_person(by)
    with face.open(write=True) as ledger:
        answered: Answered = getattr(ledger, verb)(approval_id, by=by, comment=comment)
        if face.as_json:
            face.give(_answered_json(answered))
        else:
            face.say(approved.answered_lines(answered, ledger_option(face)))
    return Exit.DONE


def _check_person(by: str) -> None:
    if not by.strip():
        raise click.UsageError("--by says who answers, and may not be empty")


def _answered_json(answered: Answered) -> dict[str, Any]:
    return {
        "approval_id": answered.approval_id,
        "effect_id": answered.effect_id,
        "stream_id": answered.stream_id,
        "run_id": answered.run_id,
        "answer": answered.answer,
        "state": "pending" if answered.state.startswith("pending") else answered.state,
        "repeated": answered.repeated,
    }


def _filters(
    ledger: Ledger,
    tool: str | None = None,
    run_id: str | None = None,
    conversation: str | None = None,
    assignee: str | None = None,
) -> dict[str, str | None]:
    stream_id = None if conversation is None else ledger.stream_of(conversation)
    return {"tool": tool, "run_id": run_id, "stream_id": stream_id, "assignee": assignee}


def _asked(ledger: Ledger, approval_id: str) -> approved.Asked:
    from counterfoil.client.approving import approval_row

    row = approval_row(ledger.ports, approval_id)
    sequence = int(row["requested_sequence"] or 1)
    stream_id, run_id = str(row["stream_id"]), str(row["run_id"])
    (request,) = ledger.events(stream_id, sequence - 1, limit=1)
    # The ruling stands before the request, in the same append.
    before = ledger.events(
        stream_id, max(0, sequence - 2), types=["policy.evaluated"], run_id=run_id, limit=1
    )
    ruling = next((event for event in before if _is_about(event, row)), None)
    later = ledger.events(stream_id, sequence, run_id=run_id)
    story = [
        event for event in later if event.data.get("approval_id") == approval_id and "approval" in event.type
    ]
    return approved.Asked(row, request, ruling, story)


def _is_about(event: Event, row: Row) -> bool:
    return (event.data["effect_id"], event.data["binding"]) == (row["effect_id"], row["binding"])


def _json(row: Row, now_ms: int) -> dict[str, Any]:
    from counterfoil.client.approving import state_now

    return row_json(row) | {"state": state_now(row, now_ms)}
