"""``counterfoil repair``: undo what was wrong by new effects, see how far it came, and correct what was recorded."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from msgspec.structs import replace

from counterfoil.cli.apps import APP_HELP, load
from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.finding import find
from counterfoil.cli.given import json_given
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render import repaired
from counterfoil.cli.render.draw import timeline_lines
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.timeline import timeline
from counterfoil.cli.shapes import row_json, timeline_row_json
from counterfoil.core.ids import is_id
from counterfoil.effects.rows import EFFECTS
from counterfoil.errors import InvalidForm, PolicyMissing
from counterfoil.flow.event import Event
from counterfoil.repair.play import AGENT
from counterfoil.repair.state import RESULTS, STATES, RepairResult
from counterfoil.runtime.agents import find_agent
from counterfoil.store.rows import Row

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger
    from counterfoil.effects.compensation import PlannedCall
    from counterfoil.repair.play import RepairReport

F = TypeVar("F", bound=Callable[..., Any])

POLICY: Final = "policy"
"""The name in the app's module under which its policy is looked for."""

_by = click.option("--by", metavar="NAME", required=True, help="Who does it.")
_reason = click.option("--reason", metavar="TEXT", required=True, help="Why.")
_residual = click.option("--residual", metavar="TEXT", help="What remains of it, whatever is undone.")
_app = click.option("--app", metavar="MODULE", help=APP_HELP)
_unruled = click.option(
    "--without-policy", is_flag=True, help="Go on although the policy of the run is not loaded."
)


@click.group(name="repair", short_help="Undo what was wrong, on record: start, show, resume, close, correct.")
@face_options(ledger=True)
def command() -> None:
    """Repairs: what was wrong is undone by new effects, and nothing that is recorded is edited."""


@command.command(name="ls", short_help="List repairs.")
@click.option(
    "--state", type=click.Choice([*STATES, "all"]), default="open", show_default=True, help="Which ones."
)
@click.option("--after", metavar="ID", help="Go on after this one.")
@limit_option(50)
@reading_options
@face_options(ledger=True)
@pass_face
def ls(face: Face, state: str, after: str | None, limit: int) -> int:
    """List repairs, the oldest first."""
    with face.shows() as ledger:
        rows = ledger.repairs(None if state == "all" else state, after=after, limit=limit + 1)
        if face.as_json:
            for row in rows[:limit]:
                face.give(row_json(row))
        elif not rows:
            face.say(repaired.empty_lines(state, ledger_option(face)))
        else:
            pairs = [(row, _effect(ledger, row["effect_id"])) for row in rows[:limit]]
            face.say(repaired.repair_lines(pairs, face.columns, face.now_ms))
            if len(rows) > limit:
                last = rows[limit - 1]["repair_id"]
                more = f"  more: counterfoil repair ls --state {state} --after {last!s}{ledger_option(face)}"
                face.say(Line(Span(more, "quiet")))
    return Exit.DONE


@command.command(name="plan", short_help="Show what would undo an effect.")
@click.argument("effect_id", metavar="EFFECT")
@_app
@reading_options
@face_options(ledger=True)
@pass_face
def plan(face: Face, effect_id: str, app: str | None) -> int:
    """Show the calls that would undo EFFECT, as its tool declares them, and what nothing undoes. Nothing is recorded."""
    load(face, app)
    with face.shows() as ledger:
        declared = ledger.repair_plan(effect_id)
        if face.as_json:
            calls = [
                {
                    "tool": call.tool.name,
                    "tool_version": call.tool.version,
                    "arguments": repaired.plain(call.arguments),
                }
                for call in declared.calls
            ]
            face.give({"effect_id": effect_id, "calls": calls, "irreversible": declared.irreversible})
        else:
            row = _effect(ledger, effect_id) or {}
            face.say(repaired.plan_lines(row, declared, face.columns, ledger_option(face)))
    return Exit.DONE


