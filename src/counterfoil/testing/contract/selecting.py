"""Selecting rows: by key and by every shape of index, both ways, page by page."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from counterfoil.errors import InvalidUnit
from counterfoil.store.rows import Cell, Key, Put, Row, TableSpec
from counterfoil.testing.contract.case import PARCEL, SHELF, ContractCase, parcel

# Text in the order of code points: capitals before small letters, U+E000 before anything beyond the first plane.
PLACES = (None, "", "B", "a", "a\x00", "ab", "é", "\ue000", "\U00010000")
DUE = (None, -(2**63), -5, 0, 7, 2**63 - 1)
MARKS = (None, b"", b"\x00", b"\x00\x01", b"\x7f", b"\xff")


class SelectContract(ContractCase):
    """``Reader.select``: rows in the order of an index, then of the key; a cell of None comes first."""

    def fill(self) -> None:
        """Parcels in scrambled order, with ties and empty cells in every index; and shelves."""
        stream = self.new_stream()
        count = len(PLACES) * len(DUE)
        scrambled = [number * 31 % count for number in range(count)]
        rows = [
            parcel(
                f"p{number:02}",
                f"str_{'abc'[number % 3]}",
                state=("packed", "sent", "lost")[number % 4 % 3],
                weight=number % 5 - 2,
                place=PLACES[number % len(PLACES)],
                due_ms=DUE[number // len(PLACES)],
                mark=MARKS[number * 5 % len(MARKS)],
            )
            for number in scrambled
        ]
        shelves = [
            Put(SHELF.name, {"hall": hall, "number": number})
            for number in (10, -3, 2)
            for hall in ("west", "", "east")
        ]
        self.append(stream.unit(stream.event(), rows=(*rows, *shelves)))

    def paged(
        self, spec: TableSpec, index: str | None, prefix: Key, limit: int, *, descending: bool
    ) -> list[Row]:
        """All rows of a selection, fetched ``limit`` at a time."""
        columns = (*(() if index is None else spec.indexes[index]), *spec.key)
        found: list[Row] = []
        after: Key | None = None
        while True:
            page = self.store.select(spec.name, index, prefix, after, limit, descending)
            assert len(page) <= limit
            found.extend(page)
            if len(page) < limit:
                return found
            after = tuple(page[-1][column] for column in columns)

    def check_order(self, spec: TableSpec, index: str | None, prefix: Key = ()) -> None:
        """A selection, in one page and in pages of every small size, is what sorting in Python gives."""
        columns = (*(() if index is None else spec.indexes[index]), *spec.key)
        every = self.store.select(spec.name, limit=1000)
        wanted = [row for row in every if tuple(row[name] for name in columns[: len(prefix)]) == prefix]
        wanted.sort(key=lambda row: in_order([row[name] for name in columns]))
        assert wanted, "the selection under test must not be empty"
        for limit in (1, 3, len(wanted), 1000):
            assert self.paged(spec, index, prefix, limit, descending=False) == wanted
            assert self.paged(spec, index, prefix, limit, descending=True) == wanted[::-1]

    @pytest.mark.parametrize("index", [None, *PARCEL.indexes])
    def test_rows_come_in_the_order_of_the_index_both_ways_whatever_the_page(self, index: str | None) -> None:
        self.fill()
        self.check_order(PARCEL, index)

    def test_rows_come_in_the_order_of_a_key_of_two_columns(self) -> None:
        self.fill()
        self.check_order(SHELF, None)

    @pytest.mark.parametrize(
        "index,prefix",
        [
            ("by_state", ("sent",)),
            ("by_stream", ("str_b",)),
            ("by_stream", ("str_b", "packed")),
            ("by_stream", ("str_b", "packed", 0)),
            ("by_due", (None,)),
            ("by_due", (-(2**63),)),
            ("by_place", ("a\x00",)),
            ("by_place", ("é", 7)),
            ("by_place", ("é", None)),
            ("by_place", (None, None)),
            ("by_mark", (b"\x00",)),
            (None, ("p07",)),
        ],
    )
    def test_a_prefix_keeps_the_rows_whose_first_columns_equal_it(
        self, index: str | None, prefix: Key
    ) -> None:
        self.fill()
        self.check_order(PARCEL, index, prefix)

    @pytest.mark.parametrize("prefix", [("east",), ("", -3)])
    def test_a_prefix_of_a_key_keeps_the_rows_whose_first_columns_equal_it(self, prefix: Key) -> None:
        self.fill()
        self.check_order(SHELF, None, prefix)

    def test_a_prefix_that_no_row_has_selects_nothing(self) -> None:
        self.fill()
        assert self.store.select(PARCEL.name, "by_state", ("unheard of",)) == []
        assert self.store.select(PARCEL.name, "by_place", ("é", 8)) == []

    def test_the_place_after_a_row_that_has_gone_is_still_a_place(self) -> None:
        self.fill()
        page = self.store.select(PARCEL.name, after=("p07x",), limit=2)
        assert [row["parcel_id"] for row in page] == ["p08", "p09"]
        page = self.store.select(PARCEL.name, after=("p07x",), limit=2, descending=True)
        assert [row["parcel_id"] for row in page] == ["p07", "p06"]

    @pytest.mark.parametrize(
        "index,prefix",
        [
            ("by_state", ("sent",)),
            ("by_stream", ("str_b", "packed")),
            ("by_due", (None,)),
            ("by_place", ("é", 8)),
        ],
    )
    def test_a_count_is_that_of_the_rows_selected_up_to_the_most(self, index: str, prefix: Key) -> None:
        self.fill()
        rows = len(self.store.select(PARCEL.name, index, prefix, limit=1000))
        assert self.store.count(PARCEL.name, index, prefix, 1000) == rows
        for most in (-1, 0, 1, 2):
            assert self.store.count(PARCEL.name, index, prefix, most) == min(max(most, 0), rows)

    def test_a_count_by_an_undeclared_index_is_refused(self) -> None:
        with pytest.raises(InvalidUnit):
            self.store.count(PARCEL.name, "by_nothing", (), 10)

    def test_a_selection_is_bounded(self) -> None:
        stream = self.new_stream()
        self.append(stream.unit(stream.event(), rows=tuple(parcel(f"p{number:03}") for number in range(130))))
        assert len(self.store.select(PARCEL.name)) == 100
        assert len(self.store.select(PARCEL.name, limit=7)) == 7

    def test_every_column_and_the_version_come_with_each_row(self) -> None:
        self.fill()
        (row,) = self.store.select(PARCEL.name, "by_state", ("sent",), limit=1)
        assert row == self.store.get(PARCEL.name, (row["parcel_id"],))

    @pytest.mark.parametrize(
        "table,index,prefix,after",
        [
            ("undeclared", None, (), None),
            (PARCEL.name, "by_colour", (), None),
            (PARCEL.name, "by_state", ("sent", "p1", "p2"), None),
            (PARCEL.name, "by_state", (), ("sent",)),
            (SHELF.name, None, (), ("east",)),
        ],
        ids=["table", "index", "prefix too long", "place without key", "place in half a key"],
    )
    def test_a_selection_that_the_table_does_not_allow_is_refused(
        self, table: str, index: str | None, prefix: Key, after: Key | None
    ) -> None:
        with pytest.raises(InvalidUnit):
            self.store.select(table, index, prefix, after)


def in_order(cells: Sequence[Cell]) -> tuple[tuple[int, Cell], ...]:
    """A sort key: None first, then by value; text by code points, which is how Python compares it."""
    return tuple((0 if cell is None else 1, cell) for cell in cells)
