"""State slots: what a run sees, what runs again sees, and what others may not overwrite unseen."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal

import pytest

from counterfoil.errors import Divergence, InputError, InvalidForm, RunClosed, SlotMoved, StoreBusy
from counterfoil.flow.requests import Events
from counterfoil.runtime.slots.book import slots_used
from counterfoil.runtime.slots.rows import SLOTS, VERSIONS
from tests.running import facts, types_of, vanish


def values(ledger, at=None):
    return {slot.name: slot.value for slot in ledger.slots("c", at)}


def leave_open(ledger, body, dedupe="1", **settings):
    """A run that is left open for another entry, as when the ledger failed."""
    with pytest.raises(StoreBusy), ledger.run("a", conversation="c", dedupe=dedupe, **settings) as run:
        body(run)
        raise StoreBusy("the disk is busy")
    return run.id


# ---- a slot -----------------------------------------------------------------------------------------------------------


def test_a_slot_holds_what_was_set_and_outlives_its_run(ledger):
    with ledger.run("a", conversation="c") as run:
        assert run.state.get("plan") is None
        assert run.state.set("plan", {"price": Decimal("1.10"), "tags": {"a", "b"}, "raw": b"\xff"}) == 1
    with ledger.run("a", conversation="c") as run:
        assert run.state["plan"] == {"price": Decimal("1.10"), "tags": {"a", "b"}, "raw": b"\xff"}
        assert run.state.version("plan") == 1


def test_each_change_is_one_event_with_the_next_version(ledger):
    with ledger.run("a", conversation="c") as run:
        run.state["n"] = 1
        run.state["n"] = 2
        del run.state["n"]
        run.state["n"] = 2
    changes = [(e.type, e.data["version"]) for e in ledger.events("c") if e.type.startswith("state.")]
    assert changes == [("state.set", 1), ("state.set", 2), ("state.cleared", 3), ("state.set", 4)]
    tags = [said["value"] for said in facts(ledger, "c", "state.set")]
    assert tags[1] == tags[2] != tags[0]


def test_the_mapping_has_names_and_a_length(ledger):
    with ledger.run("a", conversation="c") as run:
        run.state["b"] = run.state["a"] = None
        run.state["Jane's plan"] = 3
        assert (list(run.state), len(run.state)) == (["Jane's plan", "a", "b"], 3)
        assert "a" in run.state
        assert "z" not in run.state
        assert run.state.get("a", "default") is None
        with pytest.raises(KeyError):
            run.state["z"]
        with pytest.raises(KeyError):
            del run.state["z"]
    assert values(ledger) == {"a": None, "b": None, "Jane's plan": 3}


def test_a_name_that_is_no_label_stands_nowhere_in_the_open(ledger):
    with ledger.run("a", conversation="c") as run:
        run.state["Jane's plan"] = 1
    (said,) = facts(ledger, "c", "state.set")
    assert said["slot"].startswith("~")
    rows = ledger.store.select(SLOTS, None, (run.conversation,), None, 9)
    assert "Jane" not in repr(rows)
    assert rows[0]["slot"] == said["slot"]


def test_clearing_what_holds_nothing_records_nothing(ledger):
    with ledger.run("a", conversation="c") as run:
        assert run.state.clear("n") is None
        run.state["n"] = 1
        assert run.state.clear("n") == 2
        assert run.state.clear("n") is None
        assert run.state.version("n") == 2
    assert types_of(ledger, "c").count("state.cleared") == 1


@pytest.mark.parametrize("name", ["", None, 7, "x" * 5000])
def test_a_name_is_text(ledger, name):
    with ledger.run("a", conversation="c") as run:
        with pytest.raises(InvalidForm):
            run.state.set(name, 1)
        with pytest.raises(InvalidForm):
            run.state.get(name)
    assert "state.set" not in types_of(ledger, "c")


@pytest.mark.parametrize("at", [-1, "1", 1.0, True], ids=repr)
def test_slots_are_looked_up_at_a_sequence(ledger, at):
    with ledger.run("a", conversation="c") as run:
        run.state["n"] = 1
    with pytest.raises(InvalidForm):
        ledger.slots("c", at=at)


def test_a_value_without_a_form_in_json_is_refused_by_its_path(ledger):
    with ledger.run("a", conversation="c") as run:
        with pytest.raises(InputError, match=r"value\.deep\[0\]"):
            run.state["n"] = {"deep": [object()]}
        run.state["n"] = 1
    assert len(facts(ledger, "c", "state.set")) == 1


def test_what_was_read_cannot_be_changed_by_the_reader(ledger):
    with ledger.run("a", conversation="c") as run:
        given = ["a"]
        run.state["n"] = given
        given.append("b")
        run.state["n"].append("c")
        assert run.state["n"] == ["a"]


def test_a_large_value_moves_to_an_artifact_and_comes_back(ledger):
    large = "x" * 400_000
    with ledger.run("a", conversation="c") as run:
        run.state["n"] = large
    with ledger.run("a", conversation="c") as run:
        assert run.state["n"] == large
    assert values(ledger) == {"n": large}


# ---- running again ----------------------------------------------------------------------------------------------------


def test_a_run_that_is_entered_again_changes_nothing_and_sees_the_same(ledger):
    seen = []

    def agent(run):
        seen.append([run.state.get("n"), run.state.set("n", 1), run.state.set("n", 2), run.state["n"]])
        run.step("s", lambda: None)
        seen[-1] += [run.state.clear("n"), run.state.get("n"), run.state.set("n", 1)]

    with ledger.run("a", conversation="c", dedupe="0") as run:
        run.state["n"] = 0
    leave_open(ledger, agent)
    head = ledger.store.head(ledger.stream_of("c")).sequence
    leave_open(ledger, agent)
    assert seen[0] == seen[1] == [0, 2, 3, 2, 4, None, 5]
    # The second entry recorded that it was made, and nothing else.
    assert ledger.store.head(ledger.stream_of("c")).sequence == head + 1


def test_a_run_that_has_ended_hands_out_what_it_saw(ledger):
    def agent(run):
        return run.state.get("n"), run.state.set("n", "mine"), run.state["n"]

    with ledger.run("a", conversation="c", dedupe="1") as run:
        first = agent(run)
    with ledger.run("a", conversation="c", dedupe="2") as run:
        run.state["n"] = "theirs"
    with ledger.run("a", conversation="c", dedupe="1") as run:
        assert agent(run) == first == (None, 1, "mine")
        with pytest.raises(RunClosed):
            run.state["m"] = 1


def test_a_run_that_waited_sees_what_it_saw_until_it_looks_anew(world):
    ledger = world.worker()
    seen = []

    def agent(run, refresh=True):
        seen.append([run.state["n"]])
        run.step("s", lambda: None)
        seen[-1].append(run.state["n"])
        if refresh:
            run.state.refresh()
            seen[-1].append(run.state["n"])
            run.state["n"] += " and mine"

    with ledger.run("a", conversation="c", dedupe="0") as run:
        run.state["n"] = "old"
    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: agent(run, refresh=False))
    world.expire_leases()
    with ledger.run("a", conversation="c", dedupe="2") as run:
        run.state["n"] = "theirs"
    leave_open(ledger, agent)
    with ledger.run("a", conversation="c", dedupe="1") as run:
        agent(run)
    assert seen == [["old", "old"], ["old", "old", "theirs"], ["old", "old", "theirs"]]
    assert values(ledger) == {"n": "theirs and mine"}


def test_nobody_overwrites_what_another_run_set_unseen(world):
    ledger = world.worker()
    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: run.state.set("n", 1))
    world.expire_leases()
    with ledger.run("a", conversation="c", dedupe="2") as run:
        run.state["n"] = 2
    merged, named = [], []

    def agent(run):
        run.state["n"] = 1
        try:
            run.state["n"] = 3
        except SlotMoved as moved:
            named.append(moved.fields["slot"])
            run.state.refresh()
            merged.append(run.state["n"])
            run.state["n"] = 3

    for _ in range(2):
        leave_open(ledger, agent)
    assert (merged, named) == ([2, 2], ["n", "n"])
    assert [said["version"] for said in facts(ledger, "c", "state.set")] == [1, 2, 3]


def test_a_conflict_that_the_code_lets_through_is_the_end_of_the_run(world):
    ledger = world.worker()
    vanish(ledger.run("a", conversation="c", dedupe="1"))
    world.expire_leases()
    with ledger.run("a", conversation="c", dedupe="2") as run:
        run.state["n"] = 2
    with pytest.raises(SlotMoved), ledger.run("a", conversation="c", dedupe="1") as run:
        run.state["n"] = 1
    assert run.terminal == "storage_conflict"


def test_code_that_sets_something_new_where_the_record_has_a_step_diverges(ledger):
    leave_open(ledger, lambda run: run.step("s", lambda: 1))
    with pytest.raises(Divergence), ledger.run("a", conversation="c", dedupe="1") as run:
        run.state["n"] = 1
    leave_open(ledger, lambda run: run.state.set("n", 1), dedupe="2")
    with (
        pytest.raises(Divergence, match=r"state\.set step n"),
        ledger.run("a", conversation="c", dedupe="2") as run,
    ):
        run.step("s", lambda: 1)


def test_a_set_whose_answer_was_lost_is_recorded_once(ledger, monkeypatch):
    with ledger.run("a", conversation="c") as run:
        append = ledger.ports.append

        def lost(unit, claim=None):
            append(unit, claim)
            raise StoreBusy("the answer was lost")

        monkeypatch.setattr(ledger.ports, "append", lost)
        with pytest.raises(StoreBusy):
            run.state["n"] = 1
        monkeypatch.undo()
        run.state["n"] = 1
        assert run.state.version("n") == 1
    assert len(facts(ledger, "c", "state.set")) == 1


def test_siblings_that_set_one_slot_make_a_version_each_and_run_again_in_any_order(ledger):
    def agent(run, order):
        threads = [threading.Thread(target=run.bind(run.state.set), args=("n", number)) for number in order]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return run.state.version("n"), run.state["n"]

    found = []
    leave_open(ledger, lambda run: found.append(agent(run, range(8))))
    leave_open(ledger, lambda run: found.append(agent(run, reversed(range(8)))))
    assert found[0] == found[1]
    assert found[0][0] == 8
    assert sorted(said["version"] for said in facts(ledger, "c", "state.set")) == list(range(1, 9))


def test_tasks_have_the_same_words(ledger):
    async def agent():
        async with ledger.run("a", conversation="c", dedupe="1") as run:
            assert await run.state.aget("n", 7) == 7
            assert await run.state.aset("n", 1) == 1
            assert await run.state.aversion("n") == 1
            assert await run.state.anames() == ["n"]
            await run.state.arefresh()
            assert await run.state.aget("n") == 1
            assert await run.state.aclear("n") == 2

    asyncio.run(agent())
    asyncio.run(agent())
    assert types_of(ledger, "c").count("state.set") == 1


# ---- from outside -----------------------------------------------------------------------------------------------------


def test_slots_are_read_as_they_were_at_any_sequence(ledger):
    expected, wanted = {}, {}
    for number in range(9):
        with ledger.run("a", conversation="c") as run:
            name = "ab"[number % 2]
            if number % 4 == 3:
                del run.state[name]
                wanted.pop(name)
            else:
                run.state[name] = number
                wanted[name] = number
            expected[ledger.store.head(run.conversation).sequence] = dict(wanted)
    assert {at: values(ledger, at) for at in expected} == expected
    assert values(ledger) == wanted
    assert values(ledger, 0) == {}


def test_reading_a_slot_reads_no_more_events_when_the_conversation_is_long(ledger, monkeypatch):
    def reads(at=None):
        asked = []
        read = ledger.ports.read
        monkeypatch.setattr(ledger.ports, "read", lambda query: (asked.append(query), read(query))[1])
        values(ledger, at)
        monkeypatch.undo()
        return asked

    with ledger.run("a", conversation="c") as run:
        run.state["n"] = 0
        early = ledger.store.head(run.conversation).sequence
        few = len(reads())
        for number in range(100):
            run.state["n"] = number
            run.record("n.seen", {"number": number}, ignorable=True)
        assert len(reads()) == few
        back = reads(early)
    events = [query for query in back if isinstance(query, Events)]
    assert [query.limit for query in events] == [1]
    assert len(back) - len(events) < 2 + 8  # a page, a newest row, and halving a hundred versions


def test_a_slot_whose_content_is_gone_is_named_and_hides_no_other(ledger):
    with ledger.run("a", conversation="c") as run:
        run.state["n"] = 1
    key = ledger.ports.genesis(run.conversation).key
    ledger.keyring.store.delete([key])
    fresh = type(ledger)(
        ledger._parts, tenant="default", content=None, clock=ledger.ports.clock, ids=ledger.ports.ids
    )
    (slot,) = fresh.slots(run.conversation)
    assert (slot.name, slot.version) == ("n", 1)
    assert slot.event.content_state == "missing"


def test_a_request_can_name_the_slots_that_were_used(ledger):
    with ledger.run("a", conversation="c") as run:
        run.state["a"], run.state["b"] = 1, 2
        run.state["a"] = 3
    with ledger.run("a", conversation="c") as run:
        assert slots_used(run._scope) == {}
        run.state.get("a")
        run.state.get("never")
        run.state["c"] = 1
        assert slots_used(run._scope) == {"a": 2, "c": 1}


def test_versions_have_rows_of_their_own(ledger):
    with ledger.run("a", conversation="c") as run:
        run.state["n"] = 1
        run.state["n"] = 2
    rows = ledger.store.select(VERSIONS, None, (run.conversation, "n"), None, 9)
    assert [(row["version"], row["state"]) for row in rows] == [(1, "set"), (2, "set")]
