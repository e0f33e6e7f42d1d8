"""Projections: declared, folded, checkpointed, judged; one that fails stops alone, and none claims what is not there."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from msgspec import structs

from counterfoil.client import projector
from counterfoil.errors import InvalidForm, ProjectionStopped, StreamNotFound
from counterfoil.projections import AbsentContent, Projection
from counterfoil.projections.registry import projection
from counterfoil.store.unit import Checkpoint
from counterfoil.testing.manual import ManualClock
from tests.running import World, types_of

NOTED = "x.noted"


def added(state, event):
    state["lines"] += event.data["lines"]
    state["said"].append(event.content.get("said", "?"))
    return state


NOTES = Projection("notes", 1, {"lines": 0, "said": []}, added, types=frozenset({NOTED}))


@pytest.fixture
def world():
    return World(clock=ManualClock())


@pytest.fixture
def ledger(world):
    return worker(world)


def worker(world, *projections):
    ledger = world.worker()
    ledger.declare(NOTED, public={"lines": "n"})
    for one in projections or (NOTES,):
        ledger.project(one)
    return ledger


def note(ledger, *said, conversation="c"):
    with ledger.run("a", conversation=conversation) as run:
        for text in said:
            run.record(NOTED, {"lines": 1, "said": text})
    return run


def created(ledger):
    return [dict(event.data) for event in ledger.events("c", types=["checkpoint.created"])]


def rejected(ledger):
    return [event.data["cause"] for event in ledger.events("c", types=["checkpoint.rejected"])]


# ---- declaring -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "two words"},
        {"version": 0},
        {"fold": "no function"},
        {"over": "everything"},
        {"types": "x.noted"},
        {"types": {"Noted"}},
        {"initial": object()},
        {"schema": {"format": "x"}},
        {"schema": {"type": "array"}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_declaration_that_cannot_be_kept_is_refused(wrong):
    good = {"name": "p", "version": 1, "initial": {}, "fold": added, "schema": {"type": "object"}}
    with pytest.raises(Exception, match=r".") as refused:
        Projection(**{**good, **wrong})
    assert refused.value.code


def test_the_same_declaration_again_is_allowed_and_another_is_refused(ledger):
    ledger.project(NOTES)
    with pytest.raises(InvalidForm, match="already"):
        ledger.project(replace(NOTES, version=2))


def test_a_projection_that_nobody_declared_is_named_with_those_there_are(ledger):
    note(ledger)
    with pytest.raises(InvalidForm, match="notes"):
        ledger.projection("orders", "c")
    with pytest.raises(StreamNotFound):
        ledger.projection("notes", "nowhere")


def test_the_decorator_declares_for_commands_and_refuses_a_second_fold_of_one_name():
    @projection("registered.once", initial=0)
    def first(state, event):
        return state

    with pytest.raises(InvalidForm, match="twice"):

        @projection("registered.once", initial=0)
        def second(state, event):
            return state

    assert (first.name, first.first()) == ("registered.once", 0)


# ---- folding -------------------------------------------------------------------------------------------------------


def test_a_state_is_folded_up_to_the_head_and_says_so(ledger):
    note(ledger, "one", "two")
    view = ledger.projection("notes", "c")
    assert view.state == {"lines": 2, "said": ["one", "two"]}
    head = ledger.store.head(ledger.stream_of("c")).sequence
    assert (view.up_to_sequence, view.head_sequence, view.lag) == (head, head, 0)


def test_a_state_that_a_reader_changes_is_the_readers_own(ledger):
    note(ledger, "one")
    view = ledger.projection("notes", "c")
    view.state["lines"] = 99
    assert view.state["lines"] == 1
    assert ledger.projection("notes", "c").state["lines"] == 1


def test_the_end_of_a_run_is_checkpointed_and_the_next_fold_begins_there(ledger):
    note(ledger, "one")
    (first,) = created(ledger)
    assert (first["projection"], first["version"]) == ("notes", 1)
    view = ledger.projection("notes", "c")
    assert view.began_at == first["up_to_sequence"] > 0
    note(ledger, "two")
    assert ledger.projection("notes", "c").state["said"] == ["one", "two"]


def test_a_long_run_is_checkpointed_every_so_many_events(ledger, monkeypatch):
    monkeypatch.setattr(projector, "EVENTS_KEPT", 10)
    note(ledger, *"abcdefghijklmnopqrstuvwxyz")
    reached = [one["up_to_sequence"] for one in created(ledger)]
    assert len(reached) == 3
    assert reached == sorted(reached)
    assert ledger.projection("notes", "c").state["lines"] == 26


def test_nothing_is_recorded_where_nobody_declared_a_projection(world):
    ledger = world.worker()
    ledger.declare(NOTED, public={"lines": "n"})
    note(ledger, "one")
    assert "checkpoint.created" not in types_of(ledger, "c")


def test_a_table_that_was_lost_is_no_loss_the_ledger_has_the_state(ledger):
    note(ledger, "one")
    ledger.store._state.checkpoints.clear()
    view = ledger.projection("notes", "c")
    assert (view.state["said"], view.began_at > 0, view.refused) == (["one"], True, [])


def test_a_state_over_the_limit_of_an_event_moves_to_an_artifact_and_comes_back(world):
    grown = Projection("grown", 1, "", lambda state, event: state + "x" * 100_000, types=frozenset({NOTED}))
    ledger = worker(world, grown)
    note(ledger, *"abcde")
    assert "artifact.spilled" in types_of(ledger, "c")
    ledger.store._state.checkpoints.clear()
    view = ledger.projection("grown", "c")
    assert (len(view.state), view.began_at > 0) == (500_000, True)


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_checkpoint_whose_artifact_cannot_be_had_is_rejected_once_and_made_anew(world, harm):
    grown = Projection("grown", 1, "", lambda state, event: state + "x" * 100_000, types=frozenset({NOTED}))
    ledger = worker(world, grown)
    note(ledger, *"abcde")
    ledger.store._state.checkpoints.clear()
    objects = ledger.artifacts.store._objects
    for sha256 in list(objects):
        if harm == "missing":
            del objects[sha256]
        else:
            objects[sha256] = objects[sha256][:-1] + b"?"
    views = [ledger.projection("grown", "c") for _ in range(2)]
    assert [len(view.state) for view in views] == [500_000, 500_000]
    assert rejected(ledger) == ["damaged"]


# ---- what is not used ----------------------------------------------------------------------------------------------


def spoil(ledger, **changed):
    stream_id = ledger.stream_of("c")
    found = ledger.store.checkpoint(stream_id, "notes", 1)
    ledger.store._state.checkpoints[stream_id, "notes", 1] = {
        changed.get("up_to_sequence", found.up_to_sequence): structs.replace(found, **changed)
    }


@pytest.mark.parametrize(
    "changed, cause",
    [
        ({"record": b"\x01" + b"x" * 80}, "damaged"),
        ({"commitment": "0" * 64}, "damaged"),
        ({"up_to_sequence": 9_999}, "ahead"),
    ],
)
def test_a_checkpoint_that_cannot_be_true_is_rejected_rebuilt_and_that_is_recorded_once(
    ledger, changed, cause
):
    note(ledger, "one")
    spoil(ledger, **changed)
    view = ledger.projection("notes", "c")
    assert (view.state["said"], view.began_at) == (["one"], 0)
    assert [one.cause for one in view.refused] == [cause]
    assert rejected(ledger) == [cause]
    again = ledger.projection("notes", "c")
    assert (again.refused, again.began_at > 0, again.state["said"]) == ([], True, ["one"])
    assert rejected(ledger) == [cause]


def test_a_checkpoint_moved_from_another_conversation_is_damaged(ledger):
    note(ledger, "mine")
    note(ledger, "other", conversation="other")
    other = ledger.store.checkpoint(ledger.stream_of("other"), "notes", 1)
    spoil(ledger, record=other.record, commitment=other.commitment)
    assert ledger.projection("notes", "c").state["said"] == ["mine"]
    assert rejected(ledger) == ["damaged"]


def test_a_state_that_no_longer_fits_the_schema_is_unsupported(world):
    note(worker(world), "one")
    strict = replace(NOTES, schema={"type": "object", "required": ["said", "lines"], "maxItems": 1})
    narrow = replace(strict, schema={"type": "object", "properties": {"said": {"maxItems": 0}}})
    ledger = worker(world, narrow)
    view = ledger.projection("notes", "c")
    assert [one.cause for one in view.refused] == ["unsupported"]
    assert view.stopped is not None


def test_another_version_is_folded_from_the_first_event(world):
    note(worker(world), "one")
    newer = replace(NOTES, version=2)
    ledger = worker(world, newer)
    view = ledger.projection("notes", "c")
    assert (view.state["said"], view.began_at, view.version) == (["one"], 0, 2)
    assert rejected(ledger) == ["migration"]
    older = worker(world)
    assert older.projection("notes", "c").state["said"] == ["one"]


def test_a_checkpoint_of_a_newer_program_is_unsupported_by_an_older_one(world):
    note(worker(world, replace(NOTES, version=2)), "one")
    ledger = worker(world)
    assert ledger.projection("notes", "c").state["said"] == ["one"]
    assert rejected(ledger) == ["unsupported"]


def test_the_store_keeps_no_checkpoint_beyond_the_head(ledger):
    note(ledger, "one")
    stream_id = ledger.stream_of("c")
    with pytest.raises(Exception, match="claims sequence"):
        ledger.store.save_checkpoint(Checkpoint(stream_id, "notes", 1, 10_000, "0" * 64, b"x"))


# ---- folds that fail -----------------------------------------------------------------------------------------------


def fails(state, event):
    if event.content.get("said") == "two":
        raise LookupError("Jane Doe has no account")
    return state + 1


FAILS = Projection("fails", 1, 0, fails, types=frozenset({NOTED}))


def test_a_failing_fold_stops_itself_alone_and_is_visible(world, caplog):
    ledger = worker(world, NOTES, FAILS)
    with caplog.at_level(logging.ERROR, "counterfoil.projections"):
        run = note(ledger, "one", "two", "three")
    assert run.terminal == "success"
    assert ledger.projection("notes", "c").state["lines"] == 3
    view = ledger.projection("fails", "c")
    assert view.lag > 0
    with pytest.raises(ProjectionStopped) as stopped:
        _ = view.state
    assert (stopped.value.fields["sequence"], stopped.value.fields["event_type"]) == (5, NOTED)
    assert isinstance(stopped.value.__cause__, LookupError)
    assert "Jane" not in str(stopped.value)
    assert "fails" in caplog.text
    assert "Jane" not in caplog.text
    assert [one["projection"] for one in created(ledger)] == ["notes"]


def test_a_fold_that_was_mended_goes_on_from_its_last_checkpoint(world):
    ledger = worker(world, FAILS)
    note(ledger, "one")
    note(ledger, "two")
    assert ledger.projection("fails", "c").stopped is not None
    mended = worker(
        world, Projection("fails", 1, 0, lambda state, event: state + 1, types=frozenset({NOTED}))
    )
    view = mended.projection("fails", "c")
    assert (view.state, view.began_at > 0) == (2, True)


def test_an_event_that_this_build_does_not_know_stops_it_naming_type_version_and_sequence(world):
    plug_in = world.worker()
    plug_in.declare(NOTED, public={"lines": "n"})
    plug_in.declare("x.canvas", 3)
    with plug_in.run("a", conversation="c") as run:
        run.record(NOTED, {"lines": 1, "said": "one"})
        run.record("x.canvas", version=3)
    view = worker(world).projection("notes", "c")
    with pytest.raises(ProjectionStopped, match=r"x\.canvas version 3") as stopped:
        _ = view.state
    assert stopped.value.fields["sequence"] == 5


def test_an_ignorable_event_is_passed_over(ledger):
    with ledger.run("a", conversation="c") as run:
        run.record("x.unheard", {"said": "?"}, ignorable=True)
        run.record(NOTED, {"lines": 1, "said": "one"})
    assert ledger.projection("notes", "c").state["said"] == ["one"]


def test_an_old_version_is_told_as_the_newest_has_it(world):
    first = world.worker()
    first.declare(NOTED, 1, public={"count": "n"})
    with first.run("a", conversation="c") as run:
        run.record(NOTED, {"count": 2})
    ledger = world.worker()
    ledger.declare(NOTED, 2, public={"lines": "n"})
    ledger.upcast(NOTED, 1, lambda data, content: ({"lines": data["count"]}, content))
    ledger.project(NOTES)
    assert ledger.projection("notes", "c").state["lines"] == 2


def test_a_state_without_a_form_stops_it(world):
    odd = Projection("odd", 1, 0, lambda state, event: object())
    ledger = worker(world, NOTES, odd)
    note(ledger, "one")
    assert ledger.projection("odd", "c").stopped is not None
    assert ledger.projection("notes", "c").state["lines"] == 1


# ---- content that is gone ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "initial, schema, stops",
    [
        ([], None, True),
        (None, None, False),
        (0, {"type": ["integer", "null"]}, False),
        ([], {"type": "array"}, True),
    ],
    ids=["forgotten", "the first state", "allowed", "of another form"],
)
def test_none_is_a_state_only_where_it_is_declared_as_one(world, initial, schema, stops):
    forgetful = Projection("forgetful", 1, initial, lambda state, event: None, schema, frozenset({NOTED}))
    ledger = worker(world, forgetful)
    note(ledger, "x")
    view = ledger.projection("forgetful", "c")
    if stops:
        with pytest.raises(ProjectionStopped, match="InvalidForm"):
            _ = view.state
    else:
        assert view.state is None


def test_absent_content_is_a_marker_that_says_why_and_the_fold_goes_on(world):
    told = []

    def watch(state, event):
        told.append(event.content)
        return state + 1

    ledger = worker(world, Projection("watch", 1, 0, watch, types=frozenset({NOTED})))
    note(ledger, "one")
    stream_id = ledger.stream_of("c")
    ledger.keyring.store.delete([ledger.ports.genesis(stream_id).key])
    ledger.keyring.forget()
    view = ledger.projection("watch", stream_id)
    assert view.state == 1
    gone = told[-1]
    assert isinstance(gone, AbsentContent)
    assert (gone.state, bool(gone), gone.get("said")) == ("missing", False, None)


# ---- over a tenant -------------------------------------------------------------------------------------------------

TOTAL = Projection("total", 1, 0, lambda state, event: state + 1, types=frozenset({NOTED}), over="tenant")


def test_one_over_a_tenant_follows_the_feed_of_all_its_conversations(world):
    ledger, other = worker(world, TOTAL), world.worker("other")
    other.declare(NOTED, public={"lines": "n"})
    note(ledger, "one", "two", conversation="c")
    note(ledger, "three", conversation="d")
    note(other, "four", conversation="c")
    first = ledger.projection("total")
    assert first.state == 3
    note(ledger, "five", conversation="c")
    second = ledger.projection("total")
    assert (second.state, second.began_at) == (4, first.up_to_sequence)
    assert ledger.rebuild_projection("total").state == 4


def test_a_damaged_place_in_the_feed_is_begun_anew(world):
    ledger = worker(world, TOTAL)
    note(ledger, "one")
    ledger.projection("total")
    home = ledger.streams.id_of("config")
    (saved,) = ledger.store._state.checkpoints[home, "total", 1].items()
    ledger.store._state.checkpoints[home, "total", 1] = {
        saved[0]: structs.replace(saved[1], record=b"\x01" + b"x" * 80)
    }
    view = ledger.projection("total")
    assert (view.state, [one.cause for one in view.refused]) == (1, ["damaged"])
    assert ledger.projection("total").refused == []


def test_what_is_over_a_tenant_names_no_conversation_and_the_other_way_round(world):
    ledger = worker(world, NOTES, TOTAL)
    note(ledger, "one")
    with pytest.raises(InvalidForm):
        ledger.projection("total", "c")
    with pytest.raises(InvalidForm):
        ledger.projection("notes")


# ---- lag, and looking back -----------------------------------------------------------------------------------------


def test_rows_say_how_far_each_is_kept_and_how_far_it_lags(ledger):
    note(ledger, "one")
    (row,) = ledger.projection_rows()
    assert (row["projection"], row["version"], row["lag"], row["rejected"]) == ("notes", 1, 1, None)
    spoil(ledger, record=b"x")
    ledger.projection("notes", "c")
    (row,) = ledger.projection_rows("c")
    assert (row["state"], row["rejected"]) == ("created", "damaged")


def test_a_past_state_is_the_state_as_it_was(ledger):
    note(ledger, "one")
    past = ledger.store.head(ledger.stream_of("c")).sequence
    note(ledger, "two")
    assert ledger.at("c", past).projection("notes").state["said"] == ["one"]
    assert ledger.at("c", 0).projection("notes").state["said"] == []
    assert ledger.projection("notes", "c").state["said"] == ["one", "two"]


def test_a_table_that_there_is_not_is_named_with_those_there_are(ledger):
    note(ledger, "x")
    past = ledger.at("c", 1)
    assert past.rows("runs") == []
    with pytest.raises(InvalidForm, match=r"nope.*conversations"):
        past.rows("nope")


def test_rows_of_the_past_are_those_that_stood_then(ledger):
    note(ledger, "one")
    rows = ledger.runs("c")
    past = ledger.store.head(ledger.stream_of("c")).sequence
    note(ledger, "two")
    found = ledger.at("c", past)
    assert [row["run_id"] for row in found.runs] == [row["run_id"] for row in rows]
    assert [row["state"] for row in ledger.at("c", 3).runs] == ["running"]
    assert (found.whole, found.head_sequence > past) == (True, True)


@pytest.mark.parametrize("sequence", [-1, 10_000, True, "3"])
def test_a_sequence_that_is_not_there_is_refused(ledger, sequence):
    note(ledger, "one")
    with pytest.raises(InvalidForm):
        ledger.at("c", sequence)


def test_looking_back_records_nothing(ledger):
    note(ledger, "one")
    before = types_of(ledger, "c")
    ledger.at("c", 2)
    assert types_of(ledger, "c") == before
