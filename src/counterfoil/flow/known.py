"""Events for whatever interprets them: an unknown one refuses, unless its producer said it may be passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from counterfoil.core.catalogue import Registry
from counterfoil.core.header import Header
from counterfoil.core.upcast import Upcasts
from counterfoil.errors import UnknownEventType
from counterfoil.flow.event import Event, Opened

OWN_TYPES: Final = Registry()
"""The types of the product itself, without those of an application."""


NO_UPCASTS: Final = Upcasts()


def interpreted(
    registry: Registry, events: Iterable[Event], upcasts: Upcasts = NO_UPCASTS
) -> Iterator[Event]:
    """The events of a stream for a replay or a fold, in order, old versions as the newest has them (DESIGN 3).

    Raises ``UnknownEventType`` naming type, version and sequence of the first one that this build does not know;
    passing over an event is a property that its producer gave it, never a guess of an older reader.
    """
    seen: set[tuple[str, int]] = set()
    for event in events:
        kind, version = event.type, event.version
        if (kind, version) in seen:
            yield event
        elif version < upcasts.newest(kind):
            yield _upcast(event, version, upcasts)
        elif registry.known(kind, version):
            seen.add((kind, version))
            yield event
        elif not event.header.ignorable:
            raise UnknownEventType(
                f"event {event.sequence} of {event.stream_id} is {event.type} version {version}, which this build "
                "does not know and may not pass over",
                hint="declare the type, or use the version of Counterfoil that wrote it",
                event_type=event.type,
                version=version,
                stream_id=event.stream_id,
                sequence=event.sequence,
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
