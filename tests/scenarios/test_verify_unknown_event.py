"""S22, one unknown event hides a whole conversation: verify goes on, and names type, version and sequence."""

from __future__ import annotations

import pytest

from counterfoil.core.event import Part
from tests.unit.evidence.world import World


@pytest.fixture
def world():
    """A conversation with two events of a plug-in that is no longer loaded."""
    made = World()
    made.registry.declare("x.canvas.drawn", 3, {"shape": "label"})
    made.registry.declare("x.canvas.cleared", 3, {}, ignorable=True)
    made.note("before")
    made.append(made.draft("x.canvas.drawn", {"shape": "circle"}, [Part({"at": 1})], event_schema_version=3))
    made.append(made.draft("x.canvas.cleared", parts=[Part({})], event_schema_version=3, ignorable=True))
    made.note("after")
    return made


@pytest.fixture
def without_plugin():
    return World().registry


def test_the_conversation_verifies_whole_in_a_build_that_does_not_know_the_type(world, without_plugin):
    report = world.verify(registry=without_plugin)
    assert (report.exit_code, report.counts.events, report.counts.records_opened) == (0, 4, 4)


def test_the_unknown_events_are_named_with_type_version_and_sequence(world, without_plugin):
    notices = world.verify(registry=without_plugin).notices
    unknown = {notice.sequence: notice.what for notice in notices if notice.kind == "unknown_type"}
    assert set(unknown) == {2, 3}
    assert "x.canvas.drawn version 3" in unknown[2]
    assert "refuse" in unknown[2]
    assert "ignorable" in unknown[3]
    assert "refuse" not in unknown[3]


def test_a_public_field_of_an_unknown_type_is_named_so_that_a_leak_is_seen(world, without_plugin):
    notices = world.verify(registry=without_plugin).notices
    assert ["shape" in notice.what for notice in notices if notice.kind == "unknown_field"] == [True]


def test_a_thousand_events_of_one_unknown_type_are_one_notice_with_a_count(world, without_plugin):
    drafts = [
        world.draft("x.canvas.cleared", parts=[Part({"n": n})], event_schema_version=3, ignorable=True)
        for n in range(300)
    ]
    world.append(*drafts)
    notices = world.verify(registry=without_plugin).notices
    assert [notice.count for notice in notices if "cleared" in notice.what] == [301]


def test_damage_in_an_unknown_event_is_found_like_any_other(world, without_plugin):
    world.change(2, content=(b"rubbish",))
    assert world.found(registry=without_plugin) == [("content_damaged", 2, 2)]
