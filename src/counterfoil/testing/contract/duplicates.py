"""Duplicates: the same events again land once, other content under an old id is refused (FORMAT 5)."""

from __future__ import annotations

from msgspec.structs import replace

from counterfoil.errors import EventIdReused, PartialDuplicate
from counterfoil.store.rows import Absent
from counterfoil.store.unit import NONE, Receipt, Unit, at
from counterfoil.testing.contract.case import PARCEL, ContractCase, everything, parcel
from counterfoil.testing.events import SampleStream

PRIVATE_TEXT = "a sentence that must not stand in an error"
LEASE_MS = 30_000


class DuplicateContract(ContractCase):
    """An append whose answer was lost may be sent again with the same ids."""

    def test_the_same_unit_again_is_answered_with_the_original_positions(self) -> None:
        stream = self.new_stream(2)
        unit = stream.unit(*stream.events(3))
        first = self.append(unit)
        self.clock.advance(5000)
        self.append(stream.unit(stream.event()))
        again = self.append(unit)
        assert again == Receipt(first.positions, duplicate=True)

    def test_the_same_unit_again_writes_nothing(self) -> None:
        stream = self.new_stream()
        unit = stream.unit(*stream.events(2), rows=(parcel("p1"),))
        self.append(unit)
        before = everything(self.store)
        self.append(unit)
        assert everything(self.store) == before

    def test_the_same_unit_twice_in_one_append_lands_once(self) -> None:
        stream = self.new_stream()
        unit = stream.unit(*stream.events(2))
        first, second = self.outcomes(unit, unit)
        assert isinstance(first, Receipt)
        assert second == Receipt(first.positions, duplicate=True)

    def test_a_unit_of_two_streams_again_is_answered_with_both_original_positions(self) -> None:
        first, second = self.new_stream(1), SampleStream(self.ids)
        unit = Unit((first.adding(first.event()), second.adding(second.event(), create=True)))
        receipt = self.append(unit)
        assert self.append(unit) == Receipt(receipt.positions, duplicate=True)

    def test_recorded_events_in_another_grouping_and_order_are_duplicates_too(self) -> None:
        stream = self.new_stream()
        events = stream.events(3)
        receipts = [self.append(stream.unit(event)) for event in events]
        again = self.append(stream.unit(events[2], events[0]))
        assert again.duplicate
        assert again.positions == (*receipts[2].positions, *receipts[0].positions)

    def test_a_duplicate_is_recognised_before_any_other_check(self) -> None:
        stream = self.new_stream()
        unit = stream.unit(
            stream.event(),
            expected=at(0),
            token=0,
            rows=(parcel("p1"),),
            guards=(Absent(PARCEL.name, ("p1",)),),
        )
        receipt = self.append(unit)
        self.store.claim(stream.stream_id, "somebody else", LEASE_MS, 0)
        assert self.append(unit) == Receipt(receipt.positions, duplicate=True)

    def test_the_unit_that_created_its_stream_may_be_sent_again(self) -> None:
        stream = SampleStream(self.ids)
        unit = stream.unit(stream.event(), create=True, expected=NONE)
        receipt = self.append(unit)
        assert self.append(unit) == Receipt(receipt.positions, duplicate=True)

    def test_the_same_content_packed_otherwise_is_the_same_event(self) -> None:
        stream = self.new_stream()
        event_id, text = self.ids.new("evt"), "many words " * 1000
        packed = stream.event(text, event_id=event_id, pack="auto")
        plain = stream.event(text, event_id=event_id, pack="never")
        assert packed.records != plain.records
        receipt = self.append(stream.unit(packed))
        assert self.append(stream.unit(plain)) == Receipt(receipt.positions, duplicate=True)
        (stored,) = self.store.read(stream.stream_id)
        assert stored.content == packed.records

    def test_an_event_id_in_another_stream_is_another_event(self) -> None:
        first, second = self.new_stream(), self.new_stream()
        event_id = self.ids.new("evt")
        self.append(first.unit(first.event(event_id=event_id)))
        receipt = self.append(second.unit(second.event(event_id=event_id)))
        assert not receipt.duplicate

    def test_an_event_id_with_other_content_is_refused_and_the_members_are_named(self) -> None:
        stream = self.new_stream(3)
        event = stream.event("the first text")
        self.append(stream.unit(event))
        error = self.refused(stream.unit(stream.event(PRIVATE_TEXT, event_id=event.event_id)), EventIdReused)
        assert (error.stream_id, error.sequence, error.event_id) == (stream.stream_id, 4, event.event_id)
        assert any("content" in member for member in error.members)
        assert PRIVATE_TEXT not in str(error)

    def test_an_event_id_with_another_type_or_run_is_refused_and_the_members_are_named(self) -> None:
        stream, run_id = self.new_stream(), self.ids.new("run")
        event = stream.event("the same text")
        self.append(stream.unit(event))
        other = stream.event(
            "the same text", event_id=event.event_id, event_type="sample.altered", run_id=run_id
        )
        error = self.refused(stream.unit(other), EventIdReused)
        assert set(error.members) == {"event_type", "run_id"}

    def test_an_append_of_which_only_some_events_are_recorded_is_refused(self) -> None:
        stream = self.new_stream()
        events = stream.events(3)
        self.append(stream.unit(events[1]))
        error = self.refused(stream.unit(*events), PartialDuplicate)
        assert error.present == [events[1].event_id]
        assert error.missing == [events[0].event_id, events[2].event_id]

    def test_a_unit_of_two_streams_of_which_one_is_recorded_is_refused(self) -> None:
        first, second = self.new_stream(), self.new_stream()
        unit = Unit((first.adding(first.event()), second.adding(second.event())))
        self.append(replace(unit, streams=unit.streams[:1]))
        self.refused(unit, PartialDuplicate)

    def test_other_content_is_named_before_missing_events(self) -> None:
        stream = self.new_stream()
        event = stream.event("the first text")
        self.append(stream.unit(event))
        unit = stream.unit(stream.event(), stream.event("another text", event_id=event.event_id))
        self.refused(unit, EventIdReused)

    def test_a_refused_unit_may_be_sent_again_once_nothing_refuses_it(self) -> None:
        stream = self.new_stream()
        unit = stream.unit(stream.event(), expected=at(1))
        self.outcomes(unit)
        self.append(stream.unit(stream.event()))
        assert not self.append(unit).duplicate
