"""The append unit, the atom of writing: events for one or more streams, row changes and guards."""

from __future__ import annotations

from msgspec import Struct, field

from counterfoil.core.event import Prepared
from counterfoil.core.genesis import Genesis
from counterfoil.errors import CounterfoilError
from counterfoil.store.rows import Guard, RowChange


class Expected(Struct, frozen=True):
    """Where the caller believes the head to be: anywhere (``ANY``), no stream yet (``NONE``) or ``at(n)``."""

    sequence: int | None = None
    absent: bool = False


ANY = Expected()
NONE = Expected(absent=True)


def at(sequence: int) -> Expected:
    """The head is exactly ``sequence``; for whoever decides on what it has read."""
    return Expected(sequence)


class StreamAppend(Struct, frozen=True):
    """Events for one stream. ``create`` makes the stream first; ``token`` is the fencing token to check, if any.

    A token is stale once another has been claimed, not by time. Creating a stream that exists with the same
    genesis text is no error; with another it is :class:`counterfoil.errors.StreamExists`. Without ``create`` a
    stream that is not there is :class:`counterfoil.errors.StreamNotFound`. No events are needed to create a stream,
    to check a token or to check the head.
    """

    stream_id: str
    events: tuple[Prepared, ...]
    expected: Expected = ANY
    token: int | None = None
    create: Genesis | None = None


class Unit(Struct, frozen=True):
    """Recorded whole or not at all.

    A unit that contradicts itself is refused with :class:`counterfoil.errors.InvalidUnit`, whatever the store holds:
    no event and no stream to create, a stream twice, an event of another stream, an event id twice, an undeclared
    table or column, a cell of the wrong type, a required column left out, ``SequenceOf`` an event that is not in it
    or in a key, a row of a ``truth`` table whose stream gets no event.

    Checked inside the transaction, in append order: duplicate (same ids, same content: original positions are
    returned and nothing is written, no rows either), fenced, expected, guards. A failed check records nothing of
    this unit. Each check goes over all streams of the unit before the next begins. Where some events exist, one of
    other content (``EventIdReused``) is named before a missing one (``PartialDuplicate``). Guards see the rows
    as the units before this one left them. Row changes apply in order, each raising ``row_version`` by one.
    """

    streams: tuple[StreamAppend, ...]
    rows: tuple[RowChange, ...] = ()
    guards: tuple[Guard, ...] = ()

    @property
    def event_count(self) -> int:
        """Events in the unit."""
        return sum(len(part.events) for part in self.streams)


class Lease(Struct, frozen=True, gc=False):
    """Time-limited ownership of a conversation's running slot, on the store's clock (ms since the epoch)."""

    stream_id: str
    token: int
    owner: str
    expires_at_ms: int


class Head(Struct, frozen=True, gc=False):
    """A stream's last event, and the fencing token claimed last (0: never) with its lease (None: free)."""

    stream_id: str
    sequence: int
    hash: bytes
    token: int = 0
    lease: Lease | None = None


class Position(Struct, frozen=True, gc=False):
    """Where an event stands."""

    stream_id: str
    sequence: int
    event_id: str
    recorded_at_ms: int
    hash: bytes


class Receipt(Struct, frozen=True, gc=False):
    """A unit that is durable: the position of each event in append order. ``duplicate``: it was there already."""

    positions: tuple[Position, ...]
    duplicate: bool = False


class Refusal(Struct, frozen=True):
    """A unit that recorded nothing, and why (a ConflictError, InputError or StoreError to raise)."""

    error: CounterfoilError


Outcome = Receipt | Refusal


class Claimed(Struct, frozen=True, gc=False):
    """A lease won, with the receipt of the unit that was recorded in the same transaction."""

    lease: Lease
    receipt: Receipt | None = None


class StoredEvent(Struct, frozen=True, gc=False):
    """An event as stored: the index columns (copies), the exact header bytes, its hash and its sealed records.

    ``content[i]`` is part i, None where the record is gone; the tuple ends at the last record present, so readers
    pad it to the header's list. Columns are returned as they lie in the store, so that verify can compare them.
    """

    position: int
    stream_id: str
    sequence: int
    event_id: str
    event_type: str
    run_id: str | None
    recorded_at_ms: int
    header: bytes
    hash: bytes
    content: tuple[bytes | None, ...] = ()


class StoredStream(Struct, frozen=True, gc=False):
    """A stream as stored: columns (copies), the exact genesis text and the head row."""

    stream_id: str
    tenant: str
    kind: str
    genesis: bytes
    head: Head


class FeedPage(Struct, frozen=True, gc=False):
    """A stretch of the feed over all streams, in an order that loses nothing.

    ``cursor`` resumes after the last event; ``caught_up`` says that nothing more was visible; ``lag`` is a notice
    when the horizon is stuck (empty otherwise).
    """

    events: tuple[StoredEvent, ...]
    cursor: bytes
    caught_up: bool
    lag: str = ""


class Checkpoint(Struct, frozen=True):
    """A projection's saved state as a sealed record (FORMAT 6): an acceleration, never the record."""

    stream_id: str
    projection: str
    version: int
    up_to_sequence: int
    commitment: str
    record: bytes


class Stray(Struct, frozen=True):
    """A stored row that belongs to no stream or event: found by verify, named by table and what it is."""

    table: str
    what: str
    stream_id: str | None = None
    sequence: int | None = None


class Capabilities(Struct, frozen=True):
    """What an adapter can keep, as data."""

    durable: bool
    shared: bool
    feed: bool = True
    notify: bool = False
    engine: str = field(default="")
