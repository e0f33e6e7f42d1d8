"""One stored event read strictly: hash, canonical form, members, columns and public fields, in that order (FORMAT 18)."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from counterfoil.core.catalogue import Registry
from counterfoil.core.event import event_hash
from counterfoil.core.forms import time_ms
from counterfoil.core.header import Header, read_header
from counterfoil.core.order import Seen
from counterfoil.errors import CounterfoilError, UnknownFormat

_SHOWN: Final = re.compile(r"[A-Za-z0-9_.:/+~-]{1,64}").fullmatch


class Stored(NamedTuple):
    """The columns of an event as they lie in a store: what was written, or whatever somebody put there since."""

    sequence: Any
    event_id: Any
    event_type: Any
    run_id: Any
    recorded_at_ms: Any
    header: Any
    hash: Any


class Teller(Protocol):
    """Who is told of faults, by their code of FORMAT 18, and of notices, which are no faults."""

    def fault(
        self, kind: str, what: str, stream_id: str, sequence: int | None, through: int | None = None
    ) -> None:
        """A fault at a sequence (0: the genesis), or at every one up to ``through``."""
        ...

    def notice(self, kind: str, what: str, stream_id: str, sequence: int | None) -> None:
        """Something to know: an unknown public field, a clock that went back."""
        ...


class Examined(Struct, frozen=True):
    """What strict reading made of an event.

    ``header`` is None where its bytes cannot be trusted or read. ``unregistered`` says in words that its type is not
    known here, which is a notice and no fault.
    """

    seen: Seen
    header: Header | None = None
    unregistered: str | None = None


class Examiner:
    """Reads the events of one stream strictly and names what is wrong with each by itself.

    ``stream_key`` is None where the genesis that names it cannot be trusted.
    """

    def __init__(self, stream_id: str, stream_key: str | None, registry: Registry, teller: Teller) -> None:
        self._stream_id = stream_id
        self._stream_key = stream_key
        self._registry = registry
        self._teller = teller

    def examine(self, stored: Stored) -> Examined:
        """Hash before parse: bytes that nobody hashed never reach a parser."""
        column, header, kept = stored.sequence, stored.header, stored.hash
        if type(header) is not bytes or type(kept) is not bytes:
            self._fault("column_differs", "the header or hash column holds no bytes", column)
            return Examined(Seen(column, None, None, (), named=True))
        computed = event_hash(header)
        if computed != kept:
            return Examined(Seen(column, None, None, (kept.hex(), computed.hex()), mismatch=True))
        hashes = (kept.hex(),)
        try:
            read = read_header(header)
        except UnknownFormat as error:
            self._fault("unknown_format", error.message, column)
            return Examined(Seen(column, None, None, hashes))
        except CounterfoilError as error:
            self._fault("header_invalid", error.message, column)
            return Examined(Seen(column, None, None, hashes, named=True))
        if read.stream_id != self._stream_id:
            self._fault("transplanted", f"its header belongs to stream {read.stream_id}", column)
            return Examined(Seen(column, None, None, hashes, named=True))
        unregistered = self._unregistered(read)
        what = self._wrong(read, registered=unregistered is None)
        if what is not None:
            self._fault("header_invalid", f"{read.event_type}: {what}", read.stream_sequence)
        if column == read.stream_sequence:
            self._check_columns(stored, read)
        seen = Seen(column, read.stream_sequence, read.previous_event_hash, hashes, named=what is not None)
        return Examined(seen, read, unregistered)

    def _check_columns(self, stored: Stored, header: Header) -> None:
        # A displaced event is named by its order; its other columns then belong to whatever stood there before.
        copies = (
            ("event_id", stored.event_id, header.event_id),
            ("event_type", stored.event_type, header.event_type),
            ("run_id", stored.run_id, header.run_id),
            ("recorded_at", stored.recorded_at_ms, time_ms(header.recorded_at)),
        )
        differing = [
            f"the column {name} says {shown(column)}, the header says {shown(own)}"
            for name, column, own in copies
            if column != own or type(column) is not type(own)
        ]
        if differing:
            self._fault("column_differs", "; ".join(differing), header.stream_sequence)

    def _wrong(self, header: Header, *, registered: bool) -> str | None:
        """What is wrong with key names and public fields; a field that a newer writer may have added is a notice."""
        if any(part.key == self._stream_key for part in header.content if part.key is not None):
            return "a content part names the stream key, which is left out"
        if not registered:
            return None
        event_type, version = header.event_type, header.event_schema_version
        if any(part.klass == self._registry.default_class(event_type) for part in header.content):
            return "a content part names the default class of its type, which is left out"
        spec = self._registry.spec(event_type, version)
        fields = header.data if spec is None else spec.fields
        for name in header.data.keys() - fields.keys():
            self._notice(f"{event_type} has a public field that is not registered: {shown(name)}", header)
        known = {name: value for name, value in header.data.items() if name in fields}
        return self._registry.fault(event_type, version, known, header.ignorable)

    def _unregistered(self, header: Header) -> str | None:
        if self._registry.known(header.event_type, header.event_schema_version):
            return None
        kind = "ignorable" if header.ignorable else "not ignorable: replay and projections refuse it"
        for name in header.data:
            self._notice(
                f"{header.event_type}, not registered here, has the public field {shown(name)}", header
            )
        return f"{header.event_type} version {header.event_schema_version} is not registered here ({kind})"

    def _fault(self, kind: str, what: str, sequence: object) -> None:
        self._teller.fault(kind, what, self._stream_id, sequence if type(sequence) is int else None)

    def _notice(self, what: str, header: Header) -> None:
        self._teller.notice("unknown_field", what, self._stream_id, header.stream_sequence)


def shown(value: object) -> str:
    """A stored value as a report may show it: plain short text and integers as they are, anything else by its kind."""
    if value is None:
        return "nothing"
    if type(value) is int or (isinstance(value, str) and _SHOWN(value)):
        return str(value)
    return "text of odd form" if isinstance(value, str) else f"{type(value).__name__} of odd form"
