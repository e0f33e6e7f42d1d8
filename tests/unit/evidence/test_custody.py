"""Whose stream it is: home here, adopted here, named by an import, or transplanted (FORMAT 14)."""

from __future__ import annotations

import pytest

from tests.unit.evidence.world import ELSEWHERE, LEDGER, World

SHA = "0" * 64


@pytest.fixture
def world():
    return World()


@pytest.fixture
def foreign(world):
    """A stream whose genesis names another ledger, with three events."""
    genesis = world.stream(ledger=ELSEWHERE)
    for number in range(3):
        world.note(f"from elsewhere {number}", genesis=genesis)
    return genesis


def imported(world, genesis, *, up_to=3, head=None, digest=None):
    """The record of an import in the archive stream."""
    archive = world.stream("system/archive")
    data = {
        "archive": SHA,
        "stream_id": genesis.stream_id,
        "genesis": digest or genesis.hash.hex(),
        "up_to_sequence": up_to,
        "head": head or world.events(genesis)[up_to - 1].hash.hex(),
        "keys": "none",
    }
    world.append(world.draft("archive.imported", data), genesis=archive)


def adopted(world, genesis, *, from_ledger=ELSEWHERE, at=None, head=None):
    events = world.events(genesis)
    data = {
        "from_ledger": from_ledger,
        "ledger": LEDGER,
        "tenant": "default",
        "at_sequence": len(events) if at is None else at,
        "head": head or events[-1].hash.hex(),
    }
    world.append(world.draft("stream.adopted", data), genesis=genesis)


def test_a_stream_of_another_ledger_that_no_record_names_is_transplanted(world, foreign):
    assert world.found() == [("transplanted", 0, 0)]


def test_a_stream_that_an_import_names_is_accepted(world, foreign):
    imported(world, foreign)
    assert world.found() == []


def test_an_import_of_another_genesis_under_the_same_id_explains_nothing(world, foreign):
    imported(world, foreign, digest=SHA)
    assert world.found() == [("transplanted", 0, 0)]


def test_events_after_an_import_need_an_adoption(world, foreign):
    imported(world, foreign)
    world.note(genesis=foreign)
    assert world.found() == [("custody", 4, 4)]


def test_a_stream_that_goes_on_after_its_adoption_is_at_home_here(world, foreign):
    imported(world, foreign)
    adopted(world, foreign)
    world.note(genesis=foreign)
    assert world.found() == []


def test_an_imported_stream_that_lost_its_end_is_named(world, foreign):
    imported(world, foreign)
    events = world.events(foreign)
    state = world.store._state.streams[foreign.stream_id]
    from msgspec.structs import replace

    del events[2:]
    state.head = replace(state.head, sequence=2, hash=events[-1].hash)
    assert world.found() == [("removed", 3, 3)]


def test_an_imported_stream_with_another_head_is_named(world, foreign):
    imported(world, foreign, head=SHA)
    assert world.found() == [("custody", 3, 3)]


def test_an_adoption_from_a_ledger_that_was_not_its_home_is_named(world, foreign):
    imported(world, foreign)
    adopted(world, foreign, from_ledger="ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PK")
    assert world.found() == [("custody", 4, 4)]


@pytest.mark.parametrize("wrong", [{"at": 2}, {"head": SHA}])
def test_an_adoption_at_another_place_than_it_says_is_named(world, foreign, wrong):
    imported(world, foreign)
    adopted(world, foreign, **wrong)
    assert world.found() == [("custody", 4, 4)]


def test_a_stream_that_was_adopted_away_is_not_at_home_here(world):
    world.note()
    events = world.events()
    data = {
        "from_ledger": LEDGER,
        "ledger": ELSEWHERE,
        "tenant": "default",
        "at_sequence": 1,
        "head": events[-1].hash.hex(),
    }
    world.append(world.draft("stream.adopted", data))
    assert world.found() == [("transplanted", 0, 0)]
