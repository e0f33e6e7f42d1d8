"""``counterfoil worker``: goes on with what can go on, until it is told to stop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from msgspec.structs import asdict

from counterfoil.cli.apps import APP_HELP, load
from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.worked import happened_lines, working_lines
from counterfoil.cli.shapes import child_report_json, effect_report_json
from counterfoil.cli.signals import told_to_stop
from counterfoil.effects.registry import tools
from counterfoil.projections.registry import declare_all
from counterfoil.runtime.agents import agents
from counterfoil.runtime.children.recover import ChildReport
from counterfoil.runtime.recover import EffectReport
from counterfoil.runtime.schedules.fire import Fired
from counterfoil.runtime.turn import TurnKept
from counterfoil.runtime.worker import Entry, Happening, Lapsed, Started

EVERY = click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    type=click.FloatRange(0.05, 86_400),
    default=1.0,
    show_default=True,
    help="How often it looks while there is nothing to do.",
)


@click.command(name="worker", short_help="Go on with what can go on, until told to stop.")
@click.option("--app", metavar="MODULE", help=APP_HELP)
@EVERY
@click.option("--once", is_flag=True, help="Do what is due now, then leave.")
@face_options(ledger=True)
@pass_face
def command(face: Face, app: str | None, every_s: float, once: bool) -> int:
    """End doubt, make due retries, fire schedules, enter registered agents again, and start inputs that wait.

    A run can go on when its approval was answered or has expired, its review is settled, its retry is due, or its worker
    is gone. Any number of workers may run at the same time, anywhere. SIGTERM and Ctrl-C let it finish what it is at and
    leave with 0 and 130; a second one leaves at once, and the next worker goes on.
    """
    loaded = load(face, app)
    return serve(face, loaded, every_s=every_s, once=once, enter=True)


def serve(face: Face, app: str | None, *, every_s: float, once: bool, enter: bool) -> int:
    """Work on the ledger of this command until told to stop, and tell each thing as it happens."""
    with face.open(write=True) as ledger:
        declare_all(ledger)
        option = ledger_option(face)

        def tell(happened: Happening) -> None:
            if face.as_json:
                face.give(_json(happened))
            else:
                face.say(happened_lines(happened, face.columns, option))
            face.flush()

        # What a digest stands for is on record before anything is intended under it here.
        ledger.record_tools()
        worker = ledger.worker(every_s=every_s, agents=enter, tell=tell)
        # Whoever reads that it works may tell it to stop.
        with told_to_stop(worker.stop) as told:
            if not face.as_json:
                names = [agent.name for agent in agents()] if enter else None
                face.note(working_lines(app, [tool.name for tool in tools()], names, once=once))
            if once:
                while worker.look() and not worker.stopping:
                    pass
            else:
                worker.work()
        if not face.as_json and told.number is not None:
            face.note(Line(Span("stopped; nothing is left half done", "quiet")))
    return told.exit if told.number is not None else Exit.DONE


def _json(happened: Happening) -> dict[str, Any]:
    if isinstance(happened, EffectReport):
        return {"effect": effect_report_json(happened)}
    if isinstance(happened, ChildReport):
        return {"child": child_report_json(happened)}
    if isinstance(happened, Lapsed):
        return {"approval": asdict(happened)}
    if isinstance(happened, TurnKept):
        return {"turn": asdict(happened)}
    if isinstance(happened, Fired):
        return {"schedule": asdict(happened)}
    if isinstance(happened, Started):
        return {"input": dict(_started(happened))}
    return {"run": dict(_entry(happened))}


def _started(started: Started) -> Iterator[tuple[str, Any]]:
    yield "admission_id", started.input.admission_id
    yield "stream_id", started.input.stream_id
    yield "agent", started.input.agent
    yield "why_ready", started.input.why
    yield "run_id", started.run_id
    yield "done", started.done
    yield "terminal", started.terminal
    yield "error_class", started.error_class
    yield "why", started.why


def _entry(entry: Entry) -> Iterator[tuple[str, Any]]:
    yield "run_id", entry.run.run_id
    yield "stream_id", entry.run.stream_id
    yield "agent", entry.run.agent
    yield "why_ready", entry.run.why
    yield "done", entry.done
    yield "terminal", entry.terminal
    yield "error_class", entry.error_class
    yield "why", entry.why
