"""An event of an unknown type does not hide its conversation (S22).

Listing, viewing and going on always work; what interprets events refuses, naming type, version and sequence, unless
the producer said that readers may pass over it.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.client.features import FEATURES
from counterfoil.errors import UnknownEventType
from counterfoil.testing.manual import ManualClock
from tests.running import World, types_of, vanish

TYPE = "x.canvas.drawn"


@pytest.fixture
def world():
    """A conversation with two events of a plug-in that later builds do not have."""
    world = World(clock=ManualClock())
    ledger = world.worker()
    ledger.declare(TYPE, 3, public={"shapes": "n"})
    with ledger.run("a", conversation="c", dedupe="1") as run:
        run.record(TYPE, {"shapes": 2, "title": "plan"}, version=3)
        run.record("x.canvas.cleared", {"by": "Jane"}, ignorable=True)
    return world


def test_listing_and_viewing_go_on_with_a_build_that_does_not_know_the_type(world):
    ledger = world.worker()
    assert not ledger.registry.known(TYPE, 3)
    assert [info.name for info in ledger.conversations()] == ["c"]
    assert types_of(ledger, "c")[3:5] == [TYPE, "x.canvas.cleared"]
    drawn = next(iter(ledger.events("c", types=[TYPE])))
    assert (drawn.header.event_schema_version, drawn.data["shapes"], drawn.content) == (
        3,
        2,
        {"title": "plan"},
    )


def test_runs_go_on_in_that_conversation(world):
    ledger = world.worker()
    with ledger.run("a", conversation="c", dedupe="2") as run:
        run.step("s", lambda: 1)
    assert run.terminal == "success"


def test_a_record_that_is_replayed_passes_over_what_it_does_not_need(world):
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert again.done


def test_what_interprets_the_events_refuses_naming_type_version_and_sequence(world):
    ledger = world.worker()
    with pytest.raises(UnknownEventType) as refused:
        list(ledger.interpret("c"))
    assert (refused.value.event_type, refused.value.version, refused.value.sequence) == (TYPE, 3, 4)


def test_an_ignorable_event_is_skipped_and_a_known_one_is_not(world):
    ledger = world.worker()
    ledger.declare(TYPE, 3, public={"shapes": "n"})
    types = [event.type for event in ledger.interpret("c")]
    assert TYPE in types
    assert "x.canvas.cleared" not in types


def test_a_newer_version_of_a_known_type_is_as_unknown(world):
    ledger = world.worker()
    ledger.declare(TYPE, 2, public={})
    with pytest.raises(UnknownEventType, match="version 3"):
        list(ledger.interpret("c"))


def test_a_run_whose_record_a_newer_version_wrote_is_not_entered(world):
    ledger = world.worker()
    left = vanish(ledger.run("a", conversation="c", dedupe="2"), lambda run: run.step("s", lambda: 1))
    world.expire_leases()
    stored = ledger.store._state.streams[ledger.stream_of("c")].events
    place = max(place for place, event in enumerate(stored) if event.event_type == "step.finished")
    newer = stored[place].header.replace(b'"event_schema_version":1', b'"event_schema_version":9')
    stored[place] = replace(stored[place], header=newer)
    with pytest.raises(UnknownEventType, match="version 9"):
        world.worker().run("a", conversation="c", dedupe="2").__enter__()
    assert ledger.run_row(left)["token"] == 2
    assert "run.claimed" not in types_of(ledger, "c")


def test_features_look_at_their_own_types_only(world):
    known = set().union(*(feature.event_types for feature in FEATURES))
    assert TYPE not in known


def test_an_old_version_is_interpreted_as_the_newest_and_stays_as_it_is_stored(world):
    ledger = world.worker()
    ledger.upcast(
        TYPE, 3, lambda data, content: ({"figures": data["shapes"]}, content and {**content, "by": "?"})
    )
    ledger.upcast(TYPE, 4, lambda data, content: ({**data, "layers": 1}, content))
    (drawn,) = [event for event in ledger.interpret("c") if event.type == TYPE]
    assert (drawn.header.event_schema_version, drawn.data) == (5, {"figures": 2, "layers": 1})
    assert drawn.content == {"title": "plan", "by": "?"}
    (stored,) = ledger.events("c", types=[TYPE])
    assert (stored.header.event_schema_version, stored.data) == (3, {"shapes": 2})


def test_an_old_version_whose_content_is_gone_is_upcast_without_it(world):
    ledger = world.worker()
    ledger.upcast(
        TYPE, 3, lambda data, content: ({"figures": data["shapes"]}, content and {**content, "by": "?"})
    )
    ledger.keyring.store.delete([ledger.ports.genesis(ledger.stream_of("c")).key])
    ledger.keyring.forget()
    (drawn,) = [event for event in ledger.interpret("c") if event.type == TYPE]
    assert (drawn.data, drawn.content_state) == ({"figures": 2}, "missing")


def test_a_step_that_is_missing_between_two_versions_is_named(world):
    ledger = world.worker()
    ledger.upcast(TYPE, 4, lambda data, content: (data, content))
    with pytest.raises(UnknownEventType, match="from version 3"):
        list(ledger.interpret("c"))
