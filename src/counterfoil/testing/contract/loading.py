"""Loading: streams recorded elsewhere keep every byte, and come in whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from counterfoil.adapters.memory import MemoryStore
from counterfoil.core.genesis import parse_genesis
from counterfoil.errors import GuardFailed, InvalidUnit, StreamExists, WrongSequence
from counterfoil.store.loading import LoadItem, LoadStream, LoadToken
from counterfoil.store.rows import Absent
from counterfoil.store.unit import StoredEvent, Unit
from counterfoil.testing.contract.case import DEADLINE_S, PARCEL, ContractCase, all_events, everything, parcel
from counterfoil.testing.events import SAMPLE_LEDGER, SampleStream


class _Trouble(Exception):
    """What the caller's own iterator raises."""


class LoadContract(ContractCase):
    """``Store.load``: what one ledger recorded is taken into another, byte for byte."""

    def recorded(self, events: int, tenant: str = "default") -> tuple[SampleStream, list[StoredEvent]]:
        """A stream with its events as they lie in a store elsewhere."""
        stream = SampleStream(self.ids, tenant=tenant)
        elsewhere = MemoryStore(SAMPLE_LEDGER, (), self.clock)
        elsewhere.append([stream.unit(*stream.events(events), create=True)]).result(DEADLINE_S)
        return stream, elsewhere.read(stream.stream_id, limit=events)

    def begun(self, stream: SampleStream, after: int = 0, tenant: str | None = None) -> LoadStream:
        """The item that begins a stream."""
        return LoadStream(parse_genesis(stream.genesis.text), tenant or stream.genesis.tenant, after)

    def test_a_loaded_stream_is_as_it_was_recorded(self) -> None:
        stream, events = self.recorded(600)
        self.clock.advance(3600)
        assert self.store.load([self.begun(stream), *events]) is None
        again = self.store.read(stream.stream_id, limit=1000)
        assert [replace(event, position=0) for event in again] == [
            replace(event, position=0) for event in events
        ]
        head = self.store.head(stream.stream_id)
        assert head is not None
        assert (head.sequence, head.hash, head.token, head.lease) == (600, events[-1].hash, 0, None)

    def test_records_that_are_gone_stay_gone(self) -> None:
        stream, events = self.recorded(3)
        self.store.load([self.begun(stream), events[0], replace(events[1], content=()), events[2]])
        assert [bool(event.content) for event in self.store.read(stream.stream_id)] == [True, False, True]

    def test_a_stream_may_stand_under_another_tenant(self) -> None:
        stream, events = self.recorded(2, tenant="north")
        self.store.load([self.begun(stream, tenant="south"), *events])
        (stored,) = self.store.streams("south")
        assert (stored.stream_id, stored.genesis) == (stream.stream_id, stream.genesis.text)
        assert self.store.streams("north") == []

    def test_appending_goes_on_after_what_was_loaded(self) -> None:
        stream, events = self.recorded(2)
        self.store.load([self.begun(stream), *events])
        receipt = self.append(stream.unit(stream.event()))
        assert receipt.positions[0].sequence == 3
        assert [event.sequence for event in all_events(self.store)][-3:] == [1, 2, 3]

    def test_the_next_claim_comes_after_the_token_that_was_loaded(self) -> None:
        stream, events = self.recorded(1)
        self.store.load([self.begun(stream), *events, LoadToken(7)])
        assert self.store.claim(stream.stream_id, "owner", 1000, 7).lease.token == 8

    def test_a_load_goes_on_where_another_ended(self) -> None:
        stream, events = self.recorded(4)
        self.store.load([self.begun(stream), *events[:2]])
        self.store.load([self.begun(stream, after=2), *events[2:]])
        assert [event.sequence for event in self.store.read(stream.stream_id)] == [1, 2, 3, 4]

    def test_rows_and_a_unit_come_in_the_same_transaction(self) -> None:
        stream, events = self.recorded(2)
        other = self.new_stream()
        receipt = self.store.load(
            [self.begun(stream), *events, parcel("p1", stream.stream_id)],
            lambda: other.unit(other.event(), rows=(parcel("p2", other.stream_id),)),
        )
        assert receipt is not None
        assert receipt.positions[0].stream_id == other.stream_id
        assert [row["parcel_id"] for row in self.store.select(PARCEL.name)] == ["p1", "p2"]

    def test_nothing_remains_of_a_load_whose_source_fails(self) -> None:
        stream, events = self.recorded(600)
        before = everything(self.store)

        def items() -> Iterator[LoadItem]:
            yield self.begun(stream)
            yield from events
            yield parcel("p1", stream.stream_id)
            raise _Trouble

        with pytest.raises(_Trouble):
            self.store.load(items())
        assert everything(self.store) == before
        self.store.load([self.begun(stream), *events])

    def test_nothing_remains_of_a_load_whose_unit_is_refused(self) -> None:
        stream, events = self.recorded(2)
        other = self.new_stream()
        self.append(other.unit(other.event(), rows=(parcel("p1"),)))
        before = everything(self.store)

        def unit() -> Unit:
            return other.unit(other.event(), guards=(Absent(PARCEL.name, ("p1",)),))

        with pytest.raises(GuardFailed):
            self.store.load([self.begun(stream), *events], unit)
        assert everything(self.store) == before

    def test_a_stream_that_is_here_is_not_loaded_again(self) -> None:
        stream = self.new_stream(2)
        events = self.store.read(stream.stream_id)
        before = everything(self.store)
        with pytest.raises(StreamExists):
            self.store.load([self.begun(stream), *events])
        with pytest.raises(WrongSequence):
            self.store.load([self.begun(stream, after=1), events[1]])
        assert everything(self.store) == before

    def test_events_that_leave_one_out_or_stand_twice_are_refused(self) -> None:
        stream, events = self.recorded(3)
        before = everything(self.store)
        twice = replace(events[1], event_id=events[0].event_id)
        wrongs: tuple[list[LoadItem], ...] = (
            [self.begun(stream), events[1]],
            [self.begun(stream), events[0], events[2]],
            [events[0]],
            [LoadToken(1)],
            [self.begun(stream), events[0], twice],
        )
        for wrong in wrongs:
            with pytest.raises(InvalidUnit):
                self.store.load(wrong)
            assert everything(self.store) == before
