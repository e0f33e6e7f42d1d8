"""One thread per handle renews every open run's lease, and parks a run whose lease was lost."""

from __future__ import annotations

import threading

import pytest

from counterfoil.errors import LeaseLost, StoreBusy
from tests.running import LEASE_MS


def lease(ledger, run):
    return ledger.store.head(run.conversation).lease


def test_a_beat_extends_the_lease_of_every_open_run(world, ledger):
    with ledger.run("a") as one, ledger.run("a") as two:
        world.clock.advance(10_000)
        ledger._heartbeat.beat()
        for run in (one, two):
            assert lease(ledger, run).expires_at_ms == world.clock.now_ms() + LEASE_MS + 1


def test_a_run_outlives_its_first_lease_while_the_heart_beats(world, ledger):
    with ledger.run("a", conversation="c") as run:
        for _ in range(10):
            world.clock.advance(10_000)
            ledger._heartbeat.beat()
        run.step("s", lambda: 1)
    assert run.terminal == "success"


def test_a_beat_records_no_event(ledger):
    with ledger.run("a", conversation="c") as run:
        before = ledger.store.head(run.conversation).sequence
        ledger._heartbeat.beat()
        assert ledger.store.head(run.conversation).sequence == before


def test_a_lost_lease_parks_the_run_at_the_next_beat(world, ledger):
    with pytest.raises(LeaseLost), ledger.run("a", conversation="c", dedupe="1") as run:
        world.expire_leases()
        with world.worker().run("a", conversation="c", dedupe="1"):
            pass
        ledger._heartbeat.beat()
        run.step("s", lambda: pytest.fail("a stale worker went on"))


def test_a_store_that_is_busy_is_tried_again_at_the_next_beat(world, ledger, monkeypatch):
    renew = ledger.store.renew
    with ledger.run("a", conversation="c") as run:
        world.clock.advance(10_000)
        monkeypatch.setattr(ledger.store, "renew", lambda *args: (_ for _ in ()).throw(StoreBusy("later")))
        ledger._heartbeat.beat()
        monkeypatch.setattr(ledger.store, "renew", renew)
        ledger._heartbeat.beat()
        assert lease(ledger, run).expires_at_ms == world.clock.now_ms() + LEASE_MS + 1


def beats():
    return [thread for thread in threading.enumerate() if thread.name == "counterfoil-heartbeat"]


def test_one_thread_serves_all_runs_of_a_handle_and_ends_with_the_last(ledger):
    already = set(beats())
    with ledger.run("a"), ledger.run("a"), ledger.run("a"):
        (thread,) = set(beats()) - already
    thread.join(10)
    assert not thread.is_alive()
    with ledger.run("a"):
        assert set(beats()) - already


def test_a_replay_needs_no_heartbeat(ledger):
    with ledger.run("a", dedupe="1"):
        pass
    already = set(beats())
    with ledger.run("a", dedupe="1"):
        assert set(beats()) <= already