@command.command(name="start", short_help="Open a repair and make its calls.")
@click.argument("target", metavar="EFFECT")
@_by
@_reason
@click.option("--owner", metavar="NAME", help="Who sees to it; default: who opens it.")
@click.option("--evidence", metavar="JSON", help="What shows that it was wrong.")
@_residual
@click.option(
    "--call",
    "calls",
    metavar="TOOL JSON",
    type=(str, str),
    multiple=True,
    help="A call to make in place of what the tool declares: a tool and its arguments. May be repeated.",
)
@click.option("--by-hand", is_flag=True, help="Make no calls: a person sees to it, and closes the case.")
@click.option(
    "--open-only", is_flag=True, help="Put the case and its plan on record; `repair resume` makes the calls."
)
@_app
@_unruled
@face_options(ledger=True)
@pass_face
def start(
    face: Face,
    /,
    target: str,
    by: str,
    reason: str,
    owner: str | None,
    evidence: str | None,
    residual: str | None,
    calls: Sequence[tuple[str, str]],
    by_hand: bool,
    open_only: bool,
    app: str | None,
    without_policy: bool,
) -> int:
    """Undo EFFECT (eff_…, or another event, evt_…) as the person NAME: the case is recorded, then its calls are made.

    Each call is an effect as any: under the policy and with the approvals that it needs, sent once whatever crashes.
    The same person starting it for the same reason again goes on with it. Exit code 3 while the repair is open.
    """
    if by_hand and calls:
        raise click.UsageError("--by-hand makes no calls, and --call names one")
    load(face, app)
    chosen = [_call(name, given) for name, given in calls]
    with face.open(write=True) as ledger:
        if not (by_hand or open_only):
            _rule(face, ledger, target, app, without_policy=without_policy)
        opened = ledger.open_repair(
            target,
            by=by,
            reason=reason,
            owner=owner,
            evidence=None if evidence is None else json_given("--evidence", evidence),
            residual_impact=residual,
            calls=[] if by_hand else chosen or None,
        )
        go_on = ledger.repair_report if by_hand or open_only else ledger.resume_repair
        return _tell(face, go_on(opened.repair_id), app)


@command.command(name="show", short_help="Show a repair: the case, its plan, and both sides.")
@click.argument("repair_id", metavar="ID")
@reading_options
@face_options(ledger=True)
@pass_face
def show(face: Face, repair_id: str) -> int:
    """Show who repairs what and why, how far it came, and the effect beside those that undo it.

    Exit code 3 while the repair is open.
    """
    with face.shows() as ledger:
        row = ledger.repair_row(repair_id)
        report = ledger.repair_report(repair_id)
        events = _events(ledger, row, report)
        opened = next(event for event in events if event.data.get("repair_id") == repair_id)
        drawn = timeline(events, now_ms=face.now_ms, ledger_option=ledger_option(face), folded=False)
        if face.as_json:
            told = {"row": row_json(row), "content": opened.content_or_none(), **repaired.report_json(report)}
            face.give({**told, "timeline": [timeline_row_json(each) for each in drawn.rows]})
        else:
            face.say(repaired.case_lines(report, opened, face.columns, face.now_ms))
            face.say(timeline_lines(drawn, face.columns, face.now_ms))
            face.say(Line())
            face.say(repaired.way_out(report, ledger_option(face)))
    return Exit.UNDECIDED if report.open else Exit.DONE


@command.command(name="resume", short_help="Go on with an open repair.")
@click.argument("repair_id", metavar="ID")
@_app
@_unruled
@face_options(ledger=True)
@pass_face
def resume(face: Face, repair_id: str, app: str | None, without_policy: bool) -> int:
    """Go on with a repair: calls that were made are answered from the record, the others are made.

    Exit code 3 while the repair is open.
    """
    load(face, app)
    with face.open(write=True) as ledger:
        row = ledger.repair_row(repair_id)
        if row["state"] == "open":
            _rule(face, ledger, str(row["subject"]), app, without_policy=without_policy)
        return _tell(face, ledger.resume_repair(repair_id), app)


@command.command(name="close", short_help="Close a repair by hand as a named person.")
@click.argument("repair_id", metavar="ID")
@click.option("--result", type=click.Choice(RESULTS), required=True, help="How far it came.")
@_by
@_reason
@_residual
@face_options(ledger=True)
@pass_face
def close(face: Face, repair_id: str, result: str, by: str, reason: str, residual: str | None) -> int:
    """Close a repair as the person NAME.

    repaired: it is undone, by calls or otherwise. partial: some of it is. irreversible: nothing undoes it. Refused while
    a call of it is in doubt or in review. Closing it like this again changes nothing.
    """
    with face.open(write=True) as ledger:
        report = ledger.close_repair(
            repair_id, cast("RepairResult", result), by=by, reason=reason, residual_impact=residual
        )
        return _tell(face, report)


