"""Keeping bytes as an artifact inside a run: stored first, then recorded; a resumed run gets the recorded one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Final, TypedDict, Unpack, cast

from msgspec import Struct

from counterfoil.artifacts import events
from counterfoil.artifacts.given_paths import given_path
from counterfoil.artifacts.handle import Artifact, scope_here
from counterfoil.core import canonical
from counterfoil.core.artifact import PUBLIC, Reference, check_class
from counterfoil.core.forms import is_label
from counterfoil.core.ids import derived_id
from counterfoil.errors import EventIdReused, Fenced, InvalidForm, StoreError
from counterfoil.flow.context import RunScope, step_path
from counterfoil.flow.drive import drive
from counterfoil.flow.event import Event
from counterfoil.flow.requests import (
    Append,
    Entry,
    EventsById,
    Flow,
    Now,
    PutArtifact,
    Read,
    Source,
    Stored,
    UnitDraft,
)
from counterfoil.store.unit import Receipt

FILE_KIND: Final = "file"
DEFAULT_CLASS: Final = "confidential"
NAME_CHARACTERS_MAX: Final = 1_000

Given = bytes | os.PathLike[str] | BinaryIO | Iterable[bytes]
"""What may be kept: bytes at hand, a file by its path, an open binary file, or pieces as they come."""


class How(TypedDict, total=False):
    """How bytes are kept. ``kind`` is a label (default ``file``), ``classification`` one of the five classes.

    ``name`` and ``media_type`` are content, ``subject`` names whom it is about, ``permission`` what a reader needs.
    """

    kind: str
    classification: str
    name: str | None
    media_type: str | None
    subject: str | None
    permission: str | None


class Wanted(Struct, frozen=True):
    """What is to be kept, checked."""

    source: Source
    kind: str = FILE_KIND
    klass: str = DEFAULT_CLASS
    name: str | None = None
    media_type: str | None = None
    subject: str | None = None
    permission: str | None = None

    def facts(self, size: int) -> events.Facts:
        """What is recorded beside the reference."""
        return events.Facts(size, self.name, self.media_type, self.permission)


def wanted(
    source: Given,
    *,
    kind: str = FILE_KIND,
    classification: str = DEFAULT_CLASS,
    name: str | None = None,
    media_type: str | None = None,
    subject: str | None = None,
    permission: str | None = None,
) -> Wanted:
    """Check what was given. Raises InvalidForm that names the argument; nothing is read or written."""
    if not is_label(kind):
        raise InvalidForm("the kind of an artifact is a label: letters, digits and _.:/+-", argument="kind")
    if permission is not None and not is_label(permission):
        raise InvalidForm("a permission is a label", argument="permission")
    check_class(classification)
    for argument, text in (("name", name), ("media_type", media_type)):
        if text is not None and (type(text) is not str or not 0 < len(text) <= NAME_CHARACTERS_MAX):
            raise InvalidForm(
                f"{argument} is text of 1 to {NAME_CHARACTERS_MAX} characters", argument=argument
            )
    taken = _source(source)
    if name is None and isinstance(taken, Path):
        name = taken.name
    return Wanted(taken, kind, classification, name, media_type, subject, permission)


def _source(given: Any) -> Source:
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if isinstance(given, os.PathLike):
        return given_path(given, "source")
    if callable(getattr(given, "read", None)) or (isinstance(given, Iterable) and not isinstance(given, str)):
        return cast("Source", given)
    raise InvalidForm(
        f"an artifact is made of bytes, a path, a binary file or pieces of bytes, not of {type(given).__name__}",
        hint="a file is named by a pathlib.Path; text is encoded first",
        argument="source",
    )


class Kept:
    """The artifacts that this run kept in earlier entries (``scope.part(Kept)``)."""

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope

    def recorded(self, kind: str, event_id: str) -> Flow[Event | None]:  # noqa: ARG002 - told to whoever notes calls
        """The ``artifact.stored`` of this call, or None: it is to be made."""
        if not self._scope.history and self._scope.terminal is None:
            return None
        found: list[Event] = yield Read(EventsById(self._scope.stream_id, (event_id,)))
        return found[0] if found else None


def keep_flow(scope: RunScope, asked: Wanted) -> Flow[Artifact]:
    """Store bytes, then record ``artifact.stored``; the same call of a resumed run reads and stores nothing.

    Its identity is kind and name, which of these calls it is, and for bytes at hand what they are. Raises the errors
    of :meth:`counterfoil.artifacts.Vault.put`, ``RunClosed``, or what parked the run.
    """
    scope.check()
    digest, occurrence, event_id = _identity(scope, asked)
    if (found := (yield from scope.part(Kept).recorded(asked.kind, event_id))) is not None:
        return handle_of_event(scope.ports, found)
    scope.frontier(f"the artifact {asked.kind}")
    with scope.in_flight(event_id):
        try:
            return (yield from _keep(scope, asked, event_id))
        except StoreError:
            scope.give_back("artifact", digest, occurrence, step_path())
            raise


def _identity(scope: RunScope, asked: Wanted) -> tuple[str, int, str]:
    """Digest of what is kept, which time it is, and the event id made of both."""
    material = scope.ports.material(scope.stream_id)
    at_hand = material.address(asked.source).hex() if isinstance(asked.source, bytes) else None
    said = canonical.encode(["artifact", asked.kind, asked.klass, asked.name, asked.subject, at_hand])
    digest = material.digest("arguments", [], said)
    occurrence = scope.occurrence("artifact", digest)
    place = canonical.encode(["artifact", step_path(), digest])
    return (
        digest,
        occurrence,
        derived_id("evt", material.keyed("derived-id", [scope.run_id, occurrence], place)),
    )


def _keep(scope: RunScope, asked: Wanted, event_id: str) -> Flow[Artifact]:
    stored: Stored = yield PutArtifact(scope.stream_id, asked.source, asked.klass, asked.subject)
    now: int = yield Now()
    ports = scope.ports
    key = None if asked.subject is None else ports.subject_key(scope.stream_id, asked.subject)
    draft = events.stored(
        event_id,
        now,
        scope.actor,
        reference_of_stored(asked, stored),
        asked.facts(stored.size),
        ports.genesis(scope.stream_id).key,
        key=key,
        run_id=scope.run_id,
    )
    try:
        receipt: Receipt = yield Append(UnitDraft((Entry(scope.stream_id, (draft,), token=scope.token),)))
    except EventIdReused:
        yield from scope.owned()
        # An append whose answer was lost had recorded it, with another object of the same call: that one counts.
        found: list[Event] = yield Read(EventsById(scope.stream_id, (event_id,)))
        return handle_of_event(ports, found[0])
    except Fenced as lost:
        raise scope.latch(scope.lost()) from lost
    if receipt.duplicate:
        yield from scope.owned()
    return handle_of_stored(ports, asked, stored)


def reference_of_stored(asked: Wanted, stored: Stored) -> Reference:
    """The reference of what was stored."""
    return Reference(asked.kind, asked.klass, stored.sha256, stored.address, stored.key)


def handle_of_stored(ports: Any, asked: Wanted, stored: Stored) -> Artifact:
    """The handle of what was stored just now."""
    reference = reference_of_stored(asked, stored)
    return Artifact(
        *reference[:3], stored.size, *reference[3:], asked.name, asked.media_type, ports.artifact_pieces
    )


def handle_of_event(ports: Any, event: Event) -> Artifact:
    """The handle of a recorded ``artifact.stored`` or ``artifact.spilled``. Raises ContentUnavailable."""
    member = event.header.artifact_refs[0]
    stream_key = ports.genesis(event.stream_id).key
    content = event.content
    key = None if member["class"] == PUBLIC else member.get("key", stream_key)
    return Artifact(
        member["kind"],
        member["class"],
        member["sha256"],
        content["bytes"],
        member.get("address"),
        key,
        content.get("name"),
        content.get("media_type"),
        ports.artifact_pieces,
    )


def keep(source: Given, **how: Unpack[How]) -> Artifact:
    """Keep bytes as an artifact of the run around this code; for tools, which hold no run of their own.

    A tool that recovery calls for a run that its worker left keeps them for that run. Raises
    :class:`counterfoil.errors.NoRun` outside a run, and as :func:`keep_flow`.
    """
    scope = scope_here()
    return drive(keep_flow(scope, wanted(source, **how)), scope.ports)
