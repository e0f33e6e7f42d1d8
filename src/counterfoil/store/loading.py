"""Loading: streams that were recorded elsewhere, taken in with their own bytes, in one transaction (FORMAT 14).

An append makes new events; a load places old ones as they stand: header, hash, records and times are those of the
ledger that recorded them. Whoever loads has checked them (``core.chain``); a store only keeps their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from counterfoil.core.genesis import Genesis
from counterfoil.errors import InvalidUnit, StreamExists, WrongSequence
from counterfoil.store.rows import RowChange
from counterfoil.store.unit import Head, StoredEvent, Unit

LOAD_EVENTS_MAX = 256
"""Loaded events held in memory before they are written."""
LOAD_BYTES_MAX = 4 * 1024 * 1024


class LoadStream(Struct, frozen=True):
    """The items that follow belong to this stream.

    ``after`` is the sequence it goes on after: 0 for one that does not exist yet (else ``StreamExists``), otherwise
    where its head must be (else ``WrongSequence``). ``tenant`` is whom it stands under here.
    """

    genesis: Genesis
    tenant: str
    after: int = 0


class LoadToken(Struct, frozen=True):
    """The stream's fencing token, claimed last by nobody here: the next claim must expect it and gets one more."""

    token: int


LoadItem = LoadStream | LoadToken | StoredEvent | RowChange
"""One thing to load. An event is placed behind the one before it; its ``position`` is given anew."""

UnitOf = Callable[[], Unit | None]
"""Makes the unit that is recorded in the same transaction, when everything else is in its place."""


def check_begin(item: LoadStream, head: Head | None) -> None:
    """Raise what refuses a stream that is to be loaded; ``head`` is where it stands, None if it is not there."""
    stream_id = item.genesis.stream_id
    if head is None and item.after == 0:
        return
    if head is not None and item.after == 0:
        raise StreamExists(
            f"stream {stream_id} is in this ledger already",
            hint="what is here stays as it is: load it into another ledger, or leave it out",
            stream_id=stream_id,
        )
    if head is None or head.sequence != item.after:
        here = "not there" if head is None else f"at sequence {head.sequence}"
        raise WrongSequence(
            f"stream {stream_id} is {here}, and it is to go on after {item.after}",
            stream_id=stream_id,
            head=head,
        )


def check_next(stream_id: str | None, sequence: int, event: StoredEvent) -> None:
    """Raise InvalidUnit for an event that does not follow: of another stream, or with a sequence left out."""
    if event.stream_id != stream_id or event.sequence != sequence + 1:
        raise InvalidUnit(
            f"an event to load stands at {event.stream_id} {event.sequence}, behind {stream_id} {sequence}",
            hint="load each stream from its beginning, without a gap",
        )


def asked_for(unit: UnitOf | None) -> Iterator[Unit]:
    """The unit, made when it is taken; nothing where there is none."""
    made = None if unit is None else unit()
    if made is not None:
        yield made


def size_of(event: StoredEvent) -> int:
    """Bytes that an event takes while it is held."""
    return len(event.header) + sum(len(record) for record in event.content if record is not None)
