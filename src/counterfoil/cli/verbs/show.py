"""``counterfoil show``: a conversation or a run as a timeline, an effect as its pair, one event exactly."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.finding import Named, find, opened
from counterfoil.cli.looking_back import declare_projections, show_past
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render.budgeted import budget_json, budget_lines
from counterfoil.cli.render.cells import number, text
from counterfoil.cli.render.children_rows import child_lines, parent_lines
from counterfoil.cli.render.draw import timeline_lines
from counterfoil.cli.render.exact import event_line, event_lines
from counterfoil.cli.render.heading import conversation_heading, doubt_lines, keys_lines, run_heading
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.timeline import timeline
from counterfoil.cli.render.times import count
from counterfoil.cli.requesting import show_request, show_requests
from counterfoil.cli.shapes import child_json, event_json, shown_json
from counterfoil.cli.standing import is_under_way, keys_note, open_effects
from counterfoil.client.reading import ConversationInfo
from counterfoil.effects.rows import EFFECTS
from counterfoil.flow.event import Event
from counterfoil.repair.rows import COMPENSATIONS
from counterfoil.runtime.budgets.look import BudgetStanding
from counterfoil.runtime.children.state import ChildStanding
from counterfoil.store.rows import Row

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

LIMIT: Final = 1_000
LIMIT_MAX: Final = 100_000
CHILDREN_MAX: Final = 20
"""Children that are shown; `ls children` lists them all."""


@click.command(name="show", short_help="Show a conversation or a run as a timeline, or one event exactly.")
@click.argument("name", metavar="[NAME]", required=False)
@click.argument("sequence", metavar="[SEQUENCE]", required=False, type=click.IntRange(1))
@click.option(
    "--events", "as_events", is_flag=True, help="One line for each event instead of a row for each step."
)
@click.option("--full", is_flag=True, help="Write out what was said; fold nothing.")
@click.option(
    "--bytes", "as_bytes", is_flag=True, help="The exact stored header of one event, and nothing else."
)
@click.option(
    "--request",
    metavar="STEP",
    help="The request that a step (stp_…) or provider call (cal_…) sent to its model, made again byte for byte.",
)
@click.option("--raw", is_flag=True, help="With --request: the exact bytes as sent, and nothing else.")
@click.option(
    "--requests",
    "as_requests",
    is_flag=True,
    help="Every request, and how much it shares with the one before.",
)
@click.option(
    "--at",
    type=click.IntRange(0),
    metavar="N",
    help="What was known at this sequence: runs, effects, reviews, state, projections.",
)
@click.option(
    "--after", type=click.IntRange(0), help="Begin after this sequence. A conversation begins near its end."
)
@limit_option(LIMIT, "Events to read.", most=LIMIT_MAX)
@reading_options
@face_options(ledger=True)
@pass_face
def command(
    face: Face,
    name: str | None,
    sequence: int | None,
    as_events: bool,
    full: bool,
    as_bytes: bool,
    request: str | None,
    raw: bool,
    as_requests: bool,
    at: int | None,
    after: int | None,
    limit: int,
) -> int:
    """Show what NAME is: a conversation (by name or str_…), a run (run_…), an effect (eff_…) or an event (evt_…).

    With SEQUENCE the event at that place, exactly. A row of a timeline is a step; an effect is a pair of intention
    and observation, and one in doubt says how long, what is known and what leads out. --request STEP, with or without
    NAME, shows what was sent to a model; --raw prints its exact bytes. --at N folds a conversation's state again as far
    as event N.
    """
    if raw and request is None:
        raise click.UsageError("--raw is for one request: name it with --request STEP")
    if name is None and request is None:
        raise click.UsageError("name a conversation, a run, an effect or an event")
    with face.open(write=face.reader is not None) as ledger:
        if request is not None:
            where = None if name is None else find(ledger, (name,))
            face.begin(ledger, None if where is None else where.stream_id)
            return show_request(face, ledger, request, where, raw=raw, full=full)
        assert name is not None
        named = find(ledger, (name,) if sequence is None else (name, str(sequence)))
        one = None if named.stored is None or as_bytes else str(named.stored.event_id)
        face.begin(ledger, named.stream_id, one)
        if at is not None:
            declare_projections(face, ledger, None)
            return show_past(face, ledger, named.stream_id, at)
        if as_requests:
            return show_requests(face, ledger, named, limit)
        if named.stored is not None:
            _event(face, ledger, named, as_bytes)
            return Exit.DONE
        if as_bytes:
            raise click.UsageError("--bytes is for one event: give its id, or a conversation and a sequence")
        stretch = _Stretch(face, ledger, named, after, limit)
        if as_events:
            _list(face, stretch)
        else:
            _draw(face, stretch, full)
    return Exit.DONE


# ---- one event -------------------------------------------------------------------------------------------------------


def _event(face: Face, ledger: Ledger, named: Named, as_bytes: bool) -> None:
    assert named.stored is not None
    if as_bytes:
        face.flush()
        sys.stdout.buffer.write(named.stored.header)
        sys.stdout.buffer.flush()
        return
    event = opened(ledger, named.stored)
    if face.as_json:
        face.give(event_json(event))
    else:
        face.say(event_lines(event, face.columns))


# ---- a stretch of a conversation -------------------------------------------------------------------------------------


_ABOUT: Final = ("effect_id", "repair_id", "corrects")
"""Members of an event that say what it is about."""


def undone_by(ledger: Ledger, effect_id: str) -> set[str]:
    """The repairs of an effect and the effects that undo it: they are shown with it, and never it alone."""
    repairs = {text(row, "repair_id") for row in ledger.repairs(None, subject=effect_id)}
    if not repairs:
        return set()
    compensations = ledger.store.select(COMPENSATIONS.name, "by_compensated", (effect_id,), None, LIMIT_MAX)
    return repairs | {text(row, "effect_id") for row in compensations}


def _about(events: Iterator[Event], names: set[str]) -> Iterator[Event]:
    """The events that are about one of these, and those that correct one of them."""
    for event in events:
        if any(event.data.get(member) in names for member in _ABOUT):
            names.add(event.event_id)
            yield event


class _Stretch:
    """The events to show, and what must be known to draw them."""

    def __init__(self, face: Face, ledger: Ledger, named: Named, after: int | None, limit: int) -> None:
        self.ledger = ledger
        self.named = named
        self.limit = limit
        self.option = ledger_option(face)
        self.info = _info(ledger, named.stream_id)
        self.after = self._start() if after is None else after
        self.events = list(self._read())
        self.more = len(self.events) > limit
        del self.events[limit:]

    def _start(self) -> int:
        """A run begins at its start, a conversation so that its end is shown."""
        if self.named.run is not None:
            return number(self.named.run, "started_sequence") - 1
        if self.named.effect is not None:
            return number(self.named.effect, "first_sequence") - 1
        # Where the head row is damaged nobody knows where the end is, so it begins at the beginning.
        return max(0, (self.info.head_sequence or 0) - self.limit)

    def _read(self) -> Iterator[Event]:
        stream_id, run, effect = self.named.stream_id, self.named.run, self.named.effect
        if effect is not None:
            repaired = undone_by(self.ledger, text(effect, "effect_id"))
            run_id = None if repaired else text(effect, "run_id")
            found = self.ledger.events(stream_id, self.after, run_id=run_id)
            return _about(found, {text(effect, "effect_id"), *repaired})
        run_id = None if run is None else text(run, "run_id")
        return self.ledger.events(stream_id, self.after, run_id=run_id, limit=self.limit + 1)

    @property
    def open(self) -> list[Row]:
        """Effects in doubt or in review in the whole conversation or run, inside the stretch or not."""
        run = self.named.run
        if self.named.effect is not None:
            return []
        return open_effects(self.ledger, self.named.stream_id, None if run is None else text(run, "run_id"))

    @property
    def budgets(self) -> list[BudgetStanding]:
        """The budgets of the run, if one is shown."""
        run = self.named.run
        return [] if run is None else self.ledger.budgets(text(run, "run_id"))

    @property
    def parent(self) -> ChildStanding | None:
        """What is shown as a child, if it is one."""
        return self.ledger.parent_of(self.named.stream_id)

    @property
    def children(self) -> list[ChildStanding]:
        """The children of the run or the conversation that is shown."""
        run = self.named.run
        if self.named.effect is not None:
            return []
        return self.ledger.children(
            self.named.stream_id if run is None else text(run, "run_id"), limit=CHILDREN_MAX + 1
        )

    def before(self) -> list[Event]:
        """Earlier events of effects that are shown only from some later event on, so that no pair lacks its stub."""
        begun = {event.data.get("effect_id") for event in self.events if event.type == "effect.intended"}
        later = {
            str(event.data["effect_id"])
            for event in self.events
            if event.type.startswith("effect.") and "effect_id" in event.data
        } - begun
        found: list[Event] = []
        first = self.events[0].sequence if self.events else 0
        for effect_id in sorted(later):
            row = self.ledger.store.get(EFFECTS.name, (effect_id,))
            if row is None or number(row, "first_sequence") >= first:
                continue
            start = number(row, "first_sequence") - 1
            found += self.ledger.events(self.named.stream_id, start, types=["effect.intended"], limit=1)
        return sorted(found, key=lambda event: event.sequence)

    @property
    def again(self) -> str:
        """The command that shows this."""
        run = self.named.run
        return f"counterfoil show {self.named.stream_id if run is None else text(run, 'run_id')}"


def _info(ledger: Ledger, stream_id: str) -> ConversationInfo:
    from counterfoil.client.reading import conversation

    return conversation(ledger.ports, stream_id)


def _list(face: Face, stretch: _Stretch) -> None:
    for event in stretch.events:
        if face.as_json:
            face.give(event_json(event))
        else:
            face.say(event_line(event, face.columns))
    if not face.as_json:
        face.say(_foot(stretch, " --events"))


def _draw(face: Face, stretch: _Stretch, full: bool) -> None:
    drawn = timeline(
        stretch.events,
        now_ms=face.now_ms,
        ledger_option=stretch.option,
        before=stretch.before(),
        by_occurred=stretch.info.origin == "import",
        live=stretch.info.state == "running",
        folded=not full,
    )
    waiting = [row for row in stretch.open if not is_under_way(stretch.ledger, row, face.now_ms)]
    if face.as_json:
        shown = shown_json(stretch.info, stretch.named.run, stretch.open, drawn, more=stretch.more)
        parent = stretch.parent
        face.give(
            shown
            | {
                "budgets": [budget_json(standing) for standing in stretch.budgets],
                "parent": None if parent is None else child_json(parent),
                "children": [child_json(child) for child in stretch.children[:CHILDREN_MAX]],
                "more_children": len(stretch.children) > CHILDREN_MAX,
            }
        )
        return
    face.say(_heading(face, stretch, waiting))
    face.say(timeline_lines(drawn, face.columns, face.now_ms, full=full))
    face.say(_foot(stretch, " --full" if full else ""))


def _heading(face: Face, stretch: _Stretch, waiting: Sequence[Row]) -> list[Line]:
    run, name = stretch.named.run, stretch.info.name or stretch.named.stream_id
    lines = (
        conversation_heading(stretch.info, face.columns)
        if run is None
        else run_heading(run, name, face.columns, live=stretch.info.state == "running")
    )
    if (parent := stretch.parent) is not None:
        lines += parent_lines(parent, face.columns)
    lines += child_lines(stretch.children[:CHILDREN_MAX], face.columns)
    if len(stretch.children) > CHILDREN_MAX:
        lines.append(Line(Span(f"  and more: counterfoil ls children{stretch.option}", "quiet")))
    lines += budget_lines(stretch.budgets, face.columns)
    lines += keys_lines(keys_note(stretch.ledger), face.columns)
    lines += doubt_lines(
        waiting, face.now_ms, lambda words: f"counterfoil {words}{stretch.option}", face.columns
    )
    return [*lines, Line()]


def _foot(stretch: _Stretch, options: str) -> list[Line]:
    if not stretch.events:
        return [Line(Span("· no events here", "quiet"))]
    first, last = stretch.events[0].sequence, stretch.events[-1].sequence
    of = " of this run"
    if stretch.named.run is None:
        head = stretch.info.head_sequence
        of = (
            ": where they end is not known, the head row is damaged" if head is None else f" of {count(head)}"
        )
    lines = [Line(), Line(Span(f"  events {count(first)} to {count(last)}{of}", "quiet"))]
    if stretch.after > 0 and stretch.named.run is None and stretch.named.effect is None:
        lines.append(Line(Span(f"  earlier: {stretch.again}{options} --after 0{stretch.option}", "quiet")))
    if stretch.more:
        lines.append(Line(Span(f"  more: {stretch.again}{options} --after {last}{stretch.option}", "quiet")))
    return lines
