"""One stored event read strictly: hash, canonical form, members, columns and public fields, in that order (FORMAT 18)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Header, event_hash, read_header
from counterfoil.core.forms import time_ms
from counterfoil.errors import CounterfoilError, UnknownFormat
from counterfoil.evidence.collector import Collector
from counterfoil.evidence.order import Seen
from counterfoil.evidence.raw import RawEvent

_SHOWN: Final = re.compile(r"[A-Za-z0-9_.:/+~-]{1,64}").fullmatch


@dataclass(frozen=True, slots=True)
class Examined:
    """What strict reading made of an event.

    ``header`` is None where its bytes cannot be trusted or read. ``unregistered`` says in words that its type is not
    known here, which is a notice and no fault.
    """

    seen: Seen
    header: Header | None = None
    unregistered: str | None = None


class Examiner:
    """Reads the events of one stream strictly and names what is wrong with each by itself."""

    def __init__(self, stream_id: str, registry: Registry, collector: Collector) -> None:
        self._stream_id = stream_id
        self._registry = registry
        self._collector = collector

    def examine(self, row: RawEvent) -> Examined:
        """Hash before parse: bytes that nobody hashed never reach a parser."""
        column, header, stored = row[1], row[6], row[7]
        if type(header) is not bytes or type(stored) is not bytes:
            self._fault("column_differs", "the header or hash column holds no bytes", column)
            return Examined(Seen(column, None, None, (), named=True))
        computed = event_hash(header)
        if computed != stored:
            return Examined(Seen(column, None, None, (stored.hex(), computed.hex()), mismatch=True))
        try:
            read = read_header(header)
        except UnknownFormat as error:
            self._fault("unknown_format", error.message, column)
            return Examined(Seen(column, None, None, (stored.hex(),)))
        except CounterfoilError as error:
            self._fault("header_invalid", error.message, column)
            return Examined(Seen(column, None, None, (stored.hex(),), named=True))
        if read.stream_id != self._stream_id:
            self._fault("transplanted", f"its header belongs to stream {read.stream_id}", column)
            return Examined(Seen(column, None, None, (stored.hex(),), named=True))
        unregistered = self._unregistered(read)
        named = unregistered is None and self._check_fields(read)
        sequence = read.stream_sequence
        if column == sequence:
            self._check_columns(row, read)
        seen = Seen(column, sequence, read.previous_event_hash, (stored.hex(),), named=named)
        return Examined(seen, read, unregistered)

    def _check_columns(self, row: RawEvent, header: Header) -> None:
        # A displaced event is named by its order; its other columns then belong to whatever stood there before.
        expected = (header.event_id, header.event_type, header.run_id, time_ms(header.recorded_at))
        names = ("event_id", "event_type", "run_id", "recorded_at")
        for name, stored, own in zip(names, row[2:6], expected, strict=True):
            if stored != own or type(stored) is not type(own):
                what = f"the column {name} says {shown(stored)}, the header says {shown(own)}"
                self._fault("column_differs", what, header.stream_sequence)

    def _check_fields(self, header: Header) -> bool:
        """Public fields against the registry; True if a fault was named. What a newer writer may add is a notice."""
        event_type, version = header.event_type, header.event_schema_version
        spec = self._registry.spec(event_type, version)
        assert spec is not None
        for name in header.data.keys() - spec.fields.keys():
            self._notice(
                "unknown_field",
                f"{event_type} has a public field that is not registered: {shown(name)}",
                header,
            )
        known = {name: value for name, value in header.data.items() if name in spec.fields}
        what = self._registry.fault(event_type, version, known)
        if what is None and header.ignorable and not spec.ignorable:
            what = "a registered type that says it is ignorable"
        if what is not None:
            self._fault("header_invalid", f"{event_type}: {what}", header.stream_sequence)
        return what is not None

    def _unregistered(self, header: Header) -> str | None:
        if self._registry.known(header.event_type, header.event_schema_version):
            return None
        kind = "ignorable" if header.ignorable else "not ignorable: replay and projections refuse it"
        for name in header.data:
            what = f"{header.event_type}, not registered here, has the public field {shown(name)}"
            self._notice("unknown_field", what, header)
        return f"{header.event_type} version {header.event_schema_version} is not registered here ({kind})"

    def _fault(self, kind: str, what: str, sequence: object) -> None:
        place = sequence if type(sequence) is int else None
        self._collector.fault(kind, what, self._stream_id, place)

    def _notice(self, kind: str, what: str, header: Header) -> None:
        self._collector.notice(kind, what, self._stream_id, header.stream_sequence)


def shown(value: object) -> str:
    """A stored value as a report may show it: plain short text and integers as they are, anything else by its kind."""
    if value is None:
        return "nothing"
    if type(value) is int or (isinstance(value, str) and _SHOWN(value)):
        return str(value)
    return f"{type(value).__name__} of odd form" if not isinstance(value, str) else "text of odd form"
