"""Conditions of an append: expected sequence, fencing token, guards, and the order they are checked in."""

from __future__ import annotations

import pytest

from counterfoil.core.header import read_header
from counterfoil.errors import Fenced, GuardFailed, InvalidUnit, WrongSequence
from counterfoil.store.rows import Absent, Guard, Patch, RowChange, RowIs
from counterfoil.store.unit import ANY, NONE, Receipt, Unit, at
from counterfoil.testing.contract.case import PARCEL, SHELF, ContractCase, parcel
from counterfoil.testing.events import SampleStream

LEASE_MS = 30_000


def _is(*states: str, version: int | None = None) -> RowIs:
    return RowIs(PARCEL.name, ("p1",), frozenset(states), version)


def _moves_out_of(*states: str) -> Patch:
    return Patch(PARCEL.name, ("p1",), {"state": "gone"}, frozenset(states))


class ConditionContract(ContractCase):
    """A failed check records nothing of the unit and says what stands there instead."""

    # ---- expected sequence ----

    def test_an_append_at_the_head_is_recorded(self) -> None:
        stream = self.new_stream(2)
        assert self.append(stream.unit(stream.event(), expected=at(2))).positions[0].sequence == 3

    def test_an_append_elsewhere_than_at_the_head_is_refused_with_the_head(self) -> None:
        stream = self.new_stream(5)
        head = self.store.head(stream.stream_id)
        for wrong in (0, 4, 6):
            error = self.refused(stream.unit(stream.event(), expected=at(wrong)), WrongSequence)
            assert error.head == head

    def test_of_two_who_decided_on_the_same_head_the_second_is_refused(self) -> None:
        stream = self.new_stream(10)
        self.append(stream.unit(*stream.events(3), expected=at(10)))
        error = self.refused(stream.unit(stream.event(), expected=at(10)), WrongSequence)
        assert error.head.sequence == 13

    def test_an_append_anywhere_follows_whatever_is_there(self) -> None:
        stream = self.new_stream(4)
        assert self.append(stream.unit(stream.event(), expected=ANY)).positions[0].sequence == 5

    def test_an_append_that_expects_no_stream_is_refused_with_the_head_of_the_one_there_is(self) -> None:
        stream = self.new_stream(2)
        error = self.refused(stream.unit(stream.event(), create=True, expected=NONE), WrongSequence)
        assert error.head == self.store.head(stream.stream_id)

    def test_a_stream_just_created_is_at_sequence_0(self) -> None:
        stream = self.new_stream()
        self.append(stream.unit(stream.event(), expected=at(0)))

    def test_a_stream_that_the_unit_itself_creates_is_at_sequence_0(self) -> None:
        stream = SampleStream(self.ids)
        self.refused(stream.unit(stream.event(), create=True, expected=at(1)), WrongSequence)
        self.append(stream.unit(stream.event(), create=True, expected=at(0)))

    @pytest.mark.parametrize("events", [1, 2, 5])
    @pytest.mark.parametrize("looked_at_is", ["before", "behind"])
    def test_a_stream_that_is_only_looked_at_gets_no_event_of_another(
        self, looked_at_is: str, events: int
    ) -> None:
        streams = sorted((self.new_stream(2), self.new_stream(2)), key=lambda stream: stream.stream_id)
        looked_at, written = streams if looked_at_is == "before" else reversed(streams)
        for turn in range(2):
            parts = (
                looked_at.adding(expected=at(2)),
                written.adding(*written.events(events), expected=at(2 + turn * events)),
            )
            self.append(Unit(parts, rows=(parcel(f"p{turn}", written.stream_id),)))
        assert len(self.store.read(looked_at.stream_id)) == 2
        for stored in self.store.read(written.stream_id):
            assert stored.content
            assert read_header(stored.header).stream_id == written.stream_id
        assert [stored.sequence for stored in self.store.read(written.stream_id)] == list(
            range(1, 3 + 2 * events)
        )

    # ---- fencing ----

    def test_the_newest_token_may_append(self) -> None:
        stream = self.new_stream()
        lease = self.store.claim(stream.stream_id, "first", LEASE_MS, 0).lease
        self.append(stream.unit(stream.event(), token=lease.token))

    def test_a_token_is_stale_once_another_was_claimed(self) -> None:
        stream = self.new_stream()
        old = self.store.claim(stream.stream_id, "first", LEASE_MS, 0).lease
        self.clock.advance(LEASE_MS)
        new = self.store.claim(stream.stream_id, "second", LEASE_MS, old.token).lease
        error = self.refused(stream.unit(stream.event(), token=old.token), Fenced)
        assert error.lease == new

    def test_a_token_is_not_stale_by_time_or_by_release(self) -> None:
        stream = self.new_stream()
        lease = self.store.claim(stream.stream_id, "first", LEASE_MS, 0).lease
        self.clock.advance(10 * LEASE_MS)
        self.append(stream.unit(stream.event(), token=lease.token))
        self.store.release(lease)
        self.append(stream.unit(stream.event(), token=lease.token))

    def test_a_token_that_nobody_claimed_yet_is_refused(self) -> None:
        stream = self.new_stream()
        self.refused(stream.unit(stream.event(), token=1), Fenced)

    def test_without_a_token_there_is_no_fence(self) -> None:
        stream = self.new_stream()
        self.store.claim(stream.stream_id, "first", LEASE_MS, 0)
        self.append(stream.unit(stream.event()))

    def test_every_stream_of_a_unit_is_fenced_by_its_own_token(self) -> None:
        first, second = self.new_stream(), self.new_stream()
        token = self.store.claim(first.stream_id, "first", LEASE_MS, 0).lease.token
        self.append(Unit((first.adding(first.event(), token=token), second.adding(second.event(), token=0))))
        stale = Unit((second.adding(second.event(), token=0), first.adding(first.event(), token=0)))
        self.refused(stale, Fenced)

    # ---- guards ----

    def put(self, parcel_id: str, state: str, times: int = 1) -> None:
        """Make a row of this state whose version is ``times``."""
        stream = self.new_stream()
        for _ in range(times):
            self.append(stream.unit(stream.event(), rows=(parcel(parcel_id, state=state),)))

    def holds(self, *guards: Guard) -> bool:
        """Whether a unit with these guards is recorded."""
        stream = self.new_stream()
        (outcome,) = self.outcomes(stream.unit(stream.event(), guards=guards))
        return isinstance(outcome, Receipt)

    def test_a_row_that_is_not_there_is_absent(self) -> None:
        self.put("p1", "packed")
        assert self.holds(Absent(PARCEL.name, ("p2",)))
        assert self.holds(Absent(SHELF.name, ("east", 1)))
        assert not self.holds(Absent(PARCEL.name, ("p1",)))

    def test_a_row_is_guarded_by_its_state_its_version_or_both(self) -> None:
        self.put("p1", "sent", times=3)
        key = ("p1",)
        assert self.holds(RowIs(PARCEL.name, key))
        assert self.holds(RowIs(PARCEL.name, key, frozenset({"packed", "sent"})))
        assert self.holds(RowIs(PARCEL.name, key, version=3))
        assert self.holds(RowIs(PARCEL.name, key, frozenset({"sent"}), 3))
        assert not self.holds(RowIs(PARCEL.name, key, frozenset({"packed"})))
        assert not self.holds(RowIs(PARCEL.name, key, version=2))
        assert not self.holds(RowIs(PARCEL.name, key, frozenset({"sent"}), 4))
        assert not self.holds(RowIs(PARCEL.name, key, frozenset({"packed"}), 3))

    def test_a_row_that_is_not_there_is_in_no_state(self) -> None:
        assert not self.holds(RowIs(PARCEL.name, ("p1",)))

    def test_a_guard_that_fails_carries_the_row_as_it_is(self) -> None:
        self.put("p1", "sent")
        stream = self.new_stream()
        error = self.refused(stream.unit(stream.event(), guards=(Absent(PARCEL.name, ("p1",)),)), GuardFailed)
        assert (error.table, error.key) == (PARCEL.name, ("p1",))
        assert error.row == self.store.get(PARCEL.name, ("p1",))
        guard = RowIs(PARCEL.name, ("p2",))
        assert self.refused(stream.unit(stream.event(), guards=(guard,)), GuardFailed).row is None

    def test_a_guard_that_fails_records_neither_events_nor_rows(self) -> None:
        stream = self.new_stream()
        unit = stream.unit(
            stream.event(), rows=(parcel("p1"), parcel("p2")), guards=(RowIs(PARCEL.name, ("p3",)),)
        )
        self.refused(unit, GuardFailed)
        assert self.store.select(PARCEL.name) == []

    def test_the_first_guard_that_fails_is_named(self) -> None:
        self.put("p1", "sent")
        stream = self.new_stream()
        guards = (RowIs(PARCEL.name, ("p1",)), Absent(PARCEL.name, ("p1",)), RowIs(PARCEL.name, ("p9",)))
        assert self.refused(stream.unit(stream.event(), guards=guards), GuardFailed).key == ("p1",)

    def test_guards_see_the_rows_of_the_units_before_but_not_of_their_own(self) -> None:
        stream = self.new_stream()
        absent, packed = Absent(PARCEL.name, ("p1",)), RowIs(PARCEL.name, ("p1",), frozenset({"packed"}), 1)
        outcomes = self.outcomes(
            stream.unit(stream.event(), rows=(parcel("p1"),), guards=(absent,)),
            stream.unit(stream.event(), rows=(parcel("p1"),), guards=(absent,)),
            stream.unit(
                stream.event(), rows=(Patch(PARCEL.name, ("p1",), {"state": "sent"}),), guards=(packed,)
            ),
            stream.unit(
                stream.event(), rows=(Patch(PARCEL.name, ("p1",), {"state": "lost"}),), guards=(packed,)
            ),
        )
        assert [isinstance(outcome, Receipt) for outcome in outcomes] == [True, False, True, False]
        row = self.store.get(PARCEL.name, ("p1",))
        assert row is not None
        assert (row["state"], row["row_version"]) == ("sent", 2)

    @pytest.mark.parametrize(
        "guards, change, recorded",
        [
            ((Absent(PARCEL.name, ("new",)),), parcel("new"), True),
            ((Absent(PARCEL.name, ("p1",)),), parcel("p1"), False),
            ((_is("packed", "sent"),), _moves_out_of("sent", "packed", "lost"), True),
            ((_is("sent"),), _moves_out_of(), True),
            ((_is("packed"),), _moves_out_of(), False),
            ((_is("packed"),), _moves_out_of("packed", "sent"), False),
            # The guard holds, and the change then finds the row in a state that it leaves alone.
            ((_is("sent"),), _moves_out_of("packed"), True),
            ((_is("sent"), _is("packed", "sent")), _moves_out_of(), True),
            ((_is("packed", "sent"), _is("packed")), _moves_out_of(), False),
            ((_is("sent", version=2),), _moves_out_of(), False),
            ((_is("sent"), Absent(PARCEL.name, ("p1",))), _moves_out_of(), False),
            ((RowIs(PARCEL.name, ("new",), frozenset({"packed"})),), parcel("new"), False),
        ],
    )
    def test_a_guard_holds_or_not_whatever_the_unit_then_does_to_the_row(
        self, guards: tuple[Guard, ...], change: RowChange, recorded: bool
    ) -> None:
        self.put("p1", "sent")
        first, stream, last = self.new_stream(), self.new_stream(), self.new_stream()
        outcomes = self.outcomes(
            first.unit(first.event(), rows=(parcel("p0"),)),
            stream.unit(stream.event(), rows=(change,), guards=guards),
            last.unit(last.event(), rows=(parcel("p2"),)),
        )
        assert [isinstance(outcome, Receipt) for outcome in outcomes] == [True, recorded, True]
        assert (len(self.store.read(stream.stream_id)) == 1) is recorded
        row = self.store.get(PARCEL.name, ("p1",))
        assert row is not None
        moves = recorded and isinstance(change, Patch) and change.only_in != frozenset({"packed"})
        assert row["state"] == ("gone" if moves else "sent")
        assert {key for key in ("p0", "p2") if self.store.get(PARCEL.name, (key,))} == {"p0", "p2"}

    def test_of_two_guards_that_fail_the_first_is_named_whatever_is_done_to_its_row(self) -> None:
        self.put("p1", "sent")
        stream = self.new_stream()
        guards = (Absent(PARCEL.name, ("p1",)), RowIs(PARCEL.name, ("p9",)))
        unit = stream.unit(stream.event(), rows=(parcel("p1"),), guards=guards)
        error = self.refused(unit, GuardFailed)
        assert error.key == ("p1",)
        assert error.row == self.store.get(PARCEL.name, ("p1",))

    @pytest.mark.parametrize(
        "guard",
        [
            Absent("undeclared", ("p1",)),
            Absent(PARCEL.name, ()),
            Absent(PARCEL.name, ("p1", "p2")),
            RowIs(SHELF.name, ("east",)),
            RowIs(SHELF.name, ("east", 1), frozenset({"full"})),
        ],
        ids=["table", "empty key", "long key", "short key", "no state column"],
    )
    def test_a_guard_that_its_table_does_not_allow_is_refused(self, guard: Guard) -> None:
        stream = self.new_stream()
        self.refused(stream.unit(stream.event(), guards=(guard,)), InvalidUnit)

    # ---- the order of the checks ----

    def test_a_stale_token_is_named_before_a_wrong_sequence(self) -> None:
        stream = self.new_stream()
        self.refused(stream.unit(stream.event(), token=5, expected=at(9)), Fenced)

    def test_a_stale_token_of_the_second_stream_is_named_before_a_wrong_sequence_of_the_first(self) -> None:
        first, second = self.new_stream(), self.new_stream()
        parts = (first.adding(first.event(), expected=at(9)), second.adding(second.event(), token=5))
        self.refused(Unit(parts), Fenced)

    def test_a_wrong_sequence_is_named_before_a_guard(self) -> None:
        stream = self.new_stream()
        guard = RowIs(PARCEL.name, ("p1",))
        self.refused(stream.unit(stream.event(), expected=at(9), guards=(guard,)), WrongSequence)
