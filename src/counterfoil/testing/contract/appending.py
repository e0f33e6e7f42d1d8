"""Appending: order, chain, exact bytes, atomic units, batches whose units stand alone."""

from __future__ import annotations

import pytest

from counterfoil.core.event import event_hash, read_header
from counterfoil.core.forms import time_ms
from counterfoil.errors import (
    InvalidUnit,
    NotEncodable,
    StreamExists,
    StreamNotFound,
    WrongSequence,
)
from counterfoil.store.unit import NONE, Head, Receipt, Refusal, StreamAppend, Unit, at
from counterfoil.testing.contract.case import DEADLINE_S, PARCEL, ContractCase, everything, parcel
from counterfoil.testing.events import SampleStream

BATCH_EVENTS = 1200
"""More units in one append than an adapter is expected to commit at once."""


class AppendContract(ContractCase):
    """``Store.append`` and what it leaves behind."""

    # ---- streams ----

    def test_a_stream_that_was_never_created_is_not_there(self) -> None:
        stream = SampleStream(self.ids)
        assert self.store.head(stream.stream_id) is None
        assert self.store.stream(stream.stream_id) is None
        assert self.store.read(stream.stream_id) == []

    def test_a_new_stream_without_events_has_sequence_0_and_the_hash_of_its_genesis(self) -> None:
        stream = self.new_stream()
        assert self.store.head(stream.stream_id) == Head(stream.stream_id, 0, stream.genesis.hash)

    def test_a_stream_comes_back_with_its_exact_genesis_text(self) -> None:
        stream = self.new_stream(2, tenant="north")
        stored = self.store.stream(stream.stream_id)
        assert stored is not None
        assert stored.genesis == stream.genesis.text
        assert (stored.stream_id, stored.tenant, stored.kind) == (stream.stream_id, "north", "conversation")
        assert stored.head == self.store.head(stream.stream_id)

    def test_creating_a_stream_again_with_the_same_genesis_is_no_error(self) -> None:
        stream = self.new_stream(1)
        self.append(stream.unit(stream.event(), create=True))
        assert self.sequences(stream) == [1, 2]

    def test_creating_a_stream_again_with_another_genesis_is_refused(self) -> None:
        stream = self.new_stream(1)
        other = SampleStream(self.ids, tenant="other", stream_id=stream.stream_id)
        error = self.refused(other.unit(other.event(), create=True), StreamExists)
        assert error.stream_id == stream.stream_id

    def test_events_for_a_stream_that_is_not_there_are_refused(self) -> None:
        stream = SampleStream(self.ids)
        error = self.refused(stream.unit(stream.event()), StreamNotFound)
        assert error.stream_id == stream.stream_id

    def test_a_refused_unit_does_not_create_its_stream(self) -> None:
        stream = SampleStream(self.ids)
        self.refused(stream.unit(stream.event(), create=True, expected=at(7)), WrongSequence)
        assert self.store.stream(stream.stream_id) is None

    def test_a_stream_can_be_created_once_only_when_nothing_is_expected_there(self) -> None:
        stream = SampleStream(self.ids)
        self.append(stream.unit(stream.event(), create=True, expected=NONE))
        self.refused(stream.unit(stream.event(), create=True, expected=NONE), WrongSequence)

    # ---- order and chain ----

    def sequences(self, stream: SampleStream) -> list[int]:
        """The sequences a stream holds."""
        return [event.sequence for event in self.store.read(stream.stream_id, limit=10_000)]

    def test_sequences_are_1_2_3_without_gap(self) -> None:
        stream = self.new_stream()
        for count in (1, 3, 1, 2):
            self.append(stream.unit(*stream.events(count)))
        assert self.sequences(stream) == [1, 2, 3, 4, 5, 6, 7]

    def test_each_stream_counts_for_itself(self) -> None:
        first, second = self.new_stream(), self.new_stream()
        for _ in range(3):
            self.outcomes(first.unit(first.event()), second.unit(second.event()))
        assert self.sequences(first) == self.sequences(second) == [1, 2, 3]

    def test_each_hash_is_that_of_the_stored_header_and_each_header_names_the_hash_before(self) -> None:
        stream = self.new_stream(4)
        previous = stream.genesis.hash
        for event in self.store.read(stream.stream_id):
            assert event.hash == event_hash(event.header)
            assert read_header(event.header).previous_event_hash == previous.hex()
            previous = event.hash
        head = self.store.head(stream.stream_id)
        assert head is not None
        assert (head.sequence, head.hash) == (4, previous)

    def test_the_stored_header_is_the_prepared_one_with_the_three_members_of_the_writer(self) -> None:
        stream = self.new_stream()
        event = stream.event()
        self.append(stream.unit(event))
        (stored,) = self.store.read(stream.stream_id)
        for piece in (event.head, event.middle, event.tail):
            assert piece in stored.header
        header = read_header(stored.header)
        assert header.stream_sequence == 1
        assert time_ms(header.recorded_at) == self.clock.now_ms()

    def test_the_columns_of_an_event_are_those_of_its_header(self) -> None:
        stream, run_id = self.new_stream(), self.ids.new("run")
        self.append(stream.unit(stream.event(run_id=run_id), stream.event()))
        for stored in self.store.read(stream.stream_id):
            header = read_header(stored.header)
            assert stored.stream_id == header.stream_id == stream.stream_id
            assert stored.sequence == header.stream_sequence
            assert stored.event_id == header.event_id
            assert stored.event_type == header.event_type
            assert stored.run_id == header.run_id
            assert stored.recorded_at_ms == time_ms(header.recorded_at)

    def test_a_receipt_names_the_position_of_each_event_in_append_order(self) -> None:
        first, second = self.new_stream(2), self.new_stream()
        events = (*second.events(2), *first.events(1))
        receipt = self.append(Unit((second.adding(*events[:2]), first.adding(events[2]))))
        assert not receipt.duplicate
        assert [(place.stream_id, place.sequence) for place in receipt.positions] == [
            (second.stream_id, 1),
            (second.stream_id, 2),
            (first.stream_id, 3),
        ]
        assert [place.event_id for place in receipt.positions] == [event.event_id for event in events]
        for place in receipt.positions:
            (stored,) = self.store.find(place.stream_id, [place.event_id])
            assert (place.hash, place.recorded_at_ms) == (stored.hash, stored.recorded_at_ms)

    def test_order_is_the_sequence_when_a_thousand_events_share_one_millisecond(self) -> None:
        stream = self.new_stream()
        events = stream.events(1000)
        self.outcomes(*(stream.unit(event) for event in events[:500]))
        self.append(stream.unit(*events[500:]))
        wanted = [event.event_id for event in events]
        for _ in range(3):
            assert [event.event_id for event in self.store.read(stream.stream_id, limit=2000)] == wanted
        assert {event.recorded_at_ms for event in self.store.read(stream.stream_id)} == {self.clock.now_ms()}

    def test_a_clock_that_went_back_is_recorded_as_it_was(self) -> None:
        stream, before = self.new_stream(1), self.clock.now_ms()
        self.clock.set_wall(before - 60_000)
        self.append(stream.unit(stream.event()))
        times = [event.recorded_at_ms for event in self.store.read(stream.stream_id)]
        assert times == [before, before - 60_000]

    # ---- content ----

    def test_records_come_back_byte_for_byte(self) -> None:
        stream = self.new_stream()
        events = (
            stream.event(parts=1),
            stream.event(parts=8),
            stream.event("x" * 100_000),
            stream.event(parts=0),
        )
        self.append(stream.unit(*events))
        stored = self.store.read(stream.stream_id)
        assert [event.content for event in stored] == [event.records for event in events]

    def test_text_with_nul_and_with_half_a_surrogate_pair_is_stored_without_loss(self) -> None:
        stream = self.new_stream()
        self.append(
            stream.unit(stream.event("ab\x00cd"), stream.event("\ud99c x"), stream.event("\U0001f9fe"))
        )
        texts = [stream.opened(event)["text"] for event in self.store.read(stream.stream_id)]
        assert texts == ["ab\x00cd", "\ud99c x", "\U0001f9fe"]

    # ---- units ----

    def test_an_append_of_no_units_is_answered_with_no_outcomes(self) -> None:
        assert self.store.append([]).result(DEADLINE_S) == []

    def test_a_unit_of_two_streams_is_recorded_in_both(self) -> None:
        first, second = self.new_stream(), SampleStream(self.ids)
        self.append(Unit((first.adding(first.event()), second.adding(second.event(), create=True))))
        assert (self.sequences(first), self.sequences(second)) == ([1], [1])

    @pytest.mark.parametrize("wrong", [0, 1])
    def test_a_unit_of_two_streams_is_recorded_in_neither_when_one_refuses(self, wrong: int) -> None:
        streams = (self.new_stream(), self.new_stream())
        parts = [stream.adding(stream.event()) for stream in streams]
        parts[wrong] = streams[wrong].adding(streams[wrong].event(), expected=at(9))
        self.refused(Unit(tuple(parts), (parcel("p1"),)), WrongSequence)
        assert [self.sequences(stream) for stream in streams] == [[], []]

    def test_a_refused_unit_leaves_the_others_of_its_append_standing(self) -> None:
        stream = self.new_stream()
        events = stream.events(5)
        units = [stream.unit(event, rows=(parcel(f"p{number}"),)) for number, event in enumerate(events)]
        units[2] = stream.unit(events[2], expected=at(77), rows=(parcel("p2"),))
        outcomes = self.outcomes(*units)
        assert [isinstance(outcome, Receipt) for outcome in outcomes] == [True, True, False, True, True]
        assert [event.event_id for event in self.store.read(stream.stream_id)] == [
            event.event_id for event in (*events[:2], *events[3:])
        ]
        assert [row["parcel_id"] for row in self.store.select(PARCEL.name)] == ["p0", "p1", "p3", "p4"]

    def test_a_unit_sees_what_the_units_before_it_recorded(self) -> None:
        stream = self.new_stream()
        outcomes = self.outcomes(*(stream.unit(stream.event(), expected=at(n)) for n in (0, 1, 1, 2)))
        assert [isinstance(outcome, Receipt) for outcome in outcomes] == [True, True, False, True]

    def test_an_append_of_very_many_units_is_answered_one_by_one_in_order(self) -> None:
        stream = self.new_stream()
        outcomes = self.outcomes(*(stream.unit(event) for event in stream.events(BATCH_EVENTS)))
        sequences = [
            place.sequence
            for outcome in outcomes
            if isinstance(outcome, Receipt)
            for place in outcome.positions
        ]
        assert sequences == list(range(1, BATCH_EVENTS + 1))

    def test_a_unit_of_very_many_events_is_recorded_whole(self) -> None:
        stream = self.new_stream()
        self.append(stream.unit(*stream.events(BATCH_EVENTS)))
        head = self.store.head(stream.stream_id)
        assert head is not None
        assert head.sequence == BATCH_EVENTS

    def test_an_event_that_cannot_be_encoded_is_named_by_path_and_its_neighbours_are_recorded(self) -> None:
        stream = self.new_stream()
        units = []
        for number in range(1, 51):
            value = {"score": {17: float("inf"), 18: float("nan")}.get(number, 0.5)}
            if number in {17, 18}:
                with pytest.raises(NotEncodable) as caught:
                    stream.event_of(value)
                assert caught.value.path == "$.score"
            else:
                units.append(stream.unit(stream.event_of(value)))
        assert all(isinstance(outcome, Receipt) for outcome in self.outcomes(*units))
        assert self.sequences(stream) == list(range(1, 49))

    def test_cancelling_the_future_does_not_take_the_append_back(self) -> None:
        stream = self.new_stream()
        event = stream.event()
        self.store.append([stream.unit(event)]).cancel()
        self.append(stream.unit(stream.event()))
        assert len(self.store.find(stream.stream_id, [event.event_id])) == 1

    # ---- units that contradict themselves ----

    def test_a_unit_of_nothing_is_refused(self) -> None:
        stream = self.new_stream()
        for unit in (Unit(()), Unit((), (parcel("p1"),)), stream.unit(), stream.unit(rows=(parcel("p1"),))):
            self.refused(unit, InvalidUnit)

    def test_a_unit_that_names_a_stream_twice_is_refused(self) -> None:
        stream = self.new_stream()
        self.refused(Unit((stream.adding(stream.event()), stream.adding(stream.event()))), InvalidUnit)

    def test_an_event_given_for_another_stream_is_refused(self) -> None:
        stream, other = self.new_stream(), self.new_stream()
        self.refused(Unit((StreamAppend(stream.stream_id, (other.event(),)),)), InvalidUnit)

    def test_the_genesis_of_another_stream_is_refused(self) -> None:
        stream, other = SampleStream(self.ids), SampleStream(self.ids)
        part = StreamAppend(stream.stream_id, (stream.event(),), create=other.genesis)
        self.refused(Unit((part,)), InvalidUnit)

    def test_a_unit_that_holds_an_event_id_twice_is_refused(self) -> None:
        stream = self.new_stream()
        event = stream.event()
        self.refused(stream.unit(event, event), InvalidUnit)

    def test_a_unit_that_contradicts_itself_leaves_the_others_standing(self) -> None:
        stream = self.new_stream()
        before = everything(self.store)
        outcomes = self.outcomes(stream.unit(), stream.unit(stream.event()), Unit(()))
        assert [isinstance(outcome, Refusal) for outcome in outcomes] == [True, False, True]
        assert everything(self.store) != before
        assert self.sequences(stream) == [1]

    def test_a_stream_without_events_in_a_unit_is_only_checked(self) -> None:
        first, second = self.new_stream(3), self.new_stream()
        self.append(Unit((second.adding(second.event()), first.adding(expected=at(3)))))
        refused = Unit((second.adding(second.event()), first.adding(expected=at(2))))
        self.refused(refused, WrongSequence)
        assert (self.sequences(first), self.sequences(second)) == ([1, 2, 3], [1])
