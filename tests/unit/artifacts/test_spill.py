"""Values that move out of events: what moves, what stays, and that it comes back as it was."""

from __future__ import annotations

import hashlib

import pytest

from counterfoil.artifacts.spill import HANDLES_MAX, MEMBERS, OBJECTS_MAX, handles_in, restored, spill
from counterfoil.core.artifact import open_artifact
from counterfoil.core.canonical import encode
from counterfoil.core.catalogue import EVENT_TYPES, Registry
from counterfoil.core.event import Draft, Part, prepare
from counterfoil.core.genesis import make_genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.limits import BYTES_INLINE_MAX, SPILL_BYTES
from counterfoil.core.values import to_json
from counterfoil.errors import ArtifactDamaged

STREAM = "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"
MATERIAL = KeyMaterial("dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK", STREAM, bytes(range(32)))
PERSON = KeyMaterial("dk_01J9ZC3Y3V7W2R5T8QK4M6N0PM", STREAM, bytes(range(1, 33)))
LONG = bytes(BYTES_INLINE_MAX + 1)
LARGE = "x" * SPILL_BYTES


def draft(*values, event_type="order.noted", key=None, **more):
    parts = tuple(Part({name: to_json(item) for name, item in value.items()}, key) for value in values)
    return Draft(
        "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE",
        event_type,
        "2026-09-01T14:31:08.412Z",
        {"type": "agent", "id": "a"},
        parts=parts,
        **more,
    )


def spilled(given, **options):
    return spill(given, MATERIAL, usable=True, **options)


def put_back(outcome, key=MATERIAL):
    """The content of the draft as a reader gets it."""
    objects = {hashlib.sha256(data).hexdigest(): data for data in outcome.objects}
    (part,) = outcome.drafts[-1].parts
    return restored(part.value, lambda name: open_artifact(key, objects[name]))


def test_what_is_small_stays_as_it_is():
    given = draft({"a": "x" * 1000, "b": bytes(BYTES_INLINE_MAX), "c": [1, 2.5, None]})
    outcome = spilled(given)
    assert outcome.drafts == [given]
    assert outcome.objects == []


@pytest.mark.parametrize(
    "value",
    [
        {"result": LARGE},
        {"result": LONG},
        {"result": {"deep": [{"file": LONG}, (LONG, b"short")]}},
        {"result": [LARGE, {"$odd": LONG}]},
        {"result": {"$literal": LARGE}},
        {"result": {"$bytes": "A" * 8_000, "text": LARGE}},
        {"result": {"a": 1.0, "b": [f"line {number}" for number in range(40_000)]}},
        {"result": {1: LONG, 2: LARGE}},
        {"a": LARGE, "b": LARGE, "c": "small"},
    ],
    ids=range(9),
)
def test_what_moved_out_comes_back_as_it_was(value):
    outcome = spilled(draft(value))
    assert outcome.objects
    assert put_back(outcome) == {name: to_json(item) for name, item in value.items()}


def test_data_that_looks_like_a_tag_is_data():
    value = {
        "result": [
            LARGE,
            {"$bytes": "A" * 8_000},
            {"$spilled": {"sha256": "a" * 64, "form": "json", "bytes": 1}},
        ]
    }
    outcome = spilled(draft(value))
    assert put_back(outcome) == {"result": to_json(value["result"])}
    assert [one.data["size_class"] for one in outcome.drafts[:-1]] == [19]


def test_bytes_move_by_themselves_and_leave_the_rest_where_it_is():
    outcome = spilled(draft({"result": {"name": "report.pdf", "data": LONG}}))
    moved = outcome.drafts[-1].parts[0].value["result"]
    assert moved["name"] == "report.pdf"
    assert moved["data"]["$spilled"]["form"] == "bytes"
    assert moved["data"]["$spilled"]["bytes"] == len(LONG)


def test_the_largest_members_move_first_and_no_more_than_needed():
    value = {"large": "x" * 200_000, "larger": "y" * 250_000, "small": "z" * 10}
    outcome = spilled(draft(value))
    kept = outcome.drafts[-1].parts[0].value
    assert [name for name in value if "$spilled" in str(kept[name])[:20]] == ["larger"]
    assert len(encode(kept)) <= SPILL_BYTES


def test_equal_values_are_one_object():
    outcome = spilled(draft({"a": LONG, "b": [LONG, LONG]}))
    assert len(outcome.objects) == 1
    assert put_back(outcome) == {"a": to_json(LONG), "b": to_json([LONG, LONG])}


def test_very_many_long_bytes_move_as_one_value():
    value = {"result": [bytes([number]) * 5_000 for number in range(OBJECTS_MAX + 40)]}
    outcome = spilled(draft(value))
    assert len(outcome.objects) == 1
    assert put_back(outcome) == {"result": to_json(value["result"])}


def test_the_event_behind_says_what_stands_before_it():
    given = draft({"result": LARGE}, run_id="run_01J9ZC3Y3V7W2R5T8QK4M6N0PR")
    before, itself = spilled(given).drafts
    assert (before.event_type, itself.event_id) == ("artifact.spilled", given.event_id)
    assert before.artifact_refs == itself.artifact_refs
    assert before.artifact_refs[0]["kind"] == "spill"
    assert (before.run_id, before.occurred_at) == (given.run_id, given.occurred_at)


