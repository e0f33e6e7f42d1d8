"""How the memory store appends a unit: first every check, then a write that cannot fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.adapters.memory.state import State, Stream
from counterfoil.adapters.memory.tables import apply, check_change, check_guard, check_guards, resolver
from counterfoil.core.event import Prepared, event_hash, read_header, same_event, splice
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import Genesis
from counterfoil.errors import (
    EventIdReused,
    Fenced,
    InvalidUnit,
    PartialDuplicate,
    StreamExists,
    StreamNotFound,
    WrongSequence,
)
from counterfoil.store.loading import LoadItem, LoadStream, LoadToken, check_begin, check_next
from counterfoil.store.rows import Patch, Put, Remove, check_beside
from counterfoil.store.unit import (
    Head,
    Position,
    Receipt,
    StoredEvent,
    StoredStream,
    StreamAppend,
    Unit,
)


class Plan(Struct, frozen=True):
    """A unit that passed every check, and the store's clock when it did."""

    unit: Unit
    now_ms: int


def check_unit(state: State, unit: Unit) -> None:
    """Refuse with InvalidUnit a unit that contradicts itself, whatever the store holds."""
    events = [event for part in unit.streams for event in part.events]
    if not events and all(part.create is None for part in unit.streams):
        raise InvalidUnit("an append unit needs an event, or a stream to create")
    if len({part.stream_id for part in unit.streams}) != len(unit.streams):
        raise InvalidUnit("an append unit names a stream twice", hint="put its events into one StreamAppend")
    for part in unit.streams:
        if part.create is not None and part.create.stream_id != part.stream_id:
            raise InvalidUnit(f"the genesis of another stream was given for {part.stream_id}")
        if any(event.stream_id != part.stream_id for event in part.events):
            raise InvalidUnit(f"an event of another stream was given for {part.stream_id}")
    event_ids = frozenset(event.event_id for event in events)
    if len(event_ids) != len(events):
        raise InvalidUnit("an append unit holds an event id twice")
    appended = {part.stream_id for part in unit.streams if part.events}
    for change in unit.rows:
        check_change(state.tables, change, event_ids)
        check_beside(state.tables[change.table].spec, change, appended)
    for guard in unit.guards:
        check_guard(state.tables, guard)


def plan(state: State, unit: Unit, now_ms: int, tokens: Mapping[str, int]) -> Plan | Receipt:
    """The checks in their order: duplicate, fenced, expected, guards.

    ``tokens`` holds fencing tokens that a claim is about to set. Returns the original receipt of a duplicate.
    """
    duplicate = _duplicate(state, unit)
    if duplicate is not None:
        return duplicate
    heads = {part.stream_id: _head(state, part) for part in unit.streams}
    for part in unit.streams:
        _check_token(heads[part.stream_id], part, tokens)
    for part in unit.streams:
        _check_expected(state.streams.get(part.stream_id), heads[part.stream_id], part)
    check_guards(state.tables, unit.guards)
    return Plan(unit, now_ms)


def record(state: State, planned: Plan | Receipt) -> Receipt:
    """Write a planned unit; a duplicate's receipt is handed back as it is."""
    if isinstance(planned, Receipt):
        return planned
    positions: list[Position] = []
    for part in planned.unit.streams:
        if part.stream_id not in state.streams:
            assert part.create is not None
            state.streams[part.stream_id] = _new_stream(part.create)
        stream = state.streams[part.stream_id]
        positions.extend(_record_event(state, stream, event, planned.now_ms) for event in part.events)
    placed = {place.event_id: (place.sequence, place.recorded_at_ms) for place in positions}
    apply(state.tables, planned.unit.rows, resolver(placed))
    return Receipt(tuple(positions))


def load(state: State, items: Iterable[LoadItem]) -> None:
    """Place what was recorded elsewhere; the state is a copy that is thrown away when this raises."""
    stream: Stream | None = None
    for item in items:
        match item:
            case LoadStream(genesis, tenant):
                stream = state.streams.get(genesis.stream_id)
                check_begin(item, None if stream is None else stream.head)
                if stream is None:
                    stream = state.streams[genesis.stream_id] = _new_stream(genesis, tenant)
            case LoadToken(token) if stream is not None:
                stream.head = replace(stream.head, token=max(token, stream.head.token))
            case StoredEvent() if stream is not None:
                head = stream.head
                check_next(head.stream_id, head.sequence, item)
                if item.event_id in stream.places:
                    raise InvalidUnit(f"event {item.event_id} stands twice in what is loaded")
                stored = replace(item, position=len(state.feed) + 1)
                stream.places[item.event_id] = len(stream.events)
                stream.events.append(stored)
                state.feed.append(stored)
                stream.head = replace(head, sequence=item.sequence, hash=item.hash)
            case Put() | Patch() | Remove():
                check_change(state.tables, item, frozenset())
                apply(state.tables, [item], resolver({}))
            case _:
                raise InvalidUnit("what is loaded begins with a stream")


