"""Preparing an event: what it becomes, and everything that is refused before anything is written."""

from __future__ import annotations

import json

import pytest

from counterfoil.core.event import Part, event_hash, prepare, read_header, same_event, splice
from counterfoil.core.ids import make_id
from counterfoil.core.limits import HEADER_BYTES_MAX, PART_BYTES_MAX, SEQUENCE_MAX
from counterfoil.errors import (
    ContentTooLarge,
    HeaderTooLarge,
    InputError,
    InternalError,
    InvalidForm,
    InvalidId,
    NotEncodable,
    PublicFieldRefused,
)

RUN = "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR"
STEP = "stp_01J9ZC3Y3V7W2R5T8QK4M6N0PT"
CAUSE = "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PA"
ELSEWHERE = "str_01J9ZC3Y3V7W2R5T8QK4M6N0PV"
TIME = "2026-09-01T14:31:08.518Z"

EVERY_MEMBER = {
    "run_id": RUN,
    "step_id": STEP,
    "attempt": 2,
    "causation_event_id": CAUSE,
    "causation_stream_id": ELSEWHERE,
    "correlation_id": RUN,
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "artifact_refs": (
        {"kind": "preview", "class": "public", "sha256": "cd" * 32},
        {"kind": "output", "class": "personal", "sha256": "ef" * 32, "address": "01" * 32},
    ),
}


def finished(prepared, sequence=1):
    return splice(prepared, sequence, TIME, "ab" * 32)


@pytest.mark.parametrize("left_out", [None, *EVERY_MEMBER])
def test_a_spliced_header_is_canonical_and_says_what_the_draft_said(stream, left_out):
    members = {name: value for name, value in EVERY_MEMBER.items() if name != left_out}
    if left_out == "causation_event_id":
        del members["causation_stream_id"]
    header = read_header(finished(stream.prepare(stream.draft(1, **members)), 7))
    for name, value in members.items():
        found = getattr(header, name)
        assert (tuple(found) if name == "artifact_refs" else found) == value
    assert left_out not in header.raw
    assert (header.stream_sequence, header.recorded_at, header.previous_event_hash) == (7, TIME, "ab" * 32)


def test_preparing_again_gives_the_same_bytes(stream, stream_of):
    one, other = stream.prepare(stream.draft()), stream_of(1).prepare(stream_of(1).draft())
    assert (one.head, one.middle, one.tail, one.records) == (
        other.head,
        other.middle,
        other.tail,
        other.records,
    )


def test_the_hash_covers_every_byte_of_the_header(stream):
    header = stream.header()
    hashes = {event_hash(header[:at] + b"~" + header[at + 1 :]) for at in range(len(header))}
    assert len(hashes - {event_hash(header)}) >= len(header) - header.count(b"~")


@pytest.mark.parametrize("sequence", [1, 9, 10, SEQUENCE_MAX])
def test_any_sequence_fits_into_its_slot(stream, sequence):
    assert read_header(finished(stream.prepare(stream.draft()), sequence)).stream_sequence == sequence


def test_an_event_without_content_lists_no_parts(stream):
    prepared = stream.prepare(stream.draft(parts=()))
    assert prepared.records == ()
    assert "content" not in json.loads(finished(prepared))


def test_two_people_are_two_parts_under_two_keys(stream):
    person = stream.person()
    prepared = stream.prepare(
        stream.draft(parts=(Part({"who": {"$part": 1}}), Part({"name": "Ada"}, person, "personal")))
    )
    first, second = read_header(finished(prepared)).content
    assert (first.key, first.klass) == (None, None)
    assert (second.key, second.klass) == (person.key_id, "personal")


POINTS_AMISS = {
    "at a part that is not there": ({"who": {"$part": 2}}, {"name": "Ada"}),
    "at itself": ({"who": {"$part": 0}}, {"name": "Ada"}),
    "with a number that is none": ({"who": {"$part": True}}, {"name": "Ada"}),
    "from within lists": ({"who": [[{"$part": 7}]]}, {"name": "Ada"}),
    "from beside a name that is data": ({"who": {"$literal": {"$a": {"$part": 7}}}}, {"name": "Ada"}),
    "from a part that is not the first": ({"who": {"$part": 1}}, {"name": {"$part": 1}}),
}


@pytest.mark.parametrize("case", POINTS_AMISS)
def test_a_reference_that_points_amiss_is_refused(stream, case):
    first, second = POINTS_AMISS[case]
    with pytest.raises(InvalidForm, match="points at part"):
        stream.prepare(stream.draft(parts=(Part(first), Part(second, stream.person()))))


