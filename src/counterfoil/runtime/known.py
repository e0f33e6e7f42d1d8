"""Events for whatever interprets them: an unknown one refuses, unless its producer said it may be passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from counterfoil.core.catalogue import Registry
from counterfoil.errors import UnknownEventType
from counterfoil.flow.event import Event

OWN_TYPES: Final = Registry()
"""The types of the product itself, without those of an application."""


def interpreted(registry: Registry, events: Iterable[Event]) -> Iterator[Event]:
    """The events of a stream for a replay or a fold, in order (ADR 0175, DESIGN 3).

    Raises ``UnknownEventType`` naming type, version and sequence of the first one that this build does not know;
    passing over an event is a property that its producer gave it, never a guess of an older reader.
    """
    for event in events:
        version = event.header.event_schema_version
        if registry.known(event.type, version):
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
