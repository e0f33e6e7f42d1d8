"""Events for whatever interprets them: an unknown one refuses, unless its producer said it may be passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from counterfoil.core.catalogue import Registry
from counterfoil.core.event_types import EVENT_TYPES
from counterfoil.core.fields import DataCheck
from counterfoil.core.header import Header
from counterfoil.core.upcast import Upcasts
from counterfoil.errors import HeaderInvalid, UnknownEventType
from counterfoil.flow.event import WAYS_OUT, Event, Opened

OWN_TYPES: Final = Registry()
"""The types of the product itself, without those of an application."""


NO_UPCASTS: Final = Upcasts()


def interpreted(
    registry: Registry, events: Iterable[Event], upcasts: Upcasts = NO_UPCASTS
) -> Iterator[Event]:
    """The events of a stream for a replay or a fold, in order, old versions as the newest has them (DESIGN 3).

    Raises ``UnknownEventType`` naming type, version and sequence of the first one that this build does not know;
    passing over an event is a property that its producer gave it, never a guess of an older reader. Raises
    ``HeaderInvalid`` for one of the product's own that lacks a public field of its type: whatever folds it relies on them.
    """
    seen: dict[tuple[str, int], DataCheck | None] = {}
    for event in events:
        kind, version = event.type, event.version
        if (kind, version) not in seen:
            if version < upcasts.newest(kind):
                yield _upcast(event, version, upcasts)
                continue
            if not registry.known(kind, version):
                _refuse_unless_ignorable(event)
                continue
            seen[kind, version] = EVENT_TYPES[kind].data_check if kind in EVENT_TYPES else None
        check = seen[kind, version]
        if check is not None and (lacks := check.missing(event.data)) is not None and not event.fault:
            raise _lacking(event, lacks)
        yield event


def _refuse_unless_ignorable(event: Event) -> None:
    if event.header.ignorable:
        return
    raise UnknownEventType(
        f"event {event.sequence} of {event.stream_id} is {event.type} version {event.version}, which this build "
        "does not know and may not pass over",
        hint="declare the type, or use the version of Counterfoil that wrote it",
        event_type=event.type,
        version=event.version,
        stream_id=event.stream_id,
        sequence=event.sequence,
    )


def _lacking(event: Event, name: str) -> HeaderInvalid:
    return HeaderInvalid(
        f"event {event.sequence} of {event.stream_id} is {event.type} without its public field {name}",
        hint=WAYS_OUT["damaged"],
        stream_id=event.stream_id,
        sequence=event.sequence,
        field=name,
    )


def _upcast(event: Event, version: int, upcasts: Upcasts) -> Event:
    """The event as the newest version of its type has it; what is stored stays, and so does the state of its content."""
    newest, data, content = upcasts.apply(event.type, version, event.data, event.content_or_none())
    header = Header({**event.header.raw, "data": dict(data), "event_schema_version": newest})
    before = event.opened
    after = before if content is None else Opened("present", (content, *before.parts[1:]))
    return Event(
        event.stream_id, event.sequence, event.recorded_at_ms, header, event.hash, lambda: after, event.fault
    )
