"""Rows: what an append puts, patches and removes beside its events, and how they are rebuilt."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import cast

import pytest

from counterfoil.errors import InvalidUnit
from counterfoil.store.rows import Patch, Put, RecordedAtOf, Remove, Row, RowChange, SequenceOf
from counterfoil.store.unit import Unit
from counterfoil.testing.contract.case import PARCEL, SHELF, ContractCase, everything, parcel

INTEGER_MAX = 2**63 - 1


class RowContract(ContractCase):
    """``Unit.rows``, ``Store.get`` and ``Store.rebuild_rows``."""

    def change(self, *changes: RowChange) -> None:
        """Make these changes with an event of their own."""
        stream = self.new_stream()
        self.append(stream.unit(stream.event(), rows=changes))

    def row(self, parcel_id: str) -> Row:
        """The row of this parcel."""
        row = self.store.get(PARCEL.name, (parcel_id,))
        assert row is not None
        return row

    # ---- put, patch, remove ----

    def test_a_row_that_was_put_has_all_columns_and_version_1(self) -> None:
        self.change(parcel("p1", "str_a", state="packed", weight=7, place="hall 3"))
        assert self.row("p1") == {
            "parcel_id": "p1",
            "stream_id": "str_a",
            "state": "packed",
            "weight": 7,
            "place": "hall 3",
            "due_ms": None,
            "mark": None,
            "opened_sequence": None,
            "opened_ms": None,
            "row_version": 1,
        }

    def test_putting_a_row_again_replaces_every_column_and_raises_its_version(self) -> None:
        self.change(parcel("p1", place="hall 3", due_ms=5))
        self.change(parcel("p1", weight=2, due_ms=6))
        row = self.row("p1")
        assert (row["place"], row["due_ms"], row["weight"], row["row_version"]) == (None, 6, 2, 2)

    def test_a_patch_changes_its_columns_and_raises_the_version(self) -> None:
        self.change(parcel("p1", place="hall 3", due_ms=5))
        self.change(Patch(PARCEL.name, ("p1",), {"state": "sent", "due_ms": None}))
        row = self.row("p1")
        assert (row["state"], row["due_ms"], row["place"], row["row_version"]) == ("sent", None, "hall 3", 2)

    def test_a_patch_without_its_row_changes_nothing(self) -> None:
        self.change(Patch(PARCEL.name, ("p1",), {"state": "sent"}))
        assert self.store.get(PARCEL.name, ("p1",)) is None

    def test_a_patch_for_certain_states_leaves_a_row_in_any_other_as_it_is(self) -> None:
        self.change(parcel("p1", state="packed"), parcel("p2", state="lost"))
        waiting = frozenset({"packed", "sent"})
        self.change(*(Patch(PARCEL.name, (key,), {"state": "sent"}, waiting) for key in ("p1", "p2", "p3")))
        assert (self.row("p1")["state"], self.row("p1")["row_version"]) == ("sent", 2)
        assert (self.row("p2")["state"], self.row("p2")["row_version"]) == ("lost", 1)

    def test_a_patch_for_certain_states_sees_the_changes_before_it_in_the_unit(self) -> None:
        self.change(
            parcel("p1", state="packed"),
            Patch(PARCEL.name, ("p1",), {"state": "sent"}, frozenset({"packed"})),
            Patch(PARCEL.name, ("p1",), {"state": "lost"}, frozenset({"packed"})),
        )
        assert self.row("p1")["state"] == "sent"

    def test_a_removed_row_is_gone_and_begins_again_at_version_1(self) -> None:
        self.change(parcel("p1"))
        self.change(parcel("p1"))
        self.change(Remove(PARCEL.name, ("p1",)))
        assert self.store.get(PARCEL.name, ("p1",)) is None
        self.change(parcel("p1"))
        assert self.row("p1")["row_version"] == 1

    def test_removing_a_row_that_is_not_there_is_no_error(self) -> None:
        self.change(Remove(PARCEL.name, ("p1",)), parcel("p2"))
        assert self.row("p2")["row_version"] == 1

    def test_changes_of_one_unit_apply_in_order(self) -> None:
        self.change(
            Patch(PARCEL.name, ("p1",), {"state": "too early"}),
            parcel("p1", state="packed"),
            Patch(PARCEL.name, ("p1",), {"state": "sent"}),
            parcel("p2"),
            Remove(PARCEL.name, ("p2",)),
        )
        assert (self.row("p1")["state"], self.row("p1")["row_version"]) == ("sent", 2)
        assert self.store.get(PARCEL.name, ("p2",)) is None

    def test_rows_of_one_append_come_from_all_its_units_in_order(self) -> None:
        stream = self.new_stream()
        self.outcomes(
            stream.unit(stream.event(), rows=(parcel("p1", weight=1),)),
            stream.unit(stream.event(), rows=(parcel("p1", weight=2), parcel("p2"))),
            stream.unit(stream.event(), rows=(Patch(PARCEL.name, ("p1",), {"weight": 3}),)),
        )
        assert (self.row("p1")["weight"], self.row("p1")["row_version"]) == (3, 3)
        assert self.row("p2")["row_version"] == 1

    def test_a_key_of_two_columns_names_one_row(self) -> None:
        for hall, number in (("east", 1), ("east", 2), ("west", 1)):
            self.change(Put(SHELF.name, {"hall": hall, "number": number, "note": f"{hall} {number}"}))
        self.change(Remove(SHELF.name, ("east", 1)))
        assert [row["note"] for row in self.store.select(SHELF.name)] == ["east 2", "west 1"]

    # ---- what the writer fills in ----

    def test_a_cell_may_stand_for_the_sequence_and_the_time_of_an_event_of_its_unit(self) -> None:
        stream = self.new_stream(4)
        events = stream.events(3)
        last = events[2].event_id
        row = parcel("p1", opened_sequence=SequenceOf(last), opened_ms=RecordedAtOf(last))
        self.clock.advance(123)
        self.append(stream.unit(*events, rows=(row,)))
        assert (self.row("p1")["opened_sequence"], self.row("p1")["opened_ms"]) == (7, self.clock.now_ms())

    def test_a_cell_may_stand_for_an_event_of_the_other_stream_of_its_unit(self) -> None:
        first, second = self.new_stream(2), self.new_stream(5)
        one, other = first.event(), second.event()
        rows = (
            parcel("p1"),
            Patch(PARCEL.name, ("p1",), {"opened_sequence": SequenceOf(other.event_id)}),
            Put(SHELF.name, {"hall": "east", "number": 1}),
        )
        self.append(Unit((first.adding(one), second.adding(other)), rows))
        assert self.row("p1")["opened_sequence"] == 6

    # ---- cells ----

    def test_cells_come_back_as_they_went_in(self) -> None:
        cells: list[dict[str, str | int | bytes | None]] = [
            {"place": "", "weight": 0, "mark": b""},
            {"place": "a\x00b", "weight": -1, "mark": b"\x00\xff\x00"},
            {"place": "Straße \U0001f9fe", "weight": INTEGER_MAX, "mark": bytes(range(256))},
            {"place": "5", "weight": -INTEGER_MAX - 1, "mark": b"5"},
            {"place": "NULL", "weight": 2**53 + 1, "mark": None},
        ]
        self.change(*(parcel(f"p{number}", **values) for number, values in enumerate(cells)))
        for number, values in enumerate(cells):
            row = self.row(f"p{number}")
            found = {name: row[name] for name in values}
            assert found == values
            assert [type(cell) for cell in found.values()] == [type(cell) for cell in values.values()]

    def test_changing_a_row_that_was_handed_out_changes_nothing_in_the_store(self) -> None:
        self.change(parcel("p1"))
        self.row("p1")["state"] = "altered"
        self.store.select(PARCEL.name)[0]["state"] = "altered"
        assert self.row("p1")["state"] == "packed"

    @pytest.mark.parametrize(
        "change",
        [
            Put("undeclared", {"parcel_id": "p1"}),
            Remove("undeclared", ("p1",)),
            Put(PARCEL.name, {"parcel_id": "p1"}),
            parcel("p1", state=None),
            parcel("p1", colour="red"),
            parcel("p1", row_version=7),
            parcel("p1", weight="7"),
            parcel("p1", weight=True),
            parcel("p1", weight=2**63),
            parcel("p1", weight=-(2**63) - 1),
            parcel("p1", place=7),
            parcel("p1", place=b"7"),
            parcel("p1", place="\ud99c"),
            parcel("p1", mark="7"),
            Patch(PARCEL.name, ("p1",), {"colour": "red"}),
            Patch(PARCEL.name, ("p1",), {"state": None}),
            Patch(PARCEL.name, ("p1",), {"weight": cast("int", 1.5)}),
            Patch(PARCEL.name, ("p1",), {"parcel_id": "p2"}),
            Patch(PARCEL.name, ("p1", "p2"), {"state": "sent"}),
            Patch(SHELF.name, ("east", 1), {"note": "n"}, frozenset({"packed"})),
            Remove(SHELF.name, ("east",)),
            Remove(SHELF.name, ("east", "1")),
            Remove(SHELF.name, ("east", None)),
            parcel("p1", opened_sequence=SequenceOf("evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE")),
        ],
    )
    def test_a_change_that_its_table_does_not_allow_is_refused(self, change: RowChange) -> None:
        self.change(parcel("p1"))
        stream = self.new_stream()
        self.refused(stream.unit(stream.event(), rows=(parcel("p0"), change)), InvalidUnit)

    def test_a_key_that_only_the_writer_would_know_is_refused(self) -> None:
        stream = self.new_stream()
        event = stream.event()
        rows = (Put(SHELF.name, {"hall": "east", "number": SequenceOf(event.event_id)}),)
        self.refused(stream.unit(event, rows=rows), InvalidUnit)

    def test_getting_from_an_undeclared_table_or_by_a_wrong_key_is_refused(self) -> None:
        for table, key in (("undeclared", ("p1",)), (PARCEL.name, ()), (SHELF.name, ("east",))):
            with pytest.raises(InvalidUnit):
                self.store.get(table, key)

    # ---- rebuilding ----

    def rows_to_rebuild(self) -> None:
        """Two parcels of stream A, one of stream B, one shelf."""
        self.change(parcel("p1", "str_a"), parcel("p2", "str_a"), parcel("p3", "str_b"))
        self.change(Put(SHELF.name, {"hall": "east", "number": 1}))

    def test_rebuilding_a_stream_replaces_its_rows_and_no_others(self) -> None:
        self.rows_to_rebuild()
        changes: list[RowChange] = [
            parcel("p2", "str_a"),
            parcel("p4", "str_a"),
            Patch(PARCEL.name, ("p4",), {"state": "sent"}),
            Remove(PARCEL.name, ("p2",)),
        ]
        self.store.rebuild_rows("str_a", iter(changes))
        rows = self.store.select(PARCEL.name)
        assert [(row["parcel_id"], row["state"]) for row in rows] == [("p3", "packed"), ("p4", "sent")]
        assert len(self.store.select(SHELF.name)) == 1

    def test_rebuilding_everything_replaces_the_rows_of_all_tables(self) -> None:
        self.rows_to_rebuild()
        self.store.rebuild_rows(None, [parcel("p9", "str_c")])
        assert [row["parcel_id"] for row in self.store.select(PARCEL.name)] == ["p9"]
        assert self.store.select(SHELF.name) == []

    def test_rebuilding_gives_the_rows_and_versions_that_the_same_changes_gave_before(self) -> None:
        changes = (parcel("p1"), parcel("p1", weight=4), Patch(PARCEL.name, ("p1",), {"state": "sent"}))
        self.change(*changes)
        before = self.store.select(PARCEL.name)
        self.store.rebuild_rows(None, changes)
        assert self.store.select(PARCEL.name) == before

    @pytest.mark.parametrize(
        "wrong",
        [Remove("undeclared", ()), Patch(PARCEL.name, ("p1",), {"opened_sequence": SequenceOf("evt_none")})],
        ids=["undeclared table", "sequence to be filled in"],
    )
    def test_a_rebuild_that_is_refused_leaves_every_row_as_it_was(self, wrong: RowChange) -> None:
        self.rows_to_rebuild()
        before = everything(self.store)
        with pytest.raises(InvalidUnit):
            self.store.rebuild_rows(None, [parcel("p9"), wrong])
        assert everything(self.store) == before

    @pytest.mark.parametrize("error", [LookupError("the caller's own"), sqlite3.OperationalError("as well")])
    def test_what_the_changes_of_a_rebuild_raise_is_the_callers_own_error(self, error: Exception) -> None:
        self.rows_to_rebuild()
        before = everything(self.store)

        def changes() -> Iterator[RowChange]:
            yield parcel("p9")
            raise error

        with pytest.raises(type(error)) as raised:
            self.store.rebuild_rows(None, changes())
        assert raised.value is error
        assert everything(self.store) == before
        self.store.rebuild_rows(None, [parcel("p9")])
