"""The fault-injecting store wrapper itself; what callers may rely on under faults is FaultContract."""

from __future__ import annotations

import threading

import pytest

from counterfoil.adapters.memory import MemoryStore
from counterfoil.errors import AppendTimeout, StoreFull, StoreIO
from counterfoil.store.unit import Receipt, Refusal
from counterfoil.testing import ManualClock
from counterfoil.testing import faulty as faulty_module
from counterfoil.testing.events import SAMPLE_LEDGER, SampleStream
from counterfoil.testing.faulty import Delay, Fail, FailAfter, FaultyStore, Hold, Refuse


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(clock):
    return FaultyStore(MemoryStore(SAMPLE_LEDGER, [], clock))


@pytest.fixture
def stream(store):
    stream = SampleStream()
    store.inner.append([stream.unit(create=True)])
    return stream


def full():
    return StoreFull("no space")


def test_calls_are_counted_for_each_method(store, stream):
    store.head(stream.stream_id)
    store.head(stream.stream_id)
    store.append([])
    assert store.faults.counts == {"head": 2, "append": 1}


def test_a_fault_meets_the_call_it_was_put_at_and_no_other(store, stream):
    store.faults.at("head", 2, Fail())
    store.head(stream.stream_id)
    with pytest.raises(StoreIO):
        store.head(stream.stream_id)
    store.head(stream.stream_id)
    store.read(stream.stream_id)


def test_the_next_call_is_counted_from_now(store, stream):
    store.head(stream.stream_id)
    store.faults.next("head", Fail(full))
    with pytest.raises(StoreFull):
        store.head(stream.stream_id)


def test_a_failing_append_fails_its_future_and_not_the_call(store, stream):
    store.faults.next("append", Fail())
    future = store.append([stream.unit(stream.event())])
    assert isinstance(future.exception(), StoreIO)
    assert store.read(stream.stream_id) == []


def test_a_lost_answer_leaves_what_was_written(store, stream):
    store.faults.next("append", FailAfter())
    assert isinstance(store.append([stream.unit(stream.event())]).exception(), AppendTimeout)
    assert len(store.read(stream.stream_id)) == 1


def test_refusing_a_whole_append_refuses_each_of_its_units(store, stream):
    store.faults.next("append", Refuse(full))
    outcomes = store.append([stream.unit(event) for event in stream.events(3)]).result()
    assert [type(outcome.error) for outcome in outcomes] == [StoreFull] * 3
    assert store.read(stream.stream_id) == []


def test_refusing_one_unit_lets_the_others_through_in_their_places(store, stream):
    store.faults.next("append", Refuse(full, unit=1))
    outcomes = store.append([stream.unit(event) for event in stream.events(3)]).result()
    assert [type(outcome) for outcome in outcomes] == [Receipt, Refusal, Receipt]


def test_refusing_a_unit_that_is_not_there_refuses_nothing(store, stream):
    store.faults.next("append", Refuse(full, unit=5))
    (outcome,) = store.append([stream.unit(stream.event())]).result()
    assert isinstance(outcome, Receipt)


def test_a_delayed_call_happens_later(store, stream, clock):
    before = clock.now_ms()
    store.faults.next("append", Delay(clock, 2.5))
    (outcome,) = store.append([stream.unit(stream.event())]).result()
    assert outcome.positions[0].recorded_at_ms == before + 2500


def test_a_held_call_waits_for_its_gate(store, stream):
    hold = Hold()
    store.faults.next("head", hold)
    found = []
    thread = threading.Thread(target=lambda: found.append(store.head(stream.stream_id)))
    thread.start()
    assert hold.reached.wait(30)
    assert found == []
    hold.gate.set()
    thread.join(30)
    assert found[0].sequence == 0


def test_a_gate_that_nobody_opens_fails_the_call(store, stream, monkeypatch):
    monkeypatch.setattr(faulty_module, "HOLD_S_MAX", 0.01)
    store.faults.next("head", Hold())
    with pytest.raises(TimeoutError):
        store.head(stream.stream_id)


def storm_of(seed):
    faulty = FaultyStore(MemoryStore(SAMPLE_LEDGER, [], ManualClock()))
    faulty.faults.storm("head", 0.5, [Fail()], seed=seed)
    return [faulty.faults.meet("head") is not None for _ in range(200)]


def test_a_storm_is_the_same_for_the_same_seed_and_meets_its_share():
    assert storm_of(1) == storm_of(1) != storm_of(2)
    assert 60 < sum(storm_of(1)) < 140


def test_calming_takes_every_fault_back(store, stream):
    store.faults.storm("head", 1.0, [Fail()])
    store.faults.next("read", Fail())
    store.faults.calm()
    store.head(stream.stream_id)
    store.read(stream.stream_id)


CALLS = {
    "stream": lambda store, stream: store.stream(stream.stream_id),
    "streams": lambda store, stream: store.streams(),
    "read": lambda store, stream: store.read(stream.stream_id),
    "find": lambda store, stream: store.find(stream.stream_id, []),
    "get": lambda store, stream: store.get("none", ()),
    "select": lambda store, stream: store.select("none"),
    "feed": lambda store, stream: store.feed(),
    "recent": lambda store, stream: store.recent(),
    "checkpoint": lambda store, stream: store.checkpoint(stream.stream_id, "totals", 1),
    "strays": lambda store, stream: store.strays(),
    "snapshot": lambda store, stream: store.snapshot(),
    "claim": lambda store, stream: store.claim(stream.stream_id, "owner", 1000, 0),
    "renew": lambda store, stream: store.renew(None, 1000),
    "release": lambda store, stream: store.release(None),
    "save_checkpoint": lambda store, stream: store.save_checkpoint(None),
    "rebuild_rows": lambda store, stream: store.rebuild_rows(None, []),
    "standing": lambda store, stream: store.standing(),
    "stand": lambda store, stream: store.stand("open"),
    "load": lambda store, stream: store.load([]),
    "close": lambda store, stream: store.close(),
}


@pytest.mark.parametrize("method", CALLS)
def test_every_method_can_fail_before_it_reaches_the_store(store, stream, method):
    store.faults.next(method, Fail(full))
    with pytest.raises(StoreFull):
        CALLS[method](store, stream)
