"""Sans-IO flows: generators that yield requests of a closed set, and the two drivers that answer them."""

from __future__ import annotations

from counterfoil.flow.context import RunScope, current_scope, entered
from counterfoil.flow.drive import adrive, drive
from counterfoil.flow.event import Event
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import (
    Append,
    Call,
    CallResult,
    ClaimSpec,
    Entry,
    Events,
    EventsById,
    Flow,
    HeadOf,
    NewId,
    Now,
    Raised,
    Random,
    Read,
    Request,
    Returned,
    RowOf,
    Rows,
    TimedOut,
    UnitDraft,
    Wait,
)

__all__ = [
    "Append",
    "Call",
    "CallResult",
    "ClaimSpec",
    "Entry",
    "Event",
    "Events",
    "EventsById",
    "Flow",
    "HeadOf",
    "NewId",
    "Now",
    "Ports",
    "Raised",
    "Random",
    "Read",
    "Request",
    "Returned",
    "RowOf",
    "Rows",
    "RunScope",
    "TimedOut",
    "UnitDraft",
    "Wait",
    "adrive",
    "current_scope",
    "drive",
    "entered",
]
