"""The check of a stream event by event, for whatever reads one whole: verify, import, copy (FORMAT 18)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from counterfoil.core.catalogue import Registry
from counterfoil.core.examine import Examined, Examiner, Stored, Teller
from counterfoil.core.genesis import Genesis
from counterfoil.core.header import Header
from counterfoil.core.order import Head, StreamOrder

__all__ = ["Chain", "ChainState", "Erasures", "Fault", "Notice", "StoredColumns"]

ADOPTED: Final = "stream.adopted"
NOTICES_MAX: Final = 1000
"""Notices kept of one stream; further ones are counted."""

CLOCK_BACK: Final = "the clock went back: an event is dated before the one in front of it"
UNLISTED: Final = "a record stands beside this event that its header does not name"


class Fault(NamedTuple):
    """One fault: a code of FORMAT 18, the stream, the sequence (0: the genesis) and what was found, in words.

    ``through`` is the last sequence of a stretch with the same fault.
    """

    code: str
    stream_id: str
    sequence: int | None
    what: str
    through: int | None = None


class Notice(NamedTuple):
    """Something to look at that breaks nothing: a clock that went back, a type this build does not know."""

    kind: str
    stream_id: str
    sequence: int | None
    what: str


class Erasures:
    """What the certificates of one stream account for: fed with the ``data`` of its ``deletion.completed`` events."""

    __slots__ = ("_keys", "_objects", "_ranges")

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self._objects: dict[str, str] = {}
        self._ranges: list[tuple[int, int, frozenset[str] | None, str]] = []

    def add(self, data: Mapping[str, Any]) -> None:
        """Take one completed deletion into account."""
        certificate = data["certificate"]
        if "key" in data:
            self._keys[data["key"]] = certificate
        elif "object" in data:
            self._objects[data["object"]] = certificate
        elif "from_sequence" in data:
            types = frozenset(data["types"]) if "types" in data else None
            self._ranges.append((data["from_sequence"], data["to_sequence"], types, certificate))

    def object_certificate(self, sha256: str) -> str | None:
        """The certificate under which this object of an artifact is gone, or None."""
        return self._objects.get(sha256)

    def certificate(self, sequence: int, event_type: str, key: str) -> str | None:
        """The certificate under which the content of this event under this key is gone, or None."""
        found = self._keys.get(key)
        if found is not None:
            return found
        for first, last, types, certificate in self._ranges:
            if first <= sequence <= last and (types is None or event_type in types):
                return certificate
        return None


class Home:
    """Follows a stream from its genesis ledger through its adoptions (FORMAT 14)."""

    __slots__ = ("ledger",)

    def __init__(self, genesis: Genesis) -> None:
        self.ledger: str = genesis.ledger

    def adopt(self, header: Header, tips: Sequence[str]) -> str | None:
        """Take a ``stream.adopted``: what is wrong with it if it does not continue from its home so far, or None."""
        data, sequence = header.data, header.stream_sequence
        before, self.ledger = self.ledger, str(data.get("ledger"))
        if data.get("from_ledger") != before:
            return f"adopted from a ledger that was not its home, which was {before}"
        if data.get("at_sequence") != sequence - 1 or (tips and data.get("head") not in tips):
            return "the adoption names another head than the event before it"
        return None


class Chain:
    """Reads and places the events of one stream, in the order of the sequence column and in bounded memory.

    ``genesis_hash`` is that of the stored text, None if there is none; ``head`` what the head row says, if known.
    One cause is one fault, told to ``teller``, and the check goes on.
    """

    def __init__(
        self,
        stream_id: str,
        genesis_hash: str | None,
        stream_key: str | None,
        registry: Registry,
        teller: Teller,
        head: Head | None = None,
    ) -> None:
        self.order: StreamOrder = StreamOrder(
            genesis_hash,
            head,
            lambda kind, what, first, last: teller.fault(kind, what, stream_id, first, last),
        )
        self._examiner = Examiner(stream_id, stream_key, registry, teller)

    def step(self, stored: Stored) -> Examined:
        """Check the next event."""
        examined = self._examiner.examine(stored)
        self.order.take(examined.seen)
        return examined

    def finish(self, head: Head | None = None) -> None:
        """After the last event: what is still open, and whether the head row agrees with the events."""
        self.order.finish(head)


class StoredColumns(Protocol):
    """An event as a store hands it out; ``content[i]`` is the record of part i, None where it is gone."""

    @property
    def stream_id(self) -> str:
        """Id of the stream the row belongs to."""
        ...

    @property
    def sequence(self) -> int:
        """The sequence column."""
        ...

    @property
    def event_id(self) -> str:
        """The event id column."""
        ...

    @property
    def event_type(self) -> str:
        """The event type column."""
        ...

    @property
    def run_id(self) -> str | None:
        """The run column, None where the event has no run."""
        ...

    @property
    def recorded_at_ms(self) -> int:
        """The column of recorded_at, milliseconds since the epoch."""
        ...

    @property
    def header(self) -> bytes:
        """The exact header bytes."""
        ...

    @property
    def hash(self) -> bytes:
        """The stored hash, 32 bytes."""
        ...

    @property
    def content(self) -> tuple[bytes | None, ...]:
        """The records, None where one is gone; may end at the last one present."""
        ...


class ChainState:
    """Checks one whole stream, records too, and hands out the faults of each step.

    Counters tell what was covered: ``events`` read, ``records`` whose digest was compared, ``erased`` records that a
    certificate accounts for. ``home`` is the ledger that the stream belongs to now.
    """

    __slots__ = (
        "_chain",
        "_clock_ms",
        "_erasures",
        "_found",
        "_genesis",
        "_home",
        "erased",
        "events",
        "notices",
        "notices_dropped",
        "records",
        "stream_id",
    )

    def __init__(
        self, genesis: Genesis, registry: Registry | None = None, *, erasures: Erasures | None = None
    ) -> None:
        self._genesis = genesis
        self._erasures = erasures if erasures is not None else Erasures()
        known = registry if registry is not None else Registry()
        self._chain = Chain(genesis.stream_id, genesis.hash.hex(), genesis.key, known, self)
        self._home = Home(genesis)
        self._found: list[Fault] = []
        self._clock_ms = -1
        self.stream_id: str = genesis.stream_id
        self.events: int = 0
        self.records: int = 0
        self.erased: int = 0
        self.notices: list[Notice] = []
        self.notices_dropped: int = 0

    @property
    def home(self) -> str:
        """The ledger that the genesis names, or the last adoption."""
        return self._home.ledger

    @property
    def sequence(self) -> int:
        """The last sequence read."""
        return self._chain.order.last

    def fault(
        self, kind: str, what: str, stream_id: str, sequence: int | None, through: int | None = None
    ) -> None:
        """See :class:`counterfoil.core.examine.Teller`."""
        self._found.append(Fault(kind, stream_id, sequence, what, None if through == sequence else through))

    def notice(self, kind: str, what: str, stream_id: str, sequence: int | None) -> None:
        """See :class:`counterfoil.core.examine.Teller`."""
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(Notice(kind, stream_id, sequence, what))
        else:
            self.notices_dropped += 1

    def step(self, event: StoredColumns, *, records: bool = True) -> Sequence[Fault]:
        """Check the next stored event; with ``records`` also the digest of each of its records."""
        self._found = []
        self.events += 1
        tips = self._chain.order.tips
        examined = self._chain.step(
            Stored(
                event.sequence,
                event.event_id,
                event.event_type,
                event.run_id,
                event.recorded_at_ms,
                event.header,
                event.hash,
            )
        )
        header = examined.header
        if header is not None:
            self._check_stream(event, examined, header, tips)
            if records:
                self._check_records(event, header)
        return self._found

    def finish(self, head_sequence: int | None = None, head_hash: bytes | None = None) -> Sequence[Fault]:
        """After the last event: what is still undecided, and whether the head row agrees with the events."""
        self._found = []
        head = None if head_sequence is None or head_hash is None else (head_sequence, head_hash.hex())
        self._chain.finish(head)
        return self._found

    def _check_stream(
        self, event: StoredColumns, examined: Examined, header: Header, tips: Sequence[str]
    ) -> None:
        sequence = header.stream_sequence
        if event.stream_id != self.stream_id:
            self.fault("column_differs", "the column stream_id is another one", self.stream_id, sequence)
        if examined.unregistered is not None:
            self.notice("unknown_type", examined.unregistered, self.stream_id, sequence)
        elif header.event_type == ADOPTED:
            what = self._home.adopt(header, tips)
            if what is not None:
                self.fault("custody", what, self.stream_id, sequence)
        if type(event.recorded_at_ms) is int:
            if event.recorded_at_ms < self._clock_ms:
                self.notice("clock_back", CLOCK_BACK, self.stream_id, sequence)
            self._clock_ms = event.recorded_at_ms

    def _check_records(self, event: StoredColumns, header: Header) -> None:
        sequence, parts, content = header.stream_sequence, header.content, event.content
        if any(record is not None for record in content[len(parts) :]):
            self.fault("inserted", UNLISTED, self.stream_id, sequence)
        for number, part in enumerate(parts):
            record = content[number] if number < len(content) else None
            if record is None:
                key = part.key or self._genesis.key
                if self._erasures.certificate(sequence, header.event_type, key) is not None:
                    self.erased += 1
                else:
                    what = f"the record of part {number} is missing and no certificate says why"
                    self.fault("content_missing", what, self.stream_id, sequence)
            elif type(record) is not bytes or hashlib.sha256(record).hexdigest() != part.sha256:
                what = f"the record of part {number} has not the digest that its header names"
                self.fault("content_damaged", what, self.stream_id, sequence)
            else:
                self.records += 1