def _duplicate(state: State, unit: Unit) -> Receipt | None:
    present: list[StoredEvent] = []
    missing: list[str] = []
    for part in unit.streams:
        stream = state.streams.get(part.stream_id)
        for event in part.events:
            place = None if stream is None else stream.places.get(event.event_id)
            if stream is None or place is None:
                missing.append(event.event_id)
            else:
                present.append(stream.events[place])
                _check_same(event, stream.events[place], _previous_hash(stream, place))
    if not present:
        return None
    if missing:
        raise PartialDuplicate(
            f"{len(present)} events of this append are recorded, {len(missing)} are not",
            hint="append the missing ones by themselves, or the same unit as before",
            present=[stored.event_id for stored in present],
            missing=missing,
        )
    return Receipt(tuple(_position(stored) for stored in present), duplicate=True)


def _check_same(event: Prepared, stored: StoredEvent, previous: bytes) -> None:
    again = splice(event, stored.sequence, time_text(stored.recorded_at_ms), previous.hex())
    members = [] if again == stored.header else same_event(read_header(again), read_header(stored.header))
    if members:
        raise EventIdReused(
            f"event {stored.event_id} is recorded at {stored.stream_id} {stored.sequence} with other content",
            hint="a new fact needs a new event id",
            stream_id=stored.stream_id,
            sequence=stored.sequence,
            event_id=stored.event_id,
            members=members,
        )


def _head(state: State, part: StreamAppend) -> Head:
    stream = state.streams.get(part.stream_id)
    if stream is not None:
        if part.create is not None and part.create.text != stream.columns.genesis:
            raise StreamExists(
                f"stream {part.stream_id} exists with another genesis", stream_id=part.stream_id
            )
        return stream.head
    if part.create is None:
        raise StreamNotFound(f"there is no stream {part.stream_id}", stream_id=part.stream_id)
    return Head(part.stream_id, 0, part.create.hash)


def _check_token(head: Head, part: StreamAppend, tokens: Mapping[str, int]) -> None:
    newest = tokens.get(part.stream_id, head.token)
    if part.token is not None and part.token != newest:
        raise Fenced(
            f"token {part.token} of stream {part.stream_id} is stale: the newest is {newest}",
            hint="somebody else has claimed the conversation; stop writing for this run",
            stream_id=part.stream_id,
            token=newest,
            lease=head.lease,
        )


def _check_expected(stream: Stream | None, head: Head, part: StreamAppend) -> None:
    expected = part.expected
    unwanted = expected.absent and stream is not None
    if unwanted or expected.sequence not in {None, head.sequence}:
        wanted = "no stream" if expected.absent else f"sequence {expected.sequence}"
        raise WrongSequence(
            f"the caller expected {wanted}, but the head of {part.stream_id} is at sequence {head.sequence}",
            stream_id=part.stream_id,
            head=head,
        )


def _new_stream(genesis: Genesis, tenant: str | None = None) -> Stream:
    head, owner = Head(genesis.stream_id, 0, genesis.hash), tenant or genesis.tenant
    return Stream(StoredStream(genesis.stream_id, owner, genesis.kind, genesis.text, head), head)


def _record_event(state: State, stream: Stream, event: Prepared, now_ms: int) -> Position:
    sequence = stream.head.sequence + 1
    header = splice(event, sequence, time_text(now_ms), stream.head.hash.hex())
    stored = StoredEvent(
        position=len(state.feed) + 1,
        stream_id=event.stream_id,
        sequence=sequence,
        event_id=event.event_id,
        event_type=event.event_type,
        run_id=event.run_id,
        recorded_at_ms=now_ms,
        header=header,
        hash=event_hash(header),
        content=event.records,
    )
    stream.places[event.event_id] = len(stream.events)
    stream.events.append(stored)
    state.feed.append(stored)
    stream.head = replace(stream.head, sequence=sequence, hash=stored.hash)
    return _position(stored)


def _previous_hash(stream: Stream, place: int) -> bytes:
    return stream.events[place - 1].hash if place else stream.columns.head.hash


def _position(stored: StoredEvent) -> Position:
    return Position(stored.stream_id, stored.sequence, stored.event_id, stored.recorded_at_ms, stored.hash)
