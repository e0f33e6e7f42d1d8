"""Opening the sealed records of a stored event, and saying what became of those that cannot be opened."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from counterfoil.artifacts.spill import restored, spilled_references
from counterfoil.core.artifact import reference_of
from counterfoil.core.canonical import decode
from counterfoil.core.event import Header
from counterfoil.core.genesis import Genesis
from counterfoil.core.header import ContentRef
from counterfoil.core.records import open_in_context
from counterfoil.errors import (
    ArtifactDamaged,
    ContentDamaged,
    InputError,
    KeyDamaged,
    KeyMissing,
    KeyStoreMissing,
    KeyWithheld,
    NotFoundError,
)
from counterfoil.flow.event import WAYS_OUT, ContentState, Opened
from counterfoil.store.facts import resolved
from counterfoil.store.unit import StoredEvent

if TYPE_CHECKING:
    from counterfoil.access.session import Session
    from counterfoil.client.ports import LedgerPorts

_WORST_FIRST: tuple[ContentState, ...] = ("damaged", "missing", "withheld", "erased", "present")


def open_content(
    ports: LedgerPorts, stored: StoredEvent, header: Header, session: Session | None = None
) -> Opened:
    """Open every part of an event that the keys at hand can open (FORMAT 6), and that a ``session`` may show.

    The state is that of the worst part; parts that did open are handed out whatever became of the others.
    """
    count = len(header.content)
    if not count:
        return Opened("none")
    members = header.artifact_refs
    restore = partial(_restore, ports, header, session) if members and spilled_references(members) else None
    if count == 1:
        # Of most events: there is nothing to put together, and no worst among several.
        state, value, reason = _shown_part(ports, stored, header, 0, session)
        return Opened(state, (value,), reason, restore)
    parts: list[Mapping[str, Any] | None] = []
    states: dict[ContentState, str] = {}
    for number in range(count):
        state, value, reason = _shown_part(ports, stored, header, number, session)
        states.setdefault(state, reason)
        parts.append(value)
    worst: ContentState = next(state for state in _WORST_FIRST if state in states)
    whole = resolved(parts)
    return Opened(worst, (whole, *parts[1:]), states[worst], restore)


def unreadable(stored: StoredEvent, error: InputError) -> InputError:
    """The same refusal of a stored header, which says of which event it is and what to do."""
    fields = {**error.fields, "stream_id": stored.stream_id, "sequence": stored.sequence}
    return type(error)(
        f"event {stored.sequence} of {stored.stream_id} cannot be read: {error.message}",
        hint=error.hint or WAYS_OUT["damaged"],
        **fields,
    )


def open_lone(ports: LedgerPorts, stored: StoredEvent, event_id: str, reference: ContentRef) -> Opened | None:
    """The content of an event of one part that names no artifacts, read without a session; None where it is not plain.

    Then :func:`open_content` says what is the matter. Nothing is checked less than there.
    """
    if ports.withheld or len(stored.content) != 1 or (record := stored.content[0]) is None:
        return None
    try:
        genesis = ports.genesis(stored.stream_id)
        material = ports.keyring.material(reference.key or genesis.key)
        context = material.content_context(event_id, 0)
        value = decode(open_in_context(material, context, record, reference.commitment, genesis.content))
    except (InputError, NotFoundError, KeyMissing, KeyWithheld, KeyStoreMissing, ContentDamaged, KeyDamaged):
        return None
    return Opened("present", (value,)) if type(value) is dict else None


def _restore(
    ports: LedgerPorts, header: Header, session: Session | None, content: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Content with what moved to artifacts read from there; the header alone says under which key each lies.

    Whoever reads it must be allowed what the operation was that made it, and the session must still be open.
    """
    if session is not None:
        session.check(header.stream_id)
    if ports.gate is not None:
        ports.gate.check_spilled(header, session)
    stream_key = ports.genesis(header.stream_id).key
    named = {member["sha256"]: member for member in header.artifact_refs}

    def read(sha256: str) -> bytes:
        member = named.get(sha256)
        if member is None:
            raise ArtifactDamaged("the content names an artifact that its header does not", check="reference")
        return ports.vault.read(reference_of(member, stream_key))

    whole: Mapping[str, Any] = restored(content, read)
    return whole


def _shown_part(
    ports: LedgerPorts, stored: StoredEvent, header: Header, number: int, session: Session | None
) -> tuple[ContentState, Mapping[str, Any] | None, str]:
    if session is None and ports.withheld:
        return "withheld", None, ports.withheld
    if session is not None:
        klass = header.content[number].klass or ports.registry.default_class(header.event_type)
        why = session.withholds(stored.stream_id, header.stream_sequence, header.event_id, klass)
        if why is not None:
            return "withheld", None, why
    return open_part(ports, stored, header, number)


def open_part(
    ports: LedgerPorts, stored: StoredEvent, header: Header, number: int
) -> tuple[ContentState, Mapping[str, Any] | None, str]:
    """One part as it was recorded, references to other parts unresolved; its state, and why if it did not open."""
    reference = header.content[number]
    record = stored.content[number] if number < len(stored.content) else None
    try:
        genesis = ports.genesis(stored.stream_id)
    except (InputError, NotFoundError) as error:
        return "damaged", None, f"the genesis of its stream cannot be read: {error.message}"
    if record is None:
        why = f"the record of part {number} is not in the store"
        return _gone(ports, genesis, header, reference.key, why)
    try:
        material = ports.keyring.material(reference.key or genesis.key)
        context = material.content_context(header.event_id, number)
        content = open_in_context(material, context, record, reference.commitment, genesis.content)
        value = decode(content)
    except KeyMissing as error:
        return _gone(ports, genesis, header, reference.key, error.message, keyless=True)
    except (KeyWithheld, KeyStoreMissing) as error:
        return "withheld", None, error.message
    except (ContentDamaged, KeyDamaged) as error:
        return "damaged", None, error.message
    if not isinstance(value, dict):
        return "damaged", None, f"part {number} is not a JSON object"
    return "present", value, ""


def _gone(
    ports: LedgerPorts,
    genesis: Genesis,
    header: Header,
    key_id: str | None,
    why: str,
    *,
    keyless: bool = False,
) -> tuple[ContentState, None, str]:
    """Content that is not there is erased where a certificate of its stream says so, and missing otherwise."""
    from counterfoil.evidence.content import Certificates

    certificates = Certificates(ports.store, genesis.stream_id)
    found = certificates.cover(key_id or genesis.key, header.stream_sequence, header.event_type)
    if found is not None:
        return "erased", None, f"erased under certificate {found}"
    if genesis.ledger != ports.store.ledger_id and keyless:
        # Nobody lost it: it did not come along (FORMAT 14).
        return "withheld", None, f"it came from {genesis.ledger} without the key: {why}"
    return "missing", None, why