def test_a_name_that_looks_like_a_reference_points_nowhere(stream):
    stream.prepare(stream.draft(parts=(Part({"said": {"$literal": {"$part": 7}}, "text": '{"$part":7}'}),)))


def test_the_stream_key_and_the_default_class_are_left_out_of_the_header(stream):
    part = Part({"a": 1}, stream.material, "confidential")
    (found,) = read_header(finished(stream.prepare(stream.draft(parts=(part,))))).content
    assert (found.key, found.klass) == (None, None)


def test_a_clear_stream_keeps_clear_records(stream_of):
    clear = stream_of(1, content="clear")
    assert b"number 1" in clear.prepare(clear.draft()).records[0]
    assert b"number 1" not in stream_of(1).prepare(stream_of(1).draft()).records[0]


REFUSED = [
    ({"event_id": "evt-1"}, InvalidId, "event_id"),
    ({"event_id": RUN}, InvalidId, "event_id"),
    ({"run_id": "run-1"}, InvalidId, "run_id"),
    ({"step_id": RUN}, InvalidId, "step_id"),
    ({"causation_event_id": "x"}, InvalidId, "causation_event_id"),
    ({"causation_event_id": CAUSE, "causation_stream_id": "x"}, InvalidId, "causation_stream_id"),
    ({"causation_stream_id": ELSEWHERE}, InvalidForm, "causation_stream_id"),
    ({"correlation_id": "case-8472"}, InvalidId, "correlation_id"),
    ({"trace_id": "4BF92F3577B34DA6A3CE929D0E0E4736"}, InvalidForm, "trace_id"),
    ({"attempt": 0}, InvalidForm, "attempt"),
    ({"attempt": True}, InvalidForm, "attempt"),
    ({"attempt": 1.0}, InvalidForm, "attempt"),
    ({"event_schema_version": "1"}, InputError, None),
    ({"artifact_refs": ({"kind": "a"},)}, InvalidForm, "artifact_refs"),
    (
        {"artifact_refs": ({"kind": "a b", "class": "public", "sha256": "ab" * 32},)},
        InvalidForm,
        "artifact_refs",
    ),
    (
        {"artifact_refs": ({"kind": "a", "class": "public", "sha256": "ab" * 32},) * 65},
        InvalidForm,
        "artifact_refs",
    ),
]


@pytest.mark.parametrize("members, error, member", REFUSED, ids=lambda item: str(item)[:40])
def test_a_member_of_another_form_is_refused_by_name(stream, members, error, member):
    with pytest.raises(error) as refusal:
        stream.prepare(stream.draft(1, **members))
    assert member is None or refusal.value.member == member


@pytest.mark.parametrize(
    "actor",
    [
        {"type": "user", "id": "ada"},
        {"type": "human", "id": "ada@shop.example"},
        {"type": "robot", "id": "a"},
        {"type": "agent", "id": "a b"},
        {"type": "agent"},
        {"type": "agent", "id": "a", "name": "x"},
        {"type": "agent", "id": "a", "identity_version": "v 1"},
        {"type": "agent", "id": "a", "identity_version": None},
        {"type": "agent", "id": ["a"]},
    ],
)
def test_an_actor_of_another_form_is_refused(stream, actor):
    draft = stream.draft()
    draft.actor = actor
    with pytest.raises(InvalidForm) as refusal:
        stream.prepare(draft)
    assert refusal.value.member == "actor"


@pytest.mark.parametrize("time", ["2026-09-01", "2026-02-29T00:00:00.000Z", "2026-09-01T14:31:60.000Z", 5])
def test_a_time_of_another_form_is_refused(stream, time):
    draft = stream.draft()
    draft.occurred_at = time
    with pytest.raises(InvalidForm) as refusal:
        stream.prepare(draft)
    assert refusal.value.member == "occurred_at"


def test_a_cause_in_the_same_stream_names_no_stream(stream):
    with pytest.raises(InvalidForm):
        stream.prepare(stream.draft(causation_event_id=CAUSE, causation_stream_id=stream.stream_id))


