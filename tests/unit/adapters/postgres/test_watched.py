"""Rows that many units guard and few change: who only looks waits for nobody, and who changes waits for all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from counterfoil.adapters.postgres.transaction import LOOK
from counterfoil.errors import GuardFailed
from counterfoil.store.rows import Absent, Column, Put, RowIs, TableSpec
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import SequentialIds
from tests.unit.adapters.postgres.conftest import THING, receipt, refusal

pytestmark = pytest.mark.postgres

GATE = TableSpec("gate", (Column("tenant"), Column("state")), ("tenant",), stream_column=None, watched=True)
GUARD = Absent("gate", ("default",))
WAITS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
SHUT = Put("gate", {"tenant": "default", "state": "shut"})


@pytest.fixture
def handles(ledger):
    return [ledger.open((THING, GATE)) for _ in range(2)]


def new_stream(store, name):
    stream = SampleStream(SequentialIds(name))
    receipt(store, stream.unit(stream.event(), create=True))
    return stream


def test_those_who_guard_a_watched_row_do_not_wait_for_each_other_and_its_change_waits_for_them(
    ledger, cluster, handles
):
    guarding, changing = handles
    passer, shutter = new_stream(guarding, "passer"), new_stream(changing, "shutter")
    table = f'"{ledger.schema}"."row_gate"'
    unit = shutter.unit(shutter.event(), rows=(SHUT,))
    with psycopg.connect(cluster.url()) as other, ThreadPoolExecutor(1) as pool:
        other.execute(LOOK, (table,))  # a unit under way that has looked
        receipt(guarding, passer.unit(passer.event(), guards=(GUARD,)))
        shut = pool.submit(receipt, changing, unit)
        until(lambda: cluster.sql(WAITS) == [(1,)])
        assert not shut.done()
        other.rollback()
        shut.result(30)
    refusal(guarding, passer.unit(passer.event(), guards=(GUARD,)), GuardFailed)
    receipt(guarding, passer.unit(passer.event(), guards=(RowIs("gate", ("default",), frozenset({"shut"})),)))


def until(condition):
    """Wait for what another session is about to do."""
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came to that")


def test_units_that_guard_it_leave_nothing_behind_in_its_table(ledger, handles):
    guarding, _ = handles
    stream = new_stream(guarding, "passer")
    for _ in range(3):
        receipt(guarding, stream.unit(stream.event(), guards=(GUARD,)))
    ((size,),) = ledger.behind("SELECT pg_relation_size('{s}.row_gate')")
    assert size == 0
