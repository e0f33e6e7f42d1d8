"""Companions: rows that are truth, written only beside an event of their own stream, and left alone by rebuilds."""

from __future__ import annotations

import pytest

from counterfoil.errors import EventIdReused, GuardFailed, InvalidUnit, WrongSequence
from counterfoil.store.rows import Absent, Patch, Put, Remove, RowChange
from counterfoil.store.unit import Unit, at
from counterfoil.testing.contract.case import NOTE, ContractCase, parcel
from counterfoil.testing.events import SampleStream


def note(stream_id: str, name: str, box: bytes = b"sealed") -> Put:
    """Puts a note of this stream."""
    return Put(NOTE.name, {"stream_id": stream_id, "name": name, "box": box})


class CompanionContract(ContractCase):
    """Tables of ``TableSpec.truth``."""

    def boxes(self, stream: SampleStream) -> dict[str, object]:
        """The notes of a stream by name."""
        return {
            str(row["name"]): row["box"] for row in self.store.select(NOTE.name, prefix=(stream.stream_id,))
        }

    def noted(self, *names: str) -> SampleStream:
        """A stream with these notes."""
        stream = self.new_stream(1)
        self.append(stream.unit(stream.event(), rows=tuple(note(stream.stream_id, name) for name in names)))
        return stream

    def test_a_companion_is_there_with_the_event_it_was_written_beside(self) -> None:
        stream = self.noted("a", "b")
        assert self.boxes(stream) == {"a": b"sealed", "b": b"sealed"}

    def test_companions_are_replaced_patched_and_removed_beside_further_events(self) -> None:
        stream = self.noted("a", "b", "c")
        key = (stream.stream_id, "b")
        changes = (
            note(stream.stream_id, "a", b"new"),
            Patch(NOTE.name, key, {"box": b"patched"}),
            Remove(NOTE.name, (stream.stream_id, "c")),
        )
        self.append(stream.unit(stream.event(), rows=changes))
        assert self.boxes(stream) == {"a": b"new", "b": b"patched"}

    @pytest.mark.parametrize("kind", ["put", "patch", "remove"])
    def test_a_companion_is_not_written_without_an_event_of_its_stream(self, kind: str) -> None:
        mine, other = self.noted("a"), self.new_stream(1)
        key = (mine.stream_id, "a")
        changes: dict[str, RowChange] = {
            "put": note(mine.stream_id, "a", b"bare"),
            "patch": Patch(NOTE.name, key, {"box": b"bare"}),
            "remove": Remove(NOTE.name, key),
        }
        change = changes[kind]
        self.refused(other.unit(other.event(), rows=(change,)), InvalidUnit)
        # Naming the stream is not enough: without an event of it nothing says why the row changed.
        self.refused(Unit((other.adding(other.event()), mine.adding()), (change,)), InvalidUnit)
        self.refused(Unit((), (change,)), InvalidUnit)
        assert self.boxes(mine) == {"a": b"sealed"}

    def test_a_companion_of_two_streams_goes_into_a_unit_with_events_for_both(self) -> None:
        one, two = self.new_stream(1), self.new_stream(1)
        rows = (note(one.stream_id, "a"), note(two.stream_id, "b"))
        self.append(Unit((one.adding(one.event()), two.adding(two.event())), rows))
        assert (self.boxes(one), self.boxes(two)) == ({"a": b"sealed"}, {"b": b"sealed"})

    def test_a_refused_append_leaves_companions_as_they_were(self) -> None:
        stream = self.noted("a")
        first = self.store.read(stream.stream_id, limit=1)[0]
        bare = (note(stream.stream_id, "a", b"bare"),)
        self.refused(stream.unit(stream.event(), rows=bare, expected=at(1)), WrongSequence)
        held = (Absent(NOTE.name, (stream.stream_id, "a")),)
        self.refused(stream.unit(stream.event(), rows=bare, guards=held), GuardFailed)
        again = stream.event("another", event_id=first.event_id)
        self.refused(stream.unit(again, rows=bare), EventIdReused)
        assert self.boxes(stream) == {"a": b"sealed"}

    def test_the_same_append_again_writes_no_companion(self) -> None:
        stream = self.new_stream(1)
        event = stream.event()
        self.append(stream.unit(event, rows=(note(stream.stream_id, "a"),)))
        self.append(stream.unit(stream.event(), rows=(note(stream.stream_id, "a", b"later"),)))
        assert self.append(stream.unit(event, rows=(note(stream.stream_id, "a"),))).duplicate
        assert self.boxes(stream) == {"a": b"later"}

    def test_rebuilding_leaves_companions_and_makes_none(self) -> None:
        stream = self.noted("a")
        self.append(stream.unit(stream.event(), rows=(parcel("p1", stream.stream_id),)))
        self.store.rebuild_rows(stream.stream_id, [])
        self.store.rebuild_rows(None, [parcel("p2")])
        assert self.boxes(stream) == {"a": b"sealed"}
        for change in (note(stream.stream_id, "b"), Remove(NOTE.name, (stream.stream_id, "a"))):
            with pytest.raises(InvalidUnit):
                self.store.rebuild_rows(None, [change])
            with pytest.raises(InvalidUnit):
                self.store.rebuild_rows(stream.stream_id, [change])
        assert self.boxes(stream) == {"a": b"sealed"}

    def test_companions_last_as_events_do(self) -> None:
        self.need("durable")
        stream = self.noted("a")
        self.reopen()
        assert self.boxes(stream) == {"a": b"sealed"}
