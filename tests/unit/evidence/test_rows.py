"""Derived rows are refolded and compared: rebuilt or mismatched, and never counted as broken truth."""

from __future__ import annotations

import pytest

from counterfoil.core.event import Part, prepare
from counterfoil.evidence.refolded import Refolded
from counterfoil.store.facts import recorded_fact
from counterfoil.store.rows import Column, Feature, Patch, Put, Remove, TableSpec
from counterfoil.store.unit import StreamAppend, Unit
from tests.unit.evidence.world import World

ORDERS = TableSpec(
    "orders",
    (
        Column("order_id"),
        Column("stream_id"),
        Column("state"),
        Column("customer", required=False),
        Column("seq", "integer"),
    ),
    key=("order_id",),
)
NAMES = TableSpec("names", (Column("customer"), Column("stream_id")), key=("customer",))


def rows_of(fact, index):
    order = fact.data["order"]
    if fact.event_type == "order.paid":
        return [Patch("orders", (order,), {"state": "paid"}, frozenset({"placed"}))]
    if fact.event_type == "order.dropped":
        return [Remove("orders", (order,))]
    row = {"order_id": order, "stream_id": fact.stream_id, "state": "placed", "seq": fact.sequence}
    name = (fact.content or {}).get("customer")
    if name is None:
        return [Put("orders", row)]
    customer = index("customer", name)
    return [
        Put("orders", {**row, "customer": customer}),
        Put("names", {"customer": customer, "stream_id": fact.stream_id}),
    ]


TYPES = frozenset({"order.placed", "order.paid", "order.dropped"})
FEATURE = Feature("orders", (ORDERS, NAMES), TYPES, rows_of)


class Shop(World):
    """A ledger whose appends also write the rows that follow."""

    def __init__(self):
        super().__init__(tables=FEATURE.tables)
        for event_type in TYPES:
            self.registry.declare(event_type, 1, {"order": "label"})
        self.config = self.stream("system/config")
        self.writer.index_key(self.config.stream_id)

    def order(self, event_type, order, customer=None):
        parts = [] if customer is None else [Part({"customer": customer})]
        draft = self.draft(event_type, {"order": order}, parts)
        prepared = prepare(self.genesis, self.writer.stream_material(self.genesis), draft, self.registry)
        head = self.store.head(self.genesis.stream_id)
        fact = self._fact(draft, head.sequence + 1, parts)
        unit = Unit(
            (StreamAppend(self.genesis.stream_id, (prepared,)),), tuple(rows_of(fact, self.writer.index))
        )
        self.store.append([unit]).result()

    def _fact(self, draft, sequence, parts):
        from counterfoil.core.event import read_header, splice
        from counterfoil.core.forms import time_text

        prepared = prepare(self.genesis, self.writer.stream_material(self.genesis), draft, self.registry)
        header = read_header(splice(prepared, sequence, time_text(self.clock.now_ms()), "0" * 64))
        return recorded_fact("default", header, parts[0].value if parts else None)

    def rows(self, table="orders"):
        return self.store._state.tables[table].rows

    def derived(self, **options):
        return {each.table: each for each in self.verify((FEATURE,), **options).derived}


@pytest.fixture
def shop():
    made = Shop()
    made.order("order.placed", "o-1", "Ann")
    made.order("order.placed", "o-2", "Bob")
    made.order("order.placed", "o-3")
    made.order("order.paid", "o-1")
    made.order("order.dropped", "o-3")
    return made


def test_rows_that_events_give_again_are_rebuilt(shop):
    derived = shop.derived()
    assert [(each.state, each.stored, each.refolded) for each in derived.values()] == [
        ("rebuilt", 2, 2),
        ("rebuilt", 2, 2),
    ]
    assert shop.verify((FEATURE,)).counts.rows_refolded == 4


def change(shop, key, **cells):
    shop.rows()[key] = {**shop.rows()[key], **cells}


def test_a_row_that_differs_is_mismatched_and_named(shop):
    change(shop, ("o-1",), state="placed")
    found = shop.derived()["orders"]
    assert (found.state, found.differing, found.examples) == ("mismatched", 1, ("state of o-1",))


def test_a_row_that_is_not_there_is_lacking(shop):
    del shop.rows()["o-2",]
    found = shop.derived()["orders"]
    assert (found.state, found.lacking, found.examples) == ("mismatched", 1, ("lacking o-2",))


def test_a_row_that_no_event_gives_is_unexplained(shop):
    shop.rows()["o-9",] = {**shop.rows()["o-1",], "order_id": "o-9"}
    found = shop.derived()["orders"]
    assert (found.state, found.unexplained, found.examples) == ("mismatched", 1, ("unexplained o-9",))


