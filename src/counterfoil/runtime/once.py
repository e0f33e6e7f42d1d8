"""Units that are one event: recorded once for their identity, and handed out again when the run is entered again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.errors import EventIdReused
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.requests import EventsById, Flow, Read
from counterfoil.runtime.events import Said
from counterfoil.runtime.recording import record
from counterfoil.runtime.resume import Identity, Record, attempt_event_id, identify

Make = Callable[[], Flow[Said]]
"""Works out what is to be recorded; asked at the frontier only."""


class Noted(Struct, frozen=True):
    """A recorded unit: its public fields and content, and the sequence of its event."""

    sequence: int
    data: Mapping[str, Any]
    content: Mapping[str, Any]


def once_flow(scope: RunScope, kind: str, name: str, told: bytes, make: Make) -> Flow[Noted]:
    """Record what ``make`` says, once for this name, what is ``told`` (canonical bytes) and occurrence.

    Where the unit stands in the program goes into the content, so that a divergence is told from siblings in another
    order. Raises as ``make`` does, and then nothing is recorded.
    """
    scope.check()
    identity = identify(scope, kind, name, told)
    identity = replace(identity, memo=attempt_event_id(scope, identity.memo, 0))
    found = scope.part(Record).take(identity)
    return (yield from _live(scope, identity, make)) if found is None else _noted(found)


def _live(scope: RunScope, identity: Identity, make: Make) -> Flow[Noted]:
    ended = False
    try:
        scope.part(Record).live(identity)
        with scope.in_flight(identity.memo):
            said = yield from make()
            said = replace(said, content={**said.content, **identity.place()})
            draft = said.draft(identity.memo, scope.ports.now_ms(), scope.actor, run_id=scope.run_id)
            receipt = yield from record(scope, draft)
        ended = True
    except EventIdReused:
        # An append whose answer was lost had recorded it: the id says what it says.
        ended = True
        recorded: list[Event] = yield Read(EventsById(scope.stream_id, (identity.memo,)))
        return _noted(recorded[0])
    finally:
        if not ended:
            scope.give_back(
                f"{identity.kind}:{identity.name}", identity.digest, identity.occurrence, identity.path
            )
    return Noted(receipt.positions[0].sequence, said.data, said.content)


def _noted(event: Event) -> Noted:
    return Noted(event.sequence, event.data, event.content)
