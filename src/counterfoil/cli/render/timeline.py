"""Events into rows: each event begins a row, or adds to the row of its step, its effect or its run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from counterfoil.cli.render import (
    artifact_rows,
    beside_rows,
    custody_rows,
    decision_rows,
    effect_rows,
    repair_rows,
    run_rows,
    step_rows,
)
from counterfoil.cli.render.building import Build
from counterfoil.cli.render.fold import fold
from counterfoil.cli.render.line import Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.model import Gap, Timeline
from counterfoil.cli.render.values import shown
from counterfoil.flow.event import Event

IDLE_MS: Final = 60_000
"""A pause this long between two events is shown as one."""


def timeline(
    events: Iterable[Event],
    *,
    now_ms: int,
    ledger_option: str = "",
    before: Iterable[Event] = (),
    by_occurred: bool = False,
    live: bool = True,
    folded: bool = True,
) -> Timeline:
    """The rows of these events of one conversation, in order.

    ``before`` are earlier events of effects whose later ones are shown, so that no pair lacks its stub.
    ``ledger_option`` is what printed commands need to find the ledger. ``by_occurred`` dates rows as the producer
    says, which an imported transcript needs. ``live`` says whether a worker holds the conversation, so that a call
    may be answered. Doubt and refusals are never folded.
    """
    build = Build(now_ms=now_ms, ledger_option=ledger_option, by_occurred=by_occurred, live=live)
    for event in before:
        build.outside = True
        _take(build, event)
    build.outside = False
    for event in events:
        _gap(build, event)
        _take(build, event)
    effect_rows.finish(build)
    step_rows.finish(build)
    return Timeline(fold(build.rows) if folded else build.rows, build.first, build.last, build.events)


def _take(build: Build, event: Event) -> None:
    build.see(event)
    if event.fault:
        _fault(build, event)
        return
    handler = HANDLERS.get(event.type, _other)
    try:
        handler(build, event)
    except (LookupError, TypeError, ValueError, AssertionError):
        # A newer writer may mean other fields by this type. One such event must not hide its neighbours (case S22).
        _other(build, event)


def _gap(build: Build, event: Event) -> None:
    time_ms = build.time(event)
    length = time_ms - build.latest_ms
    if build.latest_ms and length >= IDLE_MS and event.type != "transcript.imported":
        words, build.waiting = build.waiting or "idle", ""
        build.rows.append(Gap(event.sequence, build.latest_ms, length_ms=length, words=words))


def _fault(build: Build, event: Event) -> None:
    note = build.note(event, "✗", "damaged record", style="failure")
    note.detail = [Span(f"{marked(event.type)}: {marked(event.fault)}", "failure")]


def _other(build: Build, event: Event) -> None:
    """A type of the application, or of a newer writer: its public fields, so that nothing recorded is invisible."""
    note = build.note(event, "·", marked(event.type))
    note.detail = [Span(f"{marked(name)} {shown(value)}", "quiet") for name, value in event.data.items()]
    note.fold = event.type


Handler = Callable[[Build, Event], None]

HANDLERS: Final[Mapping[str, Handler]] = {
    **run_rows.HANDLERS,
    **step_rows.HANDLERS,
    **effect_rows.HANDLERS,
    **decision_rows.HANDLERS,
    **artifact_rows.HANDLERS,
    **repair_rows.HANDLERS,
    **beside_rows.HANDLERS,
    **custody_rows.HANDLERS,
}
"""How each type of the product is drawn."""