def test_mismatched_rows_break_no_truth(shop):
    change(shop, ("o-1",), state="placed")
    report = shop.verify((FEATURE,))
    assert (report.exit_code, report.broken) == (0, False)


def test_how_often_a_row_changed_is_no_part_of_the_comparison(shop):
    change(shop, ("o-1",), row_version=77)
    assert shop.derived()["orders"].state == "rebuilt"


def test_examples_show_no_text_of_odd_form(shop):
    shop.rows()["o 9\x1b[31m",] = {**shop.rows()["o-1",], "order_id": "o 9\x1b[31m"}
    assert shop.derived()["orders"].examples == ("unexplained text of odd form",)


def test_without_keys_only_cells_that_come_from_headers_are_compared(shop):
    report = shop.verify((FEATURE,), keyring=None)
    orders, names = report.derived
    assert (orders.state, orders.refolded) == ("rebuilt", 2)
    assert (names.state, names.refolded, names.stored) == ("not_refolded", 0, 2)
    assert any("in part" in each.what for each in report.not_covered)
    change(shop, ("o-1",), state="placed")
    assert shop.derived(keyring=None)["orders"].differing == 1


def test_rows_of_a_broken_stream_are_left_out_and_said(shop):
    shop.change(2, event_type="order.lost")
    change(shop, ("o-1",), state="placed")
    report = shop.verify((FEATURE,))
    assert [each.state for each in report.derived] == ["not_refolded", "not_refolded"]
    assert any("derived rows" in each.what for each in report.not_covered)


def test_rows_can_be_left_out(shop):
    assert shop.verify((FEATURE,), rows=False).derived == ()


def test_only_rows_of_the_streams_asked_for_are_compared(shop):
    other = shop.stream()
    assert shop.derived(streams=[other.stream_id])["orders"].stored == 0
    assert shop.derived(streams=[shop.genesis.stream_id])["orders"].refolded == 2


def test_a_table_that_the_store_does_not_hold_is_not_refolded(shop):
    other = TableSpec("parcels", (Column("parcel_id"),), key=("parcel_id",))
    report = shop.verify((Feature("parcels", (other,), frozenset(), rows_of),))
    assert [(each.table, each.state) for each in report.derived] == [("parcels", "not_refolded")]


def test_verifying_makes_no_index_key(shop):
    tables = World(tables=FEATURE.tables)
    tables.note()
    tables.stream("system/config")
    tables.verify((FEATURE,))
    assert len(tables.keys.scan()) == 2


# ---- the temporary rows ------------------------------------------------------------------------------------------


@pytest.fixture
def refolded(monkeypatch):
    monkeypatch.setattr("counterfoil.evidence.refolded.CACHED_ROWS_MAX", 3)
    made = Refolded(FEATURE.tables)
    yield made
    made.close()


def placed(number, state="placed"):
    return Put("orders", {"order_id": f"o-{number}", "stream_id": "s", "state": state, "seq": number})


def test_more_rows_than_are_cached_keep_their_values(refolded):
    refolded.apply([placed(number) for number in range(20)])
    refolded.apply([Patch("orders", (f"o-{number}",), {"seq": 100 + number}) for number in range(20)])
    assert [refolded.take("orders", (f"o-{number}",))["seq"] for number in range(20)] == list(range(100, 120))


def test_a_taken_row_is_not_left(refolded):
    refolded.apply([placed(number) for number in range(6)])
    assert refolded.take("orders", ("o-4",)) is not None
    assert refolded.take("orders", ("o-4",)) is None
    assert [key for key, _ in refolded.left("orders")] == [("o-0",), ("o-1",), ("o-2",), ("o-3",), ("o-5",)]


def test_a_patch_of_a_row_that_is_not_there_changes_nothing(refolded):
    refolded.apply([Patch("orders", ("o-1",), {"seq": 1})])
    assert list(refolded.left("orders")) == []


def test_a_patch_for_other_states_changes_nothing(refolded):
    refolded.apply([placed(1, "paid"), Patch("orders", ("o-1",), {"seq": 9}, frozenset({"placed"}))])
    assert refolded.take("orders", ("o-1",))["seq"] == 1


def test_a_removed_row_is_gone_also_after_it_was_written_down(refolded):
    refolded.apply([placed(number) for number in range(6)])
    refolded.apply([Remove("orders", ("o-0",))])
    assert refolded.take("orders", ("o-0",)) is None
