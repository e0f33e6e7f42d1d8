"""Companions on every engine: written in the transaction of an event, sealed, truth that no rebuild touches."""

from __future__ import annotations

from decimal import Decimal

import pytest

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.companions.rows import COMPANIONS
from counterfoil.evidence.verify import verify

TYPE = "order.noted"


@pytest.fixture
def place(anywhere, tmp_path):
    return anywhere or ":memory:"


def declared(ledger):
    ledger.declare(TYPE, public={"lines": "n"})
    return ledger.declare_table("orders", key="order")


def note(ledger, orders):
    with ledger.run("a", conversation="c", dedupe="m1") as run:
        rows = [
            orders.put({"order": "O-1042", "total": Decimal("40.00"), "to": "Jane Doe"}),
            orders.put({"order": "O-7", "total": Decimal(3)}),
        ]
        run.record(TYPE, {"lines": 2}, rows=rows)


def test_rows_are_kept_beside_their_event_read_back_and_left_by_a_rebuild(place):
    with counterfoil.open(place) as ledger:
        orders = declared(ledger)
        note(ledger, orders)
        (event,) = ledger.events("c", types=[TYPE])
        kept = ledger.companion("c", "orders", "O-1042")
        assert kept.row == {"order": "O-1042", "total": Decimal("40.00"), "to": "Jane Doe"}
        assert (kept.event_id, kept.version, kept.state) == (event.event_id, 1, "present")
        ledger.rebuild()
        assert sorted(one.row["order"] for one in ledger.companions("c")) == ["O-1042", "O-7"]
        with ledger.run("a", conversation="c") as run:
            run.record(TYPE, {"lines": 0}, rows=[orders.remove("O-7"), orders.put({"order": "O-1042"})])
        assert [one.row for one in ledger.companions("c", "orders")] == [{"order": "O-1042"}]
        report = verify(ledger.store, ledger.keyring, FEATURES)
        assert (report.exit_code, report.rows_differ) == (0, ())


def test_a_resumed_run_writes_no_row_again(place):
    with counterfoil.open(place) as ledger:
        orders = declared(ledger)
        note(ledger, orders)
        with ledger.run("a", conversation="c") as run:
            run.record(TYPE, {"lines": 1}, rows=[orders.put({"order": "O-7", "total": 9})])
        note(ledger, orders)
        assert ledger.companion("c", "orders", "O-7").row["total"] == 9


def test_nothing_of_a_row_is_readable_in_the_store(place):
    with counterfoil.open(place) as ledger:
        note(ledger, declared(ledger))
        stored = [list(row.values()) for row in ledger.store.select(COMPANIONS.name)]
        assert len(stored) == 2
        assert not any(word in repr(stored) for word in ("O-1042", "Jane", "40.00"))
