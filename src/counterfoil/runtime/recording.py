"""Appending in the name of a run: every event carries its fencing token (DESIGN 2.6)."""

from __future__ import annotations

from counterfoil.core.event import Draft
from counterfoil.core.forms import hidden_name, is_label
from counterfoil.errors import EventIdReused, Fenced
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Append, Entry, Flow, UnitDraft
from counterfoil.runtime.events import Said
from counterfoil.store.rows import Guard, RowChange
from counterfoil.store.unit import ANY, Expected, Receipt


def draft(
    scope: RunScope,
    said: Said,
    step_id: str | None = None,
    attempt: int | None = None,
    cause: str | None = None,
) -> Draft:
    """The draft of an event of this run; ``cause`` is the event that it follows from."""
    ports = scope.ports
    return said.draft(
        ports.new_id("evt"),
        ports.now_ms(),
        scope.actor,
        run_id=scope.run_id,
        step_id=step_id,
        attempt=attempt,
        causation_event_id=cause,
    )


def record(
    scope: RunScope,
    *drafts: Draft,
    expected: Expected = ANY,
    guards: tuple[Guard, ...] = (),
    beside: tuple[RowChange, ...] = (),
    others: tuple[Entry, ...] = (),
) -> Flow[Receipt]:
    """Append in one unit and wait until it is durable, with changes of companions ``beside``, and entries in ``others``.

    Raises ``LeaseLost`` when another worker owns the run now.
    """
    entry = Entry(scope.stream_id, drafts, expected=expected, token=scope.token)
    try:
        receipt: Receipt = yield Append(
            UnitDraft((entry, *others), guards, beside), noted=scope.outside.noted
        )
    except Fenced as lost:
        raise scope.latch(scope.lost()) from lost
    except EventIdReused:
        # What is done has an id made of it: whoever took the run over may have recorded it, in its own words.
        yield from scope.owned()
        raise
    if receipt.duplicate:
        # Or in the same words, within the same millisecond.
        yield from scope.owned()
    return receipt


def shown_name(scope: RunScope, name: str) -> str:
    """A name as the header may show it: a label as it is, anything else hidden behind a keyed digest (FORMAT 1)."""
    return name if is_label(name) else hidden_name(scope.ports.material(scope.stream_id), name)


def error_label(error: BaseException) -> str:
    """The class of an error as a label; a class with an odd name is just ``error``."""
    name = type(error).__name__
    return name if is_label(name) else "error"
