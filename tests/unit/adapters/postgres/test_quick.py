"""A batch that is judged on what a handle remembers: quick while all is so, and never wrong when something is not."""

from __future__ import annotations

import pytest

from counterfoil.adapters.postgres import quick
from counterfoil.errors import GuardFailed
from counterfoil.store.rows import Absent, Patch, Put, Remove, RowIs
from counterfoil.store.unit import Receipt
from tests.unit.adapters.postgres.conftest import receipt, refusal, thing

pytestmark = pytest.mark.postgres


@pytest.fixture
def trips(monkeypatch):
    """How each batch went: True where the quick way was gone to its end."""
    gone = []
    real = quick.append_quick

    def noted(*arguments):
        gone.append(real(*arguments))
        return gone[-1]

    monkeypatch.setattr("counterfoil.adapters.postgres.engine.append_quick", noted)
    return gone


def patched(key, state, **guard):
    return {"rows": (Patch("thing", (key,), {"state": state}),)} | guard


def test_a_row_that_this_handle_wrote_is_changed_in_one_trip(store, stream, trips):
    receipt(store, stream.unit(stream.event(), **patched("t1", "packed")))
    assert trips == [True]
    assert (store.get("thing", ("t1",))["state"], store.get("thing", ("t1",))["row_version"]) == ("packed", 2)


def test_a_batch_on_one_stream_is_one_chain(store, stream, trips):
    units = [stream.unit(event) for event in stream.events(5)]
    assert all(isinstance(one, Receipt) for one in store.append(units).result())
    assert trips == [True]
    assert [event.sequence for event in store.read(stream.stream_id)] == list(range(1, 9))


def test_a_row_that_others_have_changed_meanwhile_is_looked_at_again(ledger, store, stream, trips):
    ledger.behind("UPDATE {s}.row_thing SET state = 'lost', row_version = 9 WHERE thing_id = 't1'")
    guards = (RowIs("thing", ("t1",), frozenset({"new"})),)
    refusal(store, stream.unit(stream.event(), **patched("t1", "packed"), guards=guards), GuardFailed)
    assert trips == [False]
    assert [event.sequence for event in store.read(stream.stream_id)] == [1, 2, 3]


def test_what_was_looked_at_again_is_remembered(ledger, store, stream, trips):
    ledger.behind("UPDATE {s}.row_thing SET state = 'lost', row_version = 9 WHERE thing_id = 't1'")
    receipt(store, stream.unit(stream.event(), **patched("t1", "found")))
    assert store.get("thing", ("t1",))["row_version"] == 10
    for _ in range(2):
        receipt(store, stream.unit(stream.event(), **patched("t1", "packed")))
    assert trips == [False, True, True]


def test_a_row_that_is_only_looked_at_must_be_as_remembered(ledger, store, stream, trips):
    ledger.behind("UPDATE {s}.row_thing SET state = 'lost', row_version = 9 WHERE thing_id = 't2'")
    guards = (RowIs("thing", ("t2",), frozenset({"new"})),)
    refusal(store, stream.unit(stream.event(), **patched("t1", "packed"), guards=guards), GuardFailed)
    assert store.get("thing", ("t1",))["state"] == "new"
    assert trips == [False]


def test_a_row_taken_to_be_absent_that_is_there_is_replaced_all_the_same(ledger, store, stream, trips):
    other = ledger.open()
    receipt(other, stream.unit(stream.event(), rows=(thing("new", stream),)))
    receipt(store, stream.unit(stream.event(), rows=(thing("new", stream),)))
    assert store.get("thing", ("new",))["row_version"] == 2
    assert trips[-1] is False


def test_a_guard_that_wants_a_row_absent_is_refused_where_it_is_there(ledger, store, stream, trips):
    other = ledger.open()
    receipt(other, stream.unit(stream.event(), rows=(thing("new", stream),)))
    row = Put("thing", thing("new", stream).values)
    guards = (Absent("thing", ("new",)),)
    refusal(store, stream.unit(stream.event(), rows=(row,), guards=guards), GuardFailed)


def test_a_head_that_another_handle_has_moved_is_looked_at_again(ledger, store, stream, trips):
    receipt(ledger.open(), stream.unit(stream.event()))
    told = receipt(store, stream.unit(stream.event(), **patched("t1", "packed")))
    assert told.positions[0].sequence == 5
    assert trips == [False]


def test_an_event_that_is_there_already_is_a_duplicate(store, stream, trips):
    unit = stream.unit(stream.event(), **patched("t1", "packed"))
    first, second = receipt(store, unit), receipt(store, unit)
    assert (first.duplicate, second.duplicate) == (False, True)
    assert first.positions == second.positions
    assert store.get("thing", ("t1",))["row_version"] == 2


def test_a_row_is_removed_the_long_way(store, stream, trips):
    receipt(store, stream.unit(stream.event(), rows=(Remove("thing", ("t1",)),)))
    assert store.get("thing", ("t1",)) is None
    assert trips == [False]
