"""Digests of the bytes that two runs kept as artifacts, so that the runs can be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from counterfoil.artifacts.events import STORED
from counterfoil.artifacts.handle import Artifact
from counterfoil.artifacts.keep import handle_of_event
from counterfoil.errors import AccessError, ConfigInvalid, IntegrityError
from counterfoil.flow.event import Event

UNLIKE: Final = "of a size of its own"
"""In place of a digest, where the other run kept nothing of this size: such bytes need not be read to be told apart."""


def bytes_kept(ports: Any, left: Iterable[Event], right: Iterable[Event]) -> dict[str, str]:
    """Digests by the id of the event that stored the bytes; one is missing where they cannot be had.

    Where all lie under one key their address is the digest (FORMAT 10). Else they are read, in bounded memory, and only
    those whose size the other run has too.
    """
    sides = [_handles(ports, events) for events in (left, right)]
    handles = {event_id: handle for side in sides for event_id, handle in side.items()}
    if len({handle.key for handle in handles.values()}) == 1:
        return {event_id: handle.address or handle.sha256 for event_id, handle in handles.items()}
    sizes = [{handle.size for handle in side.values()} for side in sides]
    both = sizes[0] & sizes[1]
    found: dict[str, str] = {}
    for event_id, handle in handles.items():
        if handle.size not in both:
            found[event_id] = UNLIKE
            continue
        with suppress(AccessError, ConfigInvalid, IntegrityError):
            found[event_id] = _digest(handle)
    return found


def _handles(ports: Any, events: Iterable[Event]) -> dict[str, Artifact]:
    found: dict[str, Artifact] = {}
    for event in events:
        if event.type == STORED:
            with suppress(AccessError):
                found[event.event_id] = handle_of_event(ports, event)
    return found


def _digest(handle: Artifact) -> str:
    digest = hashlib.sha256()
    for piece in handle.pieces():
        digest.update(piece)
    return digest.hexdigest()
