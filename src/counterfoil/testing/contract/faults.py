"""FaultContract: what a caller may rely on when calls of a store fail, before or after they took effect."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from counterfoil.core.event import read_header
from counterfoil.errors import AppendTimeout, Fenced, StoreError, StoreFull, StoreIO
from counterfoil.store.contract import Store
from counterfoil.store.rows import Patch
from counterfoil.store.unit import Receipt, Refusal, Unit
from counterfoil.testing.contract.case import DEADLINE_S, PARCEL, ContractCase, everything, parcel
from counterfoil.testing.events import SampleStream
from counterfoil.testing.faulty import Fail, FailAfter, Fault, Faults, FaultyStore, Hold, Refuse

TTL_MS = 30_000
STORM: tuple[Fault, ...] = (Fail(), FailAfter(), Refuse(lambda: StoreFull("no space, says the test")))
STORM_SHARE = 0.4
TRIES_MAX = 100
THREADS = 6
APPENDS = 25


class FaultContract(ContractCase):
    """Run by pytest on a subclass whose ``open_store`` opens the store to be wrapped."""

    faults: Faults

    def open_another(self) -> Store:
        """The store of ``open_store`` in a wrapper that fails on demand."""
        self.faults = Faults()
        return FaultyStore(self.open_store(self.directory, self.tables(), self.clock), self.faults)

    def surely(self, unit: Unit) -> Receipt:
        """Append a unit, with the same ids again and again until it is answered by a receipt."""
        for _ in range(TRIES_MAX):
            try:
                (outcome,) = self.outcomes(unit)
            except StoreError:
                continue
            if isinstance(outcome, Receipt):
                return outcome
            assert isinstance(outcome.error, StoreError), outcome.error
        raise AssertionError(f"no receipt after {TRIES_MAX} tries")

    def check_chain(self, stream: SampleStream, count: int) -> None:
        """The stream is whole, each event naming the hash before it, and no event is there twice."""
        events = self.store.read(stream.stream_id, limit=10 * count)
        assert [event.sequence for event in events] == list(range(1, count + 1))
        assert len({event.event_id for event in events}) == count
        hashes = [stream.genesis.hash, *(event.hash for event in events)]
        named = [read_header(event.header).previous_event_hash for event in events]
        assert named == [previous.hex() for previous in hashes[:-1]]

    # ---- one call ----

    def test_nothing_is_stored_when_an_append_fails(self) -> None:
        stream = self.new_stream(1)
        before = everything(self.store)
        self.faults.next("append", Fail())
        with pytest.raises(StoreIO):
            self.outcomes(stream.unit(stream.event(), rows=(parcel("p1"),)))
        assert everything(self.store) == before

    def test_an_append_whose_answer_was_lost_is_stored_and_lands_once(self) -> None:
        stream = self.new_stream(1)
        unit = stream.unit(*stream.events(2), rows=(parcel("p1"),))
        self.faults.next("append", FailAfter())
        with pytest.raises(AppendTimeout):
            self.outcomes(unit)
        self.check_chain(stream, 3)
        before = everything(self.store)
        receipt = self.append(unit)
        assert receipt.duplicate
        assert [place.sequence for place in receipt.positions] == [2, 3]
        assert everything(self.store) == before

    def test_units_of_a_lost_answer_are_told_apart_when_sent_again_with_new_ones(self) -> None:
        stream = self.new_stream()
        old, new = (stream.unit(event) for event in stream.events(2))
        self.faults.next("append", FailAfter())
        with pytest.raises(AppendTimeout):
            self.outcomes(old)
        outcomes = self.outcomes(old, new)
        assert [outcome.duplicate for outcome in outcomes if isinstance(outcome, Receipt)] == [True, False]
        self.check_chain(stream, 2)

    def test_a_unit_that_is_refused_for_want_of_space_leaves_the_others_standing(self) -> None:
        stream = self.new_stream()
        units = [stream.unit(event) for event in stream.events(3)]
        self.faults.next("append", Refuse(lambda: StoreFull("no space, says the test"), unit=1))
        outcomes = self.outcomes(*units)
        assert [isinstance(outcome, Refusal) for outcome in outcomes] == [False, True, False]
        self.check_chain(stream, 2)
        assert not self.append(units[1]).duplicate

    def test_a_claim_that_fails_takes_nothing(self) -> None:
        stream = self.new_stream()
        before = everything(self.store)
        self.faults.next("claim", Fail())
        with pytest.raises(StoreIO):
            self.store.claim(stream.stream_id, "owner", TTL_MS, 0, stream.unit(stream.event(), token=1))
        assert everything(self.store) == before

    def test_who_lost_the_answer_to_a_claim_finds_the_own_name_on_the_lease(self) -> None:
        stream = self.new_stream()
        unit = stream.unit(stream.event(), token=1)
        self.faults.next("claim", FailAfter())
        with pytest.raises(AppendTimeout):
            self.store.claim(stream.stream_id, "owner", TTL_MS, 0, unit)
        with pytest.raises(Fenced) as caught:
            self.store.claim(stream.stream_id, "owner", TTL_MS, 0, unit)
        assert (caught.value.lease.owner, caught.value.lease.token) == ("owner", 1)
        assert self.append(unit).duplicate

    def test_renewing_and_releasing_may_be_repeated_after_a_lost_answer(self) -> None:
        stream = self.new_stream()
        lease = self.store.claim(stream.stream_id, "owner", TTL_MS, 0).lease
        for method in ("renew", "release"):
            self.faults.next(method, FailAfter())
        self.clock.advance(1000)
        with pytest.raises(AppendTimeout):
            self.store.renew(lease, TTL_MS)
        assert self.store.renew(lease, TTL_MS).expires_at_ms == self.clock.now_ms() + TTL_MS
        with pytest.raises(AppendTimeout):
            self.store.release(lease)
        self.store.release(lease)
        assert self.store.claim(stream.stream_id, "next", TTL_MS, 1).lease.token == 2

    def test_an_append_that_is_held_up_keeps_nobody_from_reading_or_appending(self) -> None:
        stream, hold = self.new_stream(1), Hold()
        late, early = stream.events(2)
        self.faults.next("append", hold)
        with ThreadPoolExecutor(1) as pool:
            held = pool.submit(self.outcomes, stream.unit(late))
            assert hold.reached.wait(DEADLINE_S)
            self.append(stream.unit(early))
            assert len(self.store.read(stream.stream_id)) == 2
            hold.gate.set()
            (outcome,) = held.result(DEADLINE_S)
        assert isinstance(outcome, Receipt)
        assert outcome.positions[0].sequence == 3

    # ---- a storm of faults ----

    def test_every_append_lands_once_when_many_calls_fail(self) -> None:
        stream = self.new_stream()
        self.append(stream.unit(stream.event(), rows=(parcel("p1"),)))
        self.faults.storm("append", STORM_SHARE, STORM, seed=7)
        patch = Patch(PARCEL.name, ("p1",), {"state": "sent"})
        for event in stream.events(4 * APPENDS):
            self.surely(stream.unit(event, rows=(patch,)))
        self.faults.calm()
        self.check_chain(stream, 1 + 4 * APPENDS)
        row = self.store.get(PARCEL.name, ("p1",))
        assert row is not None
        assert row["row_version"] == 1 + 4 * APPENDS

    def test_every_append_of_many_threads_lands_once_when_many_calls_fail(self) -> None:
        stream = self.new_stream()
        units = [[stream.unit(event) for event in stream.events(APPENDS)] for _ in range(THREADS)]
        self.faults.storm("append", STORM_SHARE, STORM, seed=11)
        with ThreadPoolExecutor(THREADS) as pool:
            answers = list(pool.map(lambda mine: [self.surely(unit) for unit in mine], units))
        self.faults.calm()
        sequences = [receipt.positions[0].sequence for mine in answers for receipt in mine]
        assert sorted(sequences) == list(range(1, THREADS * APPENDS + 1))
        self.check_chain(stream, THREADS * APPENDS)
