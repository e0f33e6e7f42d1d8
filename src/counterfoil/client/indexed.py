"""What search takes of a stored event: its open parts, of classes that may be searched, each under its own key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from counterfoil.artifacts.spill import JSON_FORM, TAG
from counterfoil.client.opening import open_part
from counterfoil.client.ports import LedgerPorts
from counterfoil.core.artifact import reference_of
from counterfoil.core.canonical import decode
from counterfoil.core.event import Header, read_header
from counterfoil.errors import AccessError, InputError, IntegrityError, NotFoundError
from counterfoil.search.index import PartText, Taken
from counterfoil.search.text import SPILLED_BYTES_MAX, searchable, values_of
from counterfoil.store.unit import StoredEvent

CLASSES: Final = frozenset({"public", "internal", "confidential", "personal"})
"""Classes of content that are searchable. What is secret never is (FORMAT 11)."""


class Part(Struct, frozen=True):
    """One part: its number, its key (None: the stream's), and its content with what moved to artifacts put back.

    ``content`` None: it could not be read. ``cut``: something of it was too large to be read for this.
    """

    number: int
    key_id: str | None
    content: Mapping[str, Any] | None
    cut: bool = False


def taken(ports: LedgerPorts, stored: StoredEvent) -> Taken | None:
    """What the index takes of an event; None for one that is in no conversation of this tenant."""
    if not _is_ours(ports, stored.stream_id):
        return None
    texts: list[PartText] = []
    unread = 0
    try:
        header = read_header(stored.header)
    except (InputError, IntegrityError):
        return Taken(stored.stream_id, stored.sequence, stored.event_id, stored.recorded_at_ms, unread=1)
    for part in parts_of(ports, stored, header):
        if part.content is None:
            unread += 1
            continue
        text, long = searchable(values_of(part.content, header.event_type))
        if text or part.cut:
            texts.append(PartText(part.number, part.key_id, text, part.cut or long))
    return Taken(
        stored.stream_id, stored.sequence, stored.event_id, stored.recorded_at_ms, tuple(texts), unread
    )


def parts_of(
    ports: LedgerPorts,
    stored: StoredEvent,
    header: Header,
    classes: frozenset[str] = CLASSES,
    *,
    shown: bool = False,
) -> Iterator[Part]:
    """The parts of these classes that may be searched, one at a time; those that are erased are passed over.

    ``shown``: somebody will see them, so whoever decides about artifacts is asked.
    """
    usual = ports.registry.default_class(header.event_type)
    for number, reference in enumerate(header.content):
        if (reference.klass or usual) not in classes & CLASSES:
            continue
        state, value, _ = open_part(ports, stored, header, number)
        if state == "erased":
            continue
        if value is None:
            yield Part(number, reference.key, None)
            continue
        back = _Back(ports, header, shown=shown)
        content = back.whole(value)
        yield Part(number, reference.key, content, back.cut)
        if back.unread:
            yield Part(number, reference.key, None)


def _is_ours(ports: LedgerPorts, stream_id: str) -> bool:
    try:
        genesis = ports.genesis(stream_id)
    except (InputError, NotFoundError):
        stored = ports.store.stream(stream_id)
        return stored is not None and stored.tenant == ports.tenant and stored.kind == "conversation"
    return genesis.tenant == ports.tenant and genesis.kind == "conversation"


class _Back:
    """Puts values back that moved to artifacts, as far as they are JSON and not too large together."""

    def __init__(self, ports: LedgerPorts, header: Header, *, shown: bool) -> None:
        self._ports = ports
        self._members = {member["sha256"]: member for member in header.artifact_refs}
        self._stream_id = header.stream_id
        self._get = ports.vault.read if shown else ports.vault.read_unasked
        self._room = SPILLED_BYTES_MAX
        self.cut = False
        self.unread = False

    def whole(self, value: Any) -> Any:
        """The value with what can be read put back in place."""
        if isinstance(value, list):
            return [self.whole(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        inner = value.get(TAG) if len(value) == 1 else None
        if isinstance(inner, Mapping):
            return self._read(inner)
        return {name: self.whole(item) for name, item in value.items()}

    def _read(self, inner: Mapping[str, Any]) -> Any:
        if inner.get("form") != JSON_FORM:
            return None
        size = inner.get("bytes")
        if type(size) is not int or size > self._room:
            self.cut = True
            return None
        self._room -= size
        member = self._members.get(str(inner.get("sha256")))
        try:
            if member is None:
                raise NotFoundError("the header names no such artifact")
            key = self._ports.genesis(self._stream_id).key
            return self.whole(decode(self._get(reference_of(member, key))))
        except (AccessError, IntegrityError, NotFoundError, InputError):
            self.unread = True
            return None
