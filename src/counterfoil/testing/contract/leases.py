"""Leases: claimed by token, expired by the store's clock, renewed, released, and claimed with a unit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.errors import (
    ConflictError,
    Fenced,
    GuardFailed,
    InvalidUnit,
    LeaseHeld,
    StreamNotFound,
    WrongSequence,
)
from counterfoil.store.rows import RowIs
from counterfoil.store.unit import Claimed, Lease, Receipt, Unit, at
from counterfoil.testing.contract.case import PARCEL, ContractCase, everything, parcel
from counterfoil.testing.events import SampleStream

TTL_MS = 30_000


class LeaseContract(ContractCase):
    """``Store.claim``, ``renew`` and ``release``."""

    def claim(self, stream: SampleStream, expect_token: int = 0, unit: Unit | None = None) -> Claimed:
        """Claim for 30 seconds as ``owner N``, N being the new token."""
        return self.store.claim(stream.stream_id, f"owner {expect_token + 1}", TTL_MS, expect_token, unit)

    def lease_of(self, stream: SampleStream) -> Lease | None:
        """The lease that the stream's head shows."""
        head = self.store.head(stream.stream_id)
        assert head is not None
        return head.lease

    # ---- claiming ----

    def test_a_stream_that_nobody_claimed_has_token_0_and_no_lease(self) -> None:
        head = self.store.head(self.new_stream(1).stream_id)
        assert head is not None
        assert (head.token, head.lease) == (0, None)

    def test_a_free_lease_is_won_and_its_token_is_one_more(self) -> None:
        stream = self.new_stream(3)
        claimed = self.claim(stream)
        assert claimed == Claimed(Lease(stream.stream_id, 1, "owner 1", self.clock.now_ms() + TTL_MS))
        head = self.store.head(stream.stream_id)
        assert head is not None
        assert (head.sequence, head.token, head.lease) == (3, 1, claimed.lease)

    def test_leases_of_different_streams_have_nothing_to_do_with_each_other(self) -> None:
        first, second = self.new_stream(), self.new_stream()
        self.claim(first)
        assert self.claim(second).lease.token == 1

    def test_a_held_lease_is_refused_with_the_lease_also_to_its_owner(self) -> None:
        stream = self.new_stream()
        held = self.claim(stream).lease
        self.clock.advance(TTL_MS - 1)
        for owner in ("owner 1", "owner 2"):
            with pytest.raises(LeaseHeld) as caught:
                self.store.claim(stream.stream_id, owner, TTL_MS, held.token)
            assert caught.value.lease == held
        assert self.lease_of(stream) == held

    def test_a_lease_can_be_claimed_from_the_moment_it_expires(self) -> None:
        stream = self.new_stream()
        self.claim(stream)
        self.clock.advance(TTL_MS)
        lease = self.claim(stream, 1).lease
        assert (lease.token, lease.owner, lease.expires_at_ms) == (2, "owner 2", self.clock.now_ms() + TTL_MS)

    def test_an_expired_lease_that_nobody_claimed_is_still_shown(self) -> None:
        stream = self.new_stream()
        lease = self.claim(stream).lease
        self.clock.advance(10 * TTL_MS)
        assert self.lease_of(stream) == lease

    @pytest.mark.parametrize("expected", [0, 2, 7])
    def test_a_claim_that_expects_another_token_is_fenced_with_the_lease(self, expected: int) -> None:
        stream = self.new_stream()
        held = self.claim(stream).lease
        for _ in range(2):
            with pytest.raises(Fenced) as caught:
                self.claim(stream, expected)
            assert caught.value.lease == held
            self.clock.advance(TTL_MS)

    def test_a_stream_that_is_not_there_cannot_be_claimed_or_renewed(self) -> None:
        stream = SampleStream(self.ids)
        lease = Lease(stream.stream_id, 1, "owner", self.clock.now_ms())
        with pytest.raises(StreamNotFound):
            self.claim(stream)
        with pytest.raises(StreamNotFound):
            self.store.renew(lease, TTL_MS)

    # ---- claiming with a unit ----

    def test_a_claim_records_its_unit_under_the_new_token(self) -> None:
        stream = self.new_stream(2)
        unit = stream.unit(stream.event(), expected=at(2), token=1, rows=(parcel("p1"),))
        claimed = self.claim(stream, unit=unit)
        assert isinstance(claimed.receipt, Receipt)
        assert [place.sequence for place in claimed.receipt.positions] == [3]
        assert self.store.get(PARCEL.name, ("p1",)) is not None
        assert self.lease_of(stream) == claimed.lease

    def test_a_claim_whose_unit_has_the_old_token_is_fenced(self) -> None:
        stream = self.new_stream()
        self.claim_refused(stream, stream.unit(stream.event(), token=0), Fenced)

    def claim_refused(
        self, stream: SampleStream, unit: Unit, kind: type[ConflictError | InvalidUnit]
    ) -> None:
        """The claim raises this error and leaves everything as it was."""
        before = everything(self.store)
        with pytest.raises(kind):
            self.claim(stream, unit=unit)
        assert everything(self.store) == before
        assert self.claim(stream).lease.token == 1

    def test_a_claim_whose_unit_is_refused_leaves_lease_token_and_stream_as_they_were(self) -> None:
        stream = self.new_stream(1)
        unit = stream.unit(stream.event(), rows=(parcel("p1"),), guards=(RowIs(PARCEL.name, ("p2",)),))
        self.claim_refused(stream, unit, GuardFailed)

    def test_a_claim_whose_unit_is_elsewhere_than_at_the_head_is_refused(self) -> None:
        stream = self.new_stream(1)
        self.claim_refused(stream, stream.unit(stream.event(), expected=at(0)), WrongSequence)

    def test_a_claim_whose_unit_contradicts_itself_is_refused(self) -> None:
        stream = self.new_stream(1)
        event = stream.event()
        self.claim_refused(stream, stream.unit(event, event), InvalidUnit)

    def test_a_unit_that_contradicts_itself_is_named_before_anything_about_the_lease(self) -> None:
        stream, missing = self.new_stream(), SampleStream(self.ids)
        self.claim(stream)
        for target in (stream, missing):
            event = target.event()
            with pytest.raises(InvalidUnit):
                self.claim(target, 7, target.unit(event, event))

    def test_a_claim_may_create_its_stream(self) -> None:
        stream = SampleStream(self.ids)
        claimed = self.claim(stream, unit=stream.unit(stream.event(), create=True, token=1))
        head = self.store.head(stream.stream_id)
        assert head is not None
        assert (head.sequence, head.token, head.lease) == (1, 1, claimed.lease)

    def test_a_claim_whose_unit_does_not_create_its_stream_does_not_find_it(self) -> None:
        stream, other = SampleStream(self.ids), SampleStream(self.ids)
        for unit in (stream.unit(stream.event()), other.unit(other.event(), create=True)):
            with pytest.raises(StreamNotFound):
                self.claim(stream, unit=unit)
        assert self.store.streams() == []

    def test_a_claim_may_record_for_a_second_stream(self) -> None:
        stream, other = self.new_stream(), self.new_stream()
        self.claim(
            stream, unit=Unit((stream.adding(stream.event(), token=1), other.adding(other.event(), token=0)))
        )
        assert [event.sequence for event in self.store.read(other.stream_id)] == [1]

    def test_a_claim_that_is_refused_records_nothing_of_its_unit(self) -> None:
        stream = self.new_stream()
        self.claim(stream)
        before = everything(self.store)
        with pytest.raises(LeaseHeld):
            self.claim(stream, 1, stream.unit(stream.event(), token=2))
        assert everything(self.store) == before

    # ---- renewing and releasing ----

    def test_a_renewed_lease_ends_later(self) -> None:
        stream = self.new_stream()
        lease = self.claim(stream).lease
        self.clock.advance(10_000)
        renewed = self.store.renew(lease, TTL_MS)
        assert renewed == replace(lease, expires_at_ms=self.clock.now_ms() + TTL_MS)
        assert self.lease_of(stream) == renewed

    def test_renewing_never_shortens_a_lease(self) -> None:
        stream = self.new_stream()
        lease = self.claim(stream).lease
        assert self.store.renew(lease, 1) == lease
        longer = self.store.renew(lease, 2 * TTL_MS)
        assert self.store.renew(lease, TTL_MS) == longer
        assert self.lease_of(stream) == longer

    def test_an_expired_lease_that_nobody_claimed_can_be_renewed(self) -> None:
        stream = self.new_stream()
        lease = self.claim(stream).lease
        self.clock.advance(3 * TTL_MS)
        assert self.store.renew(lease, TTL_MS).expires_at_ms == self.clock.now_ms() + TTL_MS
        with pytest.raises(LeaseHeld):
            self.claim(stream, 1)

    def test_a_lease_that_another_has_claimed_cannot_be_renewed(self) -> None:
        stream = self.new_stream()
        old = self.claim(stream).lease
        self.clock.advance(TTL_MS)
        new = self.claim(stream, 1).lease
        with pytest.raises(Fenced) as caught:
            self.store.renew(old, TTL_MS)
        assert caught.value.lease == new
        assert self.lease_of(stream) == new

    def test_a_released_lease_is_free_and_its_token_stays(self) -> None:
        stream = self.new_stream()
        lease = self.claim(stream).lease
        self.store.release(lease)
        head = self.store.head(stream.stream_id)
        assert head is not None
        assert (head.token, head.lease) == (1, None)
        assert self.claim(stream, 1).lease.token == 2

    def test_a_released_lease_cannot_be_renewed(self) -> None:
        stream = self.new_stream()
        lease = self.claim(stream).lease
        self.store.release(lease)
        with pytest.raises(Fenced):
            self.store.renew(lease, TTL_MS)
        assert self.lease_of(stream) is None

    def test_releasing_what_is_no_longer_held_does_nothing(self) -> None:
        stream = self.new_stream()
        old = self.claim(stream).lease
        self.store.release(old)
        self.store.release(old)
        new = self.claim(stream, 1).lease
        self.store.release(old)
        assert self.lease_of(stream) == new

    def test_releasing_in_a_stream_that_is_not_there_does_nothing(self) -> None:
        stream = SampleStream(self.ids)
        self.store.release(Lease(stream.stream_id, 1, "owner", self.clock.now_ms()))
        assert self.store.head(stream.stream_id) is None

    def test_an_append_leaves_the_lease_as_it_is(self) -> None:
        stream = self.new_stream()
        lease = self.claim(stream).lease
        self.append(stream.unit(stream.event(), token=1))
        self.append(stream.unit(stream.event()))
        assert self.lease_of(stream) == lease
