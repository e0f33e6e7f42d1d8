"""Snapshots: one consistent view for many reads, whatever is written meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from counterfoil.store.contract import Reader
from counterfoil.store.rows import Put, Remove
from counterfoil.store.unit import Checkpoint
from counterfoil.testing.contract.case import PARCEL, SHELF, ContractCase, everything, parcel
from counterfoil.testing.events import SampleStream

TTL_MS = 30_000


class SnapshotContract(ContractCase):
    """``Store.snapshot``."""

    def views(self, stream: SampleStream, event_id: str) -> dict[str, Callable[[Reader], object]]:
        """One read of each kind, every one of which :meth:`write_everywhere` changes."""
        return {
            "head": lambda reader: reader.head(stream.stream_id),
            "stream": lambda reader: reader.stream(stream.stream_id),
            "streams": lambda reader: reader.streams(),
            "read": lambda reader: reader.read(stream.stream_id),
            "find": lambda reader: reader.find(stream.stream_id, [event_id]),
            "get": lambda reader: reader.get(PARCEL.name, ("p1",)),
            "select by key": lambda reader: reader.select(PARCEL.name),
            "select by index": lambda reader: reader.select(PARCEL.name, "by_state", ("packed",)),
            "another table": lambda reader: reader.select(SHELF.name),
            "feed": lambda reader: reader.feed().events,
            "checkpoint": lambda reader: reader.checkpoint(stream.stream_id, "totals", 1),
        }

    def write_everywhere(self, stream: SampleStream, event_id: str) -> None:
        """Change everything a reader can see."""
        rows = (
            parcel("p1", state="sent"),
            Remove(PARCEL.name, ("p2",)),
            Put(SHELF.name, {"hall": "x", "number": 1}),
        )
        self.append(stream.unit(stream.event(event_id=event_id), rows=rows))
        self.new_stream(1)
        self.store.claim(stream.stream_id, "owner", TTL_MS, 0)
        self.store.save_checkpoint(Checkpoint(stream.stream_id, "totals", 1, 2, "0" * 64, b"later"))

    def prepared(self) -> tuple[SampleStream, str]:
        """A stream with an event, two rows and a checkpoint."""
        stream = self.new_stream()
        self.append(stream.unit(stream.event(), rows=(parcel("p1"), parcel("p2"))))
        self.store.save_checkpoint(Checkpoint(stream.stream_id, "totals", 1, 1, "0" * 64, b"early"))
        return stream, self.ids.new("evt")

    def test_a_snapshot_shows_what_the_store_held_when_it_was_taken(self) -> None:
        stream, event_id = self.prepared()
        views = self.views(stream, event_id)
        before = {name: view(self.store) for name, view in views.items()}
        with self.store.snapshot() as snapshot:
            self.write_everywhere(stream, event_id)
            assert {name: view(snapshot) for name, view in views.items()} == before

    def test_the_store_itself_shows_the_newest_state_while_a_snapshot_is_open(self) -> None:
        stream, event_id = self.prepared()
        views = self.views(stream, event_id)
        with self.store.snapshot() as snapshot:
            self.write_everywhere(stream, event_id)
            for name, view in views.items():
                assert view(self.store) != view(snapshot), name

    def test_a_snapshot_taken_later_shows_later_writes(self) -> None:
        stream = self.new_stream(1)
        with self.store.snapshot() as first:
            self.append(stream.unit(stream.event()))
            with self.store.snapshot() as second:
                self.append(stream.unit(stream.event()))
                lengths = [len(reader.read(stream.stream_id)) for reader in (first, second, self.store)]
        assert lengths == [1, 2, 3]

    def test_a_snapshot_can_be_left_by_an_error_and_the_store_goes_on(self) -> None:
        stream = self.new_stream(1)
        try:
            with self.store.snapshot() as snapshot:
                snapshot.read(stream.stream_id)
                raise KeyError("the reader's own fault")
        except KeyError:
            self.append(stream.unit(stream.event()))
        assert len(self.store.read(stream.stream_id)) == 2

    def test_a_snapshot_reads_a_stream_longer_than_a_page(self) -> None:
        stream = self.new_stream(1200)
        with self.store.snapshot() as snapshot:
            self.append(stream.unit(*stream.events(10)))
            pages = [snapshot.read(stream.stream_id, after) for after in (0, 500, 1000)]
        assert [event.sequence for page in pages for event in page] == list(range(1, 1201))

    def test_a_snapshot_of_an_empty_ledger_stays_empty(self) -> None:
        with self.store.snapshot() as snapshot:
            before = everything(snapshot)
            self.new_stream(3)
            assert everything(snapshot) == before
            assert snapshot.streams() == []