def test_preparing_again_makes_the_same_events_and_objects():
    first, second = spilled(draft({"result": LARGE})), spilled(draft({"result": LARGE}))
    assert first.drafts == second.drafts
    assert first.objects == second.objects


def test_what_lies_under_a_persons_key_spills_under_it():
    outcome = spilled(draft({"result": LARGE}, key=PERSON))
    assert outcome.drafts[-1].artifact_refs[0]["key"] == PERSON.key_id
    assert [part.key for part in outcome.drafts[0].parts] == [PERSON]
    assert put_back(outcome, PERSON)["result"] == LARGE


def test_the_effect_that_it_belongs_to_is_named():
    effect_id = "eff_01J9ZC3Y3V7W2R5T8QK4M6N0PF"
    given = draft(
        {"result": LARGE}, event_type="effect.observed", data={"effect_id": effect_id, "outcome": "succeeded"}
    )
    before, _ = spilled(given).drafts
    assert before.data == {"size_class": 19, "effect_id": effect_id}


@pytest.mark.parametrize("event_type", ["admission.accepted", "effect.intended", "approval.requested"])
def test_names_and_keys_of_an_input_never_move(event_type):
    given = draft({"dedupe": LARGE, "idempotency_key": LARGE, "question": LARGE}, event_type=event_type)
    outcome = spilled(given)
    assert outcome.drafts == [given]


@pytest.mark.parametrize(
    "event_type, member",
    [
        ("admission.accepted", "message"),
        ("effect.intended", "arguments"),
        ("approval.requested", "arguments"),
    ],
)
def test_what_rows_need_of_a_value_that_moves_stays_in_its_part(event_type, member):
    given = draft({member: LARGE, "dedupe": "m-1"}, event_type=event_type)
    outcome = spill(given, MATERIAL, usable=True, stands_in=lambda: {"some_index": "aa"})
    value = outcome.drafts[-1].parts[0].value
    assert value["row_index"] == {"some_index": "aa"}
    assert "$spilled" in value[member]
    assert value["dedupe"] == "m-1"


def test_only_types_that_exist_have_members_that_may_move():
    assert set(MEMBERS) <= set(EVENT_TYPES)


def test_without_a_store_everything_stays_in_the_event():
    given = draft({"result": LARGE})
    assert spill(given, MATERIAL, usable=False).drafts == [given]


def test_a_spilled_value_of_another_length_is_damaged():
    (part,) = spilled(draft({"result": LARGE})).drafts[-1].parts
    with pytest.raises(ArtifactDamaged):
        restored(part.value, lambda name: b"short")


# ---- handles ---------------------------------------------------------------------------------------------------------


def handle(**more):
    members = {"kind": "file", "class": "confidential", "sha256": "a" * 64, "bytes": 5}
    members |= {"address": "b" * 64, "key": MATERIAL.key_id}
    return {"$type": "artifact", "value": members | more}


def test_artifacts_named_in_content_are_listed_in_the_header():
    given = Draft(
        "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE",
        "order.noted",
        "2026-09-01T14:31:08.412Z",
        {},
        parts=(Part({"files": [handle(), {"again": handle()}, handle(sha256="c" * 64)]}),),
    )
    (itself,) = spilled(given).drafts
    assert [one["sha256"][0] for one in itself.artifact_refs] == ["a", "c"]


def test_a_header_lists_as_many_artifacts_as_it_has_room_for():
    names = [f"{number:064x}" for number in range(100)]
    keyed = [handle(sha256=name, key=PERSON.key_id) for name in names]
    scans = to_json([bytes([number]) * 5_000 for number in range(OBJECTS_MAX)])
    given = draft({}, key=PERSON, run_id="run_01J9ZC3Y3V7W2R5T8QK4M6N0PR")
    given.parts = (Part({"files": keyed, "scans": scans}, PERSON),)
    itself = spilled(given).drafts[-1]
    assert len(itself.artifact_refs) == OBJECTS_MAX + HANDLES_MAX
    genesis = make_genesis(
        ledger="ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG",
        tenant="default",
        stream_id=STREAM,
        kind="conversation",
        key=MATERIAL.key_id,
        content="sealed",
    )
    registry = Registry()
    registry.declare("order.noted", 1)
    assert len(prepare(genesis, MATERIAL, itself, registry).head) > 0


@pytest.mark.parametrize(
    "value",
    [
        {"$literal": handle()},
        {"$type": "artifact", "value": {"kind": "file"}},
        {"$type": "other", "value": handle()["value"]},
        handle(sha256="A" * 64),
        handle(**{"class": "public"}),
        handle(bytes=-1),
        handle(bytes=True),
        handle(key="x"),
        handle(extra=1),
    ],
    ids=range(9),
)
def test_what_is_no_handle_is_not_taken_for_one(value):
    assert handles_in(value) == []
