"""Records that are missing, damaged, erased or withheld: each is told apart, in sealed and clear streams."""

from __future__ import annotations

import hashlib

import pytest

from counterfoil.core.event import Part
from tests.unit.evidence.world import World

CERTIFICATE = "ers_01J9ZC3Y3V7W2R5T8QK4M6N0PE"
DELETION = "del_01J9ZC3Y3V7W2R5T8QK4M6N0PE"


@pytest.fixture(params=["sealed", "clear"])
def world(request):
    made = World(content=request.param)
    made.notes(4)
    return made


@pytest.fixture
def sealed():
    made = World()
    made.notes(4)
    return made


def certify(world, **scope):
    """What a completed deletion records in the stream."""
    data = {
        "deletion_id": DELETION,
        "certificate": CERTIFICATE,
        "ground": "request",
        "contents": 1,
        "objects": 0,
        "copies": "not_covered",
        **scope,
    }
    world.append(world.draft("deletion.completed", data))


def test_a_record_that_is_gone_without_a_certificate_is_missing(world):
    world.change(2, content=())
    assert world.found() == [("content_missing", 2, 2)]


@pytest.mark.parametrize("level", ["digests", "content"])
def test_a_record_that_is_gone_under_a_certificate_of_its_key_is_erased(world, level):
    world.change(2, content=())
    certify(world, key=world.genesis.key)
    report = world.verify(level=level, keyring=None)
    assert (report.exit_code, report.counts.records_erased) == (0, 1)


def test_a_record_that_is_gone_under_a_certificate_of_its_sequences_is_erased(world):
    world.change(2, content=())
    certify(world, from_sequence=1, to_sequence=2)
    assert world.verify().counts.records_erased == 1


@pytest.mark.parametrize(
    "scope",
    [
        {"key": "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK"},
        {"from_sequence": 3, "to_sequence": 4},
        {"from_sequence": 1, "to_sequence": 4, "types": ["effect.intended"]},
    ],
)
def test_a_certificate_of_something_else_explains_nothing(world, scope):
    world.change(2, content=())
    certify(world, **scope)
    assert ("content_missing", 2, 2) in world.found()


def test_records_under_a_key_that_was_erased_are_not_missing_and_not_damaged(sealed):
    certify(sealed, key=sealed.genesis.key)
    sealed.keys.delete([sealed.genesis.key])
    report = sealed.verify()
    assert (report.exit_code, report.counts.records_opened) == (0, 0)


def test_a_key_that_a_certificate_names_and_that_is_there_again_is_named(world):
    certify(world, key=world.genesis.key)
    assert world.found() == [("key_damaged", None, None)]


def test_a_record_whose_digest_was_changed_with_it_is_found_by_opening_it(world):
    record = world.events()[2].content[0]
    other = record[:-1] + bytes([record[-1] ^ 1])
    old, new = (hashlib.sha256(each).hexdigest().encode() for each in (record, other))
    world.rewrite(3, old, new)
    world.relink(4)
    world.change(3, content=(other,))
    assert world.found(level="digests") == []
    assert world.found() == [("content_damaged", 3, 3)]


def test_a_record_of_another_event_under_its_own_digest_is_found_by_opening_it(world):
    record = world.events()[0].content[0]
    old = hashlib.sha256(world.events()[2].content[0]).hexdigest().encode()
    world.rewrite(3, old, hashlib.sha256(record).hexdigest().encode())
    world.relink(4)
    world.change(3, content=(record,))
    assert world.found() == [("content_damaged", 3, 3)]


def test_a_record_of_the_other_content_mode_is_damaged(world):
    other = World(content="clear" if world.content == "sealed" else "sealed")
    other.notes(1)
    record = other.events()[0].content[0]
    old = hashlib.sha256(world.events()[2].content[0]).hexdigest().encode()
    world.rewrite(3, old, hashlib.sha256(record).hexdigest().encode())
    world.relink(4)
    world.change(3, content=(record,))
    assert world.found() == [("content_damaged", 3, 3)]


def test_each_part_of_an_event_is_told_apart(world):
    person = world.writer.subject_key(world.genesis.stream_id, "customer-7")
    world.append(world.draft(parts=[Part({"said": {"$part": 1}}), Part({"name": "Ann"}, person, "personal")]))
    stored = world.events()[4].content
    world.change(5, content=(stored[0],))
    assert world.found() == [("content_missing", 5, 5)]
    world.change(5, content=(None, stored[1]))
    assert world.found() == [("content_missing", 5, 5)]
    world.change(5, content=stored)
    assert world.found() == []


def test_erasing_one_person_leaves_the_other_part_readable(sealed):
    person = sealed.writer.subject_key(sealed.genesis.stream_id, "customer-7")
    sealed.append(
        sealed.draft(parts=[Part({"said": {"$part": 1}}), Part({"name": "Ann"}, person, "personal")])
    )
    certify(sealed, key=person.key_id)
    sealed.keys.delete([person.key_id])
    report = sealed.verify()
    assert (report.exit_code, report.counts.records_opened) == (0, 5)
