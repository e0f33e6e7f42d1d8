"""Commits whose answer is an error: looked up by id, and only then told."""

from __future__ import annotations

import sqlite3

import pytest

from counterfoil.adapters.sqlite import engine as engine_module
from counterfoil.errors import StoreFull, StoreIO
from counterfoil.store.unit import Receipt, Refusal
from tests.unit.adapters.sqlite.conftest import outcome, receipt, refusal, thing

FSYNC = (1034, "SQLITE_IOERR_FSYNC")
FULL = (13, "SQLITE_FULL")


class Disk:
    """Decides what COMMIT does on every writing connection: the next ``plan`` entries, then the truth."""

    def __init__(self):
        self.plan = []
        self.commits = 0

    def fail(self, *plan):
        """Each entry is (recorded all the same?, (code, name))."""
        self.plan = list(plan)
        self.commits = 0


@pytest.fixture
def disk(monkeypatch):
    made = Disk()

    class Cursor(sqlite3.Cursor):
        def execute(self, sql, *params):
            if sql == "COMMIT" and made.plan:
                made.commits += 1
                recorded, (code, name) = made.plan.pop(0)
                super().execute("COMMIT" if recorded else "ROLLBACK")
                error = sqlite3.OperationalError("the disk failed")
                error.sqlite_errorcode, error.sqlite_errorname = code, name
                raise error
            return super().execute(sql, *params)

    class Connection(sqlite3.Connection):
        def cursor(self, factory=Cursor):
            return super().cursor(factory)

        def execute(self, *arguments):
            return self.cursor().execute(*arguments)

    real = engine_module.connect
    monkeypatch.setattr(engine_module, "connect", lambda *a, **k: real(*a, **k, factory=Connection))
    return made


@pytest.fixture
def store(disk, ledger):
    return ledger.open()


def test_a_commit_that_failed_but_was_recorded_is_a_receipt(disk, store, stream):
    disk.fail((True, FSYNC))
    told = receipt(store, stream.unit(stream.event()))
    assert not told.duplicate
    assert store.head(stream.stream_id).hash == told.positions[0].hash


def test_a_commit_that_failed_and_was_not_recorded_is_a_refusal(disk, store, stream):
    disk.fail((False, FSYNC))
    unit = stream.unit(stream.event())
    refusal(store, unit, StoreIO)
    assert store.head(stream.stream_id).sequence == 3
    assert receipt(store, unit).duplicate is False


def test_every_unit_of_the_batch_is_told_the_same(disk, store, stream):
    units = [stream.unit(stream.event(), rows=(thing(f"b{n}", stream),)) for n in range(3)]
    disk.fail((False, FSYNC))
    assert all(isinstance(told, Refusal) for told in store.append(units).result())
    disk.fail((True, FSYNC))
    assert all(isinstance(told, Receipt) for told in store.append(units).result())


def test_what_was_refused_for_another_reason_stays_so(disk, store, stream):
    held = stream.event()
    receipt(store, stream.unit(held))
    disk.fail((False, FSYNC))
    new, known, wrong = store.append(
        [stream.unit(stream.event()), stream.unit(held), stream.unit(stream.event(), token=9)]
    ).result()
    assert isinstance(new, Refusal)
    assert new.error.code == "store_io"
    assert isinstance(known, Receipt)
    assert known.duplicate
    assert wrong.error.code == "fenced"


def test_a_full_disk_at_commit_is_certainly_not_recorded_even_if_nothing_can_be_written(disk, store, stream):
    disk.fail((False, FULL), (False, FULL))
    refusal(store, stream.unit(stream.event()), StoreFull)


def test_an_outcome_that_cannot_be_looked_up_is_told_as_unknown(disk, store, stream):
    disk.fail((False, FSYNC), (False, FSYNC))
    with pytest.raises(StoreIO) as unknown:
        outcome(store, stream.unit(stream.event()))
    assert unknown.value.outcome == "unknown"
    assert "same ids again" in unknown.value.hint


def test_after_an_unknown_outcome_the_same_unit_lands_once(disk, store, stream):
    unit = stream.unit(stream.event())
    disk.fail((True, FSYNC), (False, FSYNC))
    with pytest.raises(StoreIO):
        outcome(store, unit)
    assert receipt(store, unit).duplicate
    assert store.head(stream.stream_id).sequence == 4


def test_as_long_as_the_disk_fails_nothing_new_is_recorded(disk, store, stream):
    disk.fail(*[(False, FSYNC)] * 3)
    with pytest.raises(StoreIO):
        outcome(store, stream.unit(stream.event()))
    refusal(store, stream.unit(stream.event()), StoreIO)
    receipt(store, stream.unit(stream.event()))


def test_what_is_recorded_counts_as_durable_only_once_it_is_in_the_file(disk, store, stream):
    unit = stream.unit(stream.event())
    with store.snapshot() as snapshot:
        snapshot.head(stream.stream_id)
        store._engine.open().execute("PRAGMA busy_timeout = 20")
        disk.fail((True, FSYNC))
        store._engine._busy_s = 0.02
        with pytest.raises(StoreIO, match="cannot be told now"):
            outcome(store, unit)
    assert receipt(store, unit).duplicate


def test_nothing_of_a_commit_in_doubt_is_left_in_memory(disk, store, stream):
    disk.fail((False, FSYNC))
    refusal(store, stream.unit(stream.event(), rows=(thing("ghost", stream),)), StoreIO)
    assert store.get("thing", ("ghost",)) is None
    told = receipt(store, stream.unit(stream.event()))
    assert told.positions[0].sequence == 4
    assert [event.sequence for event in store.read(stream.stream_id)] == [1, 2, 3, 4]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_claim_in_doubt_is_looked_up(disk, store, stream, recorded):
    disk.fail((recorded, FSYNC))
    unit = stream.unit(stream.event(), token=1)
    if recorded:
        claimed = store.claim(stream.stream_id, "me", 1000, 0, unit)
        assert claimed.lease == store.head(stream.stream_id).lease
        assert claimed.receipt is not None
    else:
        with pytest.raises(StoreIO):
            store.claim(stream.stream_id, "me", 1000, 0, unit)
        assert store.head(stream.stream_id).token == 0
        assert store.claim(stream.stream_id, "me", 1000, 0, unit).lease.token == 1


@pytest.mark.parametrize("recorded", [True, False])
def test_a_renewal_in_doubt_may_simply_be_repeated(disk, store, stream, recorded):
    lease = store.claim(stream.stream_id, "me", 1000, 0).lease
    disk.fail((recorded, FSYNC))
    with pytest.raises(StoreIO):
        store.renew(lease, 5000)
    assert store.renew(lease, 5000).expires_at_ms == store.now_ms() + 5000


def test_an_interrupt_at_commit_leaves_a_store_that_goes_on(store, stream, monkeypatch):
    real = store._engine._commit

    def interrupted(answer):
        real(answer)
        raise KeyboardInterrupt

    monkeypatch.setattr(store._engine, "_commit", interrupted)
    unit = stream.unit(stream.event())
    with pytest.raises(KeyboardInterrupt):
        store.append([unit])
    monkeypatch.setattr(store._engine, "_commit", real)
    assert receipt(store, unit).duplicate
    assert receipt(store, stream.unit(stream.event())).positions[0].sequence == 5