@command.command(name="correct", short_help="Record the right value beside a recorded event.")
@click.argument("event", metavar="EVENT")
@_by
@_reason
@click.option("--value", metavar="JSON", required=True, help="What is right.")
@click.option("--evidence", metavar="JSON", help="What shows that it is.")
@face_options(ledger=True)
@pass_face
def correct(face: Face, event: str, by: str, reason: str, value: str, evidence: str | None) -> int:
    """Say as the person NAME what is right in place of what EVENT (evt_…) says. The event stays as it was recorded."""
    right = json_given("--value", value)
    shown = None if evidence is None else json_given("--evidence", evidence)
    with face.open(write=True) as ledger:
        made = ledger.correct(event, right, by=by, reason=reason, evidence=shown)
        if face.as_json:
            face.give(
                {
                    "event_id": made.event_id,
                    "corrects": made.corrects,
                    "stream_id": made.stream_id,
                    "repeated": made.repeated,
                }
            )
        else:
            face.say(repaired.corrected_lines(made, ledger_option(face)))
    return Exit.DONE


# ---- inside ------------------------------------------------------------------------------------------------------


def _tell(face: Face, report: RepairReport, app: str | None = None) -> Exit:
    if face.guarded:
        # What remains is content; who acts is on record, and who reads is not.
        report = replace(report, residual_impact=None)
    if face.as_json:
        face.give(repaired.report_json(report))
    else:
        app_option = "" if app is None else f" --app {shlex.quote(app)}"
        face.say(repaired.moved_lines(report, face.columns, ledger_option(face), app_option))
    return Exit.UNDECIDED if report.open else Exit.DONE


def _rule(face: Face, ledger: Ledger, target: str, app: str | None, *, without_policy: bool) -> None:
    """Put the app's policy in force: what an agent may not do unasked, nobody does by a repair either (DESIGN 7)."""
    module, agent = sys.modules.get(app or face.config.app or ""), find_agent(AGENT)
    ledger.policy = getattr(module, POLICY, None) or (None if agent is None else agent.policy)
    if ledger.policy is None and not without_policy and _was_ruled(ledger, target):
        raise PolicyMissing(
            f"{target} was under a policy, and none is in force here",
            hint=f"name it `{POLICY}` in the module of the tools, or say --without-policy",
            target=target,
        )


def _was_ruled(ledger: Ledger, target: str) -> bool:
    """Whether the run of an effect asked a policy."""
    effect = _effect(ledger, target)
    if effect is None:
        return False
    stream_id, run_id = str(effect["stream_id"]), str(effect["run_id"])
    ruled = ledger.events(stream_id, types=["policy.evaluated"], run_id=run_id, limit=1)
    return next(iter(ruled), None) is not None


def _call(name: str, given: str) -> PlannedCall:
    from counterfoil.effects.registry import tool_of

    arguments = json_given(f"--call {name}", given)
    if not isinstance(arguments, dict):
        raise InvalidForm(
            f"the arguments of {name} are an object of names and values",
            argument="--call",
            hint='{"order": "O-1"}',
        )
    return tool_of(name).later(**arguments)


def _effect(ledger: Ledger, effect_id: Any) -> Row | None:
    if not isinstance(effect_id, str) or not is_id(effect_id, "eff"):
        return None
    row = ledger.store.get(EFFECTS.name, (effect_id,))
    return row if row is not None and row["tenant"] == ledger.tenant else None


def _events(ledger: Ledger, row: Row, report: RepairReport) -> list[Event]:
    """What belongs to a repair: the effect or event, the effects that undo it, and the case itself."""
    effects = {report.effect_id, *(step.effect_id for step in report.steps)} - {None}
    events = {row["supersedes"]}
    effect = _effect(ledger, report.effect_id)
    named = None if effect is not None else find(ledger, (str(row["supersedes"]),))
    start = int((effect or {}).get("first_sequence") or 0)
    if named is not None and named.stored is not None:
        start = named.stored.sequence
    return [
        event
        for event in ledger.events(report.stream_id, max(0, start - 1))
        if event.event_id in events
        or event.data.get("effect_id") in effects
        or event.data.get("repair_id") == report.repair_id
    ]
