"""Reading: events by place, type, run and id; streams; checkpoints; what a closed store says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from counterfoil.errors import InvalidUnit, StoreClosed, StreamNotFound
from counterfoil.store.contract import Store
from counterfoil.store.unit import Checkpoint
from counterfoil.testing.contract.case import DEADLINE_S, PARCEL, ContractCase, parcel
from counterfoil.testing.events import SampleStream

CALLS: dict[str, Callable[[Store, SampleStream], object]] = {
    "head": lambda store, stream: store.head(stream.stream_id),
    "stream": lambda store, stream: store.stream(stream.stream_id),
    "streams": lambda store, _: store.streams(),
    "read": lambda store, stream: store.read(stream.stream_id),
    "find": lambda store, stream: store.find(stream.stream_id, ["evt_none"]),
    "get": lambda store, _: store.get(PARCEL.name, ("p1",)),
    "select": lambda store, _: store.select(PARCEL.name),
    "count": lambda store, _: store.count(PARCEL.name, "by_state", (), 10),
    "feed": lambda store, _: store.feed(),
    "checkpoint": lambda store, stream: store.checkpoint(stream.stream_id, "totals", 1),
    "snapshot": lambda store, _: store.snapshot().__enter__(),
    "strays": lambda store, _: store.strays(),
    "append": lambda store, stream: store.append([stream.unit(stream.event())]).result(DEADLINE_S),
    "claim": lambda store, stream: store.claim(stream.stream_id, "owner", 1000, 0),
    "rebuild_rows": lambda store, _: store.rebuild_rows(None, []),
    "load": lambda store, _: store.load([]),
}


class ReadContract(ContractCase):
    """``Reader.read``, ``find``, ``streams``, ``checkpoint`` and ``Store.close``."""

    # ---- events ----

    def test_reading_goes_on_after_a_sequence_and_is_bounded(self) -> None:
        stream = self.new_stream(7)
        pages = [self.store.read(stream.stream_id, after, 3) for after in (0, 3, 6, 7, 99)]
        assert [[event.sequence for event in page] for page in pages] == [[1, 2, 3], [4, 5, 6], [7], [], []]

    def test_reading_is_bounded_also_when_nobody_asks(self) -> None:
        stream = self.new_stream(520)
        assert len(self.store.read(stream.stream_id)) == 500
        assert len(self.store.feed().events) == 500
        for _ in range(109):
            self.new_stream()
        assert len(self.store.streams()) == 100

    @pytest.mark.parametrize("limit", [0, -1])
    def test_a_bound_of_nothing_or_less_gives_nothing(self, limit: int) -> None:
        stream = self.new_stream()
        self.append(stream.unit(stream.event(), rows=(parcel("p1"),)))
        assert self.store.read(stream.stream_id, limit=limit) == []
        assert self.store.streams(limit=limit) == []
        assert self.store.select(PARCEL.name, limit=limit) == []
        page = self.store.feed(limit=limit)
        assert page.events == ()
        assert len(self.store.feed(page.cursor).events) == 1

    def test_reading_leaves_the_records_out_when_asked(self) -> None:
        stream = self.new_stream(2)
        whole = self.store.read(stream.stream_id)
        bare = self.store.read(stream.stream_id, content=False)
        assert bare == [replace(event, content=()) for event in whole]
        assert all(event.content for event in whole)

    def test_reading_leaves_the_headers_out_when_asked(self) -> None:
        stream = self.new_stream(2)
        whole = self.store.read(stream.stream_id)
        records = self.store.read(stream.stream_id, headers=False)
        assert records == [replace(event, header=b"") for event in whole]
        assert all(event.header for event in whole)

    def filled(self) -> tuple[SampleStream, list[str]]:
        """Twelve events: types a, b, c in turn; runs 1, 2 and none in turn."""
        stream = self.new_stream()
        runs = [self.ids.new("run"), self.ids.new("run")]
        for number in range(12):
            run_id = (runs[0], runs[1], None)[number % 3]
            event = stream.event(f"{number}", event_type=f"sample.{'abcd'[number % 4]}", run_id=run_id)
            self.append(stream.unit(event))
        return stream, runs

    def test_reading_keeps_the_wanted_types(self) -> None:
        stream, _ = self.filled()
        for types, wanted in (
            ({"sample.a"}, [1, 5, 9]),
            ({"sample.a", "sample.d"}, [1, 4, 5, 8, 9, 12]),
            ({"sample.none"}, []),
            (set[str](), []),
        ):
            found = self.store.read(stream.stream_id, types=frozenset(types))
            assert [event.sequence for event in found] == wanted

    def test_reading_keeps_the_wanted_run(self) -> None:
        stream, runs = self.filled()
        for run_id, wanted in ((runs[0], [1, 4, 7, 10]), (runs[1], [2, 5, 8, 11]), (self.ids.new("run"), [])):
            assert [event.sequence for event in self.store.read(stream.stream_id, run_id=run_id)] == wanted

    def test_filters_and_bounds_apply_together_and_the_bound_counts_what_is_kept(self) -> None:
        stream, runs = self.filled()
        types = frozenset({"sample.a", "sample.b", "sample.c"})
        found = self.store.read(stream.stream_id, after=1, limit=2, types=types, run_id=runs[0])
        assert [event.sequence for event in found] == [7, 10]

    def test_events_are_found_by_id_in_their_order(self) -> None:
        stream, other = self.new_stream(), self.new_stream(2)
        events = stream.events(4)
        self.append(stream.unit(*events))
        wanted = [events[3].event_id, self.ids.new("evt"), events[1].event_id, events[3].event_id]
        found = self.store.find(stream.stream_id, wanted)
        assert found == [self.store.read(stream.stream_id)[place] for place in (1, 3)]
        assert self.store.find(other.stream_id, wanted) == []
        assert self.store.find(stream.stream_id, []) == []
        assert self.store.find(self.ids.new("str"), wanted) == []

    def test_many_events_are_found_by_id_at_once(self) -> None:
        stream = self.new_stream()
        events = stream.events(1500)
        self.append(stream.unit(*events))
        assert len(self.store.find(stream.stream_id, [event.event_id for event in events])) == 1500

    # ---- streams ----

    def test_streams_come_in_the_order_of_their_ids_page_by_page(self) -> None:
        streams = [self.new_stream(number).stream_id for number in range(5)]
        assert [stored.stream_id for stored in self.store.streams()] == streams
        assert [stored.stream_id for stored in self.store.streams(limit=2)] == streams[:2]
        assert [stored.stream_id for stored in self.store.streams(after=streams[1], limit=2)] == streams[2:4]
        assert [stored.head.sequence for stored in self.store.streams()] == [0, 1, 2, 3, 4]

    def test_streams_of_one_tenant_come_without_those_of_others(self) -> None:
        north = [self.new_stream(tenant="north").stream_id for _ in range(2)]
        south = self.new_stream(tenant="south").stream_id
        assert [stored.stream_id for stored in self.store.streams("north")] == north
        assert [stored.stream_id for stored in self.store.streams("south")] == [south]
        assert self.store.streams("west") == []
        assert [stored.stream_id for stored in self.store.streams("north", after=north[0])] == north[1:]

    # ---- checkpoints ----

    def saved(
        self, stream: SampleStream, up_to: int, projection: str = "totals", version: int = 1
    ) -> Checkpoint:
        """Save a checkpoint and return it."""
        record = f"record of {projection} {version} at {up_to}".encode()
        checkpoint = Checkpoint(stream.stream_id, projection, version, up_to, f"{up_to:064x}", record)
        self.store.save_checkpoint(checkpoint)
        return checkpoint

    def test_there_is_no_checkpoint_until_one_is_saved(self) -> None:
        assert self.store.checkpoint(self.new_stream(3).stream_id, "totals", 1) is None

    def test_the_checkpoint_that_reaches_furthest_is_kept(self) -> None:
        stream = self.new_stream(5)
        self.saved(stream, 2)
        newest = self.saved(stream, 5)
        self.saved(stream, 3)
        assert self.store.checkpoint(stream.stream_id, "totals", 1) == newest

    def test_a_checkpoint_saved_again_at_its_sequence_replaces_the_old_one(self) -> None:
        stream = self.new_stream(2)
        again = replace(self.saved(stream, 2), record=b"made anew")
        self.store.save_checkpoint(again)
        assert self.store.checkpoint(stream.stream_id, "totals", 1) == again

    def test_checkpoints_of_other_projections_versions_and_streams_are_their_own(self) -> None:
        stream, other = self.new_stream(4), self.new_stream(4)
        saved = [
            self.saved(stream, 1),
            self.saved(stream, 2, version=2),
            self.saved(stream, 3, projection="counts"),
            self.saved(other, 4),
        ]
        for checkpoint in saved:
            found = self.store.checkpoint(checkpoint.stream_id, checkpoint.projection, checkpoint.version)
            assert found == checkpoint

    @pytest.mark.parametrize("beyond", [4, 2**28])
    def test_a_checkpoint_that_claims_a_sequence_beyond_the_head_is_refused(self, beyond: int) -> None:
        stream = self.new_stream(3)
        kept = self.saved(stream, 3)
        with pytest.raises(InvalidUnit):
            self.saved(stream, beyond)
        assert self.store.checkpoint(stream.stream_id, "totals", 1) == kept

    def test_a_checkpoint_of_a_stream_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(StreamNotFound):
            self.saved(SampleStream(self.ids), 0)

    # ---- the store itself ----

    def test_the_store_tells_the_clock_it_dates_by(self) -> None:
        assert self.store.now_ms() == self.clock.now_ms()
        self.clock.advance(77)
        assert self.store.now_ms() == self.clock.now_ms()

    def test_the_ledger_has_an_id_of_its_own(self) -> None:
        assert self.store.ledger_id.startswith("ldg_")
        assert self.store.ledger_id == self.store.ledger_id

    def test_a_ledger_that_only_appends_have_touched_has_no_strays(self) -> None:
        self.new_stream(3)
        assert self.store.strays() == []

    def test_closing_twice_is_no_error(self) -> None:
        self.store.close()
        self.store.close()

    def test_closing_finishes_the_appends_that_were_accepted(self) -> None:
        stream = self.new_stream()
        futures = [self.store.append([stream.unit(event)]) for event in stream.events(50)]
        self.store.close()
        sequences = [place.sequence for future in futures for place in future.result(DEADLINE_S)[0].positions]  # type: ignore[union-attr]  # a refusal fails the test
        assert sequences == list(range(1, 51))

    @pytest.mark.parametrize("call", CALLS)
    def test_a_closed_store_says_so(self, call: str) -> None:
        stream = self.new_stream(1)
        self.store.close()
        with pytest.raises(StoreClosed):
            CALLS[call](self.store, stream)