def test_a_public_field_that_is_text_from_outside_is_refused(stream):
    with pytest.raises(PublicFieldRefused) as refusal:
        stream.prepare(stream.draft(data={"admission_id": make_id("adm", 0, 1), "from": "ada"}))
    assert refusal.value.field == "from"


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "member, bad",
    [
        ("event_type", ["x"]),
        ("event_type", Text("order.seen")),
        ("event_schema_version", []),
        ("occurred_at", Text("2026-09-01T14:31:08.412Z")),
        ("event_id", Text("evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE")),
        ("actor", "agent"),
        ("actor", {"type": "agent", "id": Text("a")}),
        ("data", 5),
        ("data", {1: 2}),
        ("data", {"Ada Example": 1}),
        ("data", {"admission_id": Text("adm_01J9ZC3Y3V7W2R5T8QK4M6N0PE")}),
        ("data", {"admission_id": ("adm_01J9ZC3Y3V7W2R5T8QK4M6N0PE",)}),
        ("artifact_refs", ("a",)),
        ("run_id", b"run_01J9ZC3Y3V7W2R5T8QK4M6N0PR"),
        ("trace_id", Text("4bf92f3577b34da6a3ce929d0e0e4736")),
    ],
)
def test_members_of_any_other_type_get_a_typed_refusal(stream, member, bad):
    draft = stream.draft()
    setattr(draft, member, bad)
    with pytest.raises(InputError) as refusal:
        stream.prepare(draft)
    assert "Ada" not in str(refusal.value)


def test_the_key_given_must_be_the_streams(stream, other_stream):
    with pytest.raises(InternalError):
        prepare(stream.genesis, other_stream.material, stream.draft(), stream.registry)


def test_a_part_under_a_key_of_another_stream_is_refused(stream, other_stream):
    with pytest.raises(InvalidForm):
        stream.prepare(stream.draft(parts=(Part({"a": 1}, other_stream.material),)))


@pytest.mark.parametrize("value", [[1], "text", None, 5])
def test_a_part_is_an_object(stream, value):
    with pytest.raises(InvalidForm):
        stream.prepare(stream.draft(parts=(Part(value),)))


def test_a_part_of_an_unknown_class_is_refused(stream):
    with pytest.raises(InvalidForm):
        stream.prepare(stream.draft(parts=(Part({"a": 1}, klass="private"),)))


def test_content_that_has_no_form_is_refused_by_path(stream):
    with pytest.raises(NotEncodable) as refusal:
        stream.prepare(stream.draft(parts=(Part({"score": float("inf")}),)))
    assert refusal.value.path == "$.score"


def test_eight_parts_are_taken_and_nine_refused(stream):
    assert len(stream.prepare(stream.draft(parts=(Part({}),) * 8)).records) == 8
    with pytest.raises(ContentTooLarge):
        stream.prepare(stream.draft(parts=(Part({}),) * 9))


def test_a_part_has_at_most_4_mib_and_all_parts_8(stream):
    full = Part({"t": "a" * (PART_BYTES_MAX - len('{"t":""}'))})
    assert len(stream.prepare(stream.draft(parts=(full, full))).records) == 2
    with pytest.raises(ContentTooLarge):
        stream.prepare(stream.draft(parts=(full, full, Part({}))))
    with pytest.raises(ContentTooLarge):
        stream.prepare(stream.draft(parts=(Part({"t": "a" * PART_BYTES_MAX}),)))


def test_a_header_beyond_16_kib_is_refused_before_anything_is_written(stream):
    reference = {"kind": "k" * 128, "class": "personal", "sha256": "ef" * 32, "address": "01" * 32}
    with pytest.raises(HeaderTooLarge):
        stream.prepare(stream.draft(artifact_refs=(reference,) * 64))
    header = finished(stream.prepare(stream.draft(artifact_refs=(reference,) * 40)), SEQUENCE_MAX)
    assert len(header) <= HEADER_BYTES_MAX
    read_header(header)


# ---- the same event twice ----------------------------------------------------------------------------------------


def test_the_writers_members_and_packing_do_not_make_another_event(stream):
    draft = stream.draft(parts=(Part({"text": "again and again " * 300}),))
    one = splice(stream.prepare(draft), 1, TIME, "ab" * 32)
    other = splice(stream.prepare(draft, pack="never"), 9, "2027-01-01T00:00:00.000Z", "cd" * 32)
    assert one != other
    assert same_event(one, other) == []
    assert same_event(read_header(one), read_header(other)) == []


@pytest.mark.parametrize(
    "changed, names",
    [
        ({"run_id": RUN}, ["run_id"]),
        ({"data": {"admission_id": make_id("adm", 5, 5)}}, ["data.admission_id"]),
        ({"parts": (Part({"message": "another"}),)}, ["content"]),
        ({"parts": ()}, ["content"]),
        ({"parts": (Part({"message": "number 1"}, klass="secret"),), "attempt": 1}, ["attempt", "content"]),
        (
            {"event_type": "order.seen", "data": {}, "ignorable": True},
            ["data.admission_id", "event_type", "ignorable"],
        ),
    ],
)
def test_what_differs_is_named_without_its_value(stream, changed, names):
    one = finished(stream.prepare(stream.draft()))
    assert same_event(one, finished(stream.prepare(stream.draft(1, **changed)))) == names
