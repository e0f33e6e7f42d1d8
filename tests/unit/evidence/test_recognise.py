"""Events recognised many at a time are exactly those that strict reading would find nothing in."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.core.event import Part, event_hash, read_header
from counterfoil.evidence.raw import raw_events
from counterfoil.evidence.recognise import Recogniser
from counterfoil.evidence.shapes import Shapes
from tests.unit.evidence.world import World

COUNT = 9


@pytest.fixture
def world():
    made = World()
    run = made.ids.new("run")
    for number in range(COUNT):
        made.append(made.draft(parts=[Part({"n": number})], run_id=run if number % 2 else None))
    return made


@pytest.fixture
def shapes(world):
    known = Shapes(world.registry)
    for event in world.events()[:2]:
        known.learn(read_header(event.header).raw)
    return known


def right(world, shapes, *, after=0):
    rows = [row for page in raw_events(world.store, world.genesis.stream_id, records=True) for row in page]
    tip = world.genesis.hash if after == 0 else world.events()[after - 1].hash
    return len(
        Recogniser(shapes, world.genesis.stream_id, world.genesis.key).right(rows[after:], after, tip.hex())
    )


def test_a_stretch_of_right_events_is_recognised_whole(world, shapes):
    assert right(world, shapes) == COUNT


def test_nothing_is_recognised_before_a_shape_was_learned(world):
    assert right(world, Shapes(world.registry)) == 0


def test_recognising_goes_on_from_any_footing(world, shapes):
    assert right(world, shapes, after=5) == COUNT - 5


CHANGES = {
    "an event id": {"event_id": "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE"},
    "a type": {"event_type": "order.lost"},
    "a type that is no text": {"event_type": 5},
    "a run": {"run_id": "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR"},
    "a run that is empty": {"run_id": ""},
    "a time": {"recorded_at_ms": 5},
    "a time that is no number": {"recorded_at_ms": "5"},
    "a hash": {"hash": bytes(32)},
    "a hash that is no bytes": {"hash": None},
    "a header": {"header": b"{}"},
    "a header that is no bytes": {"header": "text"},
    "a sequence": {"sequence": 77},
}


@pytest.mark.parametrize("sequence", [1, 2, 5, COUNT])
@pytest.mark.parametrize("change", CHANGES)
def test_it_stops_before_the_first_event_of_which_anything_differs(world, shapes, change, sequence):
    world.change(sequence, **CHANGES[change])
    assert right(world, shapes) == sequence - 1


@pytest.mark.parametrize(
    "old,new",
    [
        (b"shop-agent", b"shop agent"),
        (b'"data":{}', b'"data":{"line":1}'),
        (b"2026-09-01T", b"2026-09-31T"),
        (b'"ctx":"counterfoil/event/v1"', b'"ctx":"counterfoil/event/v2"'),
        (b'{"actor"', b'{ "actor"'),
        (b'"run_id":"run_', b'"run_id":"run-'),
        (b'","sha256"', b'","key":"dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK","sha256"'),
    ],
)
def test_it_stops_before_a_header_that_no_known_shape_admits(world, shapes, old, new):
    header = world.events()[5].header
    assert old in header
    changed = header.replace(old, new)
    world.change(6, header=changed, hash=event_hash(changed))
    assert right(world, shapes) == 5


def test_a_run_that_is_no_id_is_not_recognised_though_column_and_header_agree(world, shapes):
    header = world.events()[5].header
    odd = "run_" + "!" * 26
    changed = header.replace(world.events()[5].run_id.encode(), odd.encode())
    world.change(6, header=changed, hash=event_hash(changed), run_id=odd)
    assert right(world, shapes) == 5


def test_it_stops_before_a_part_that_names_the_stream_key(world, shapes):
    header = world.events()[5].header
    named = header.replace(b'","sha256"', b'","key":"%b","sha256"' % world.genesis.key.encode())
    shapes.learn(read_header(named).raw)
    world.change(6, header=named, hash=event_hash(named))
    assert right(world, shapes) == 5


def test_it_stops_before_an_event_of_another_stream(world, shapes):
    other = world.stream()
    for number in range(COUNT):
        world.append(world.draft(parts=[Part({"n": number})]), genesis=other)
    world.events()[4] = replace(world.events(other)[4], stream_id=world.genesis.stream_id)
    assert right(world, shapes) == 4


def test_a_header_beyond_the_limit_is_left_to_strict_reading(world, shapes, monkeypatch):
    monkeypatch.setattr("counterfoil.evidence.recognise.HEADER_BYTES_MAX", 100)
    assert right(world, shapes) == 0


def test_seconds_that_were_forgotten_are_worked_out_again(world, shapes, monkeypatch):
    monkeypatch.setattr("counterfoil.evidence.recognise.SECONDS_KEPT_MAX", 0)
    world.clock.advance(5000)
    world.note()
    assert right(world, shapes) == COUNT + 1
