"""The storage fails at any append or claim of a run, before or after it recorded: the same code goes on to one end."""

from __future__ import annotations

from contextlib import suppress

import pytest
from msgspec.structs import replace

from counterfoil.errors import RunWaiting, StoreError, StoreFull
from counterfoil.testing.faulty import Fail, FailAfter, Faults, FaultyStore
from counterfoil.testing.hosts import ManualHost
from counterfoil.testing.truth import check_truth
from tests.running import ScriptedModel, World, facts, types_of, vanish


def full():
    return StoreFull("no space left")


class Agent:
    """Asks, works, notes and ends; counts how often it does."""

    def __init__(self):
        self.model = ScriptedModel(*["answer"] * 9)
        self.worked = 0

    def work(self):
        self.worked += 1
        return "worked"

    def run(self, ledger):
        with ledger.run("a", conversation="c", message="m", dedupe="1") as run:
            said = run.ask(self.model, "q").text
            done = run.step("work", self.work)
            run.record("note.made", {"said": said}, ignorable=True)
            run.finish([said, done])
        return run


def calls(method):
    """How often an undisturbed agent appends or claims."""
    world = World()
    faults = Faults()
    worker = World(replace(world.parts, store=FaultyStore(world.parts.store, faults)), world.clock).worker()
    before = faults.counts.get(method, 0)
    Agent().run(worker)
    return faults.counts.get(method, 0) - before


@pytest.mark.parametrize("fault", [Fail(), Fail(full), FailAfter()], ids=["io", "full", "answer-lost"])
@pytest.mark.parametrize("method", ["append", "claim"])
def test_wherever_the_storage_fails_the_run_is_resumed_to_one_end(method, fault):
    count = calls(method)
    assert count >= (6 if method == "append" else 1)
    for number in range(1, count + 1):
        world, agent, faults = World(), Agent(), Faults()
        failing = World(
            replace(world.parts, store=FaultyStore(world.parts.store, faults)), world.clock
        ).worker()
        faults.at(method, faults.counts.get(method, 0) + number, fault)
        with pytest.raises(StoreError):
            agent.run(failing)
        faults.calm()
        world.expire_leases()
        ledger = world.worker()
        run = agent.run(ledger)
        assert (run.terminal, run.output) == ("success", ["answer", "worked"])
        assert len(ledger.runs("c")) == len(ledger.conversations()) == 1
        assert types_of(ledger, "c").count("run.finished") == 1
        assert types_of(ledger, "c").count("note.made") == 1
        ended = [event["outcome"] for event in facts(ledger, "c", "step.finished")]
        assert ended == ["ok", "ok"]
        # Work whose result was never recorded is done again, and no other.
        assert len(agent.model.requests) <= 2
        assert agent.worked <= 2


def test_a_refused_append_inside_a_run_does_not_end_it():
    world, faults = World(), Faults()
    ledger = World(replace(world.parts, store=FaultyStore(world.parts.store, faults)), world.clock).worker()
    with ledger.run("a", conversation="c", dedupe="1") as run:
        faults.next("append", Fail(full))
        with pytest.raises(StoreFull):
            run.step("one", lambda: 1)
        assert run.step("two", lambda: 2) == 2
    assert run.terminal == "success"


@pytest.mark.parametrize("fault", [Fail(), FailAfter()], ids=["io", "answer-lost"])
@pytest.mark.parametrize("append", [1, 2], ids=["at-its-start", "at-its-end"])
def test_a_step_that_is_tried_again_after_the_storage_failed_is_the_same_step(fault, append):
    world, faults = World(), Faults()
    ledger = World(replace(world.parts, store=FaultyStore(world.parts.store, faults)), world.clock).worker()

    def stubborn(run):
        for _ in range(3):
            try:
                return run.step("s", lambda: "done")
            except StoreError:
                continue
        return pytest.fail("the storage failed for good")

    def first(run):
        faults.at("append", faults.counts["append"] + append, fault)
        assert stubborn(run) == "done"

    vanish(ledger.run("a", conversation="c", dedupe="1"), first)
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert again.step("s", lambda: pytest.fail("ran again")) == "done"
        assert again.step("s", lambda: "second") == "second"
    assert len({event.header.step_id for event in ledger.events("c", types=["step.finished"])}) == 2
    attempts = [event.header.attempt for event in ledger.events("c", types=["step.started"])]
    assert len(attempts) == len({event.event_id for event in ledger.events("c", types=["step.started"])})


@pytest.mark.parametrize("fault", [Fail(), FailAfter()], ids=["io", "answer-lost"])
def test_a_fact_that_is_recorded_again_after_the_storage_failed_is_there_once(fault):
    world, faults = World(), Faults()
    ledger = World(replace(world.parts, store=FaultyStore(world.parts.store, faults)), world.clock).worker()

    def note(run):
        run.record("note.made", {"text": "x"}, ignorable=True)

    def first(run):
        faults.next("append", fault)
        with pytest.raises(StoreError):
            note(run)
        world.clock.advance(5)
        note(run)

    vanish(ledger.run("a", conversation="c", dedupe="1"), first)
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        note(again)
    assert types_of(ledger, "c").count("note.made") == 1


class Coordinator:
    """Spawns a child, which is carried out by whoever runs this, waits for it and ends; tries a failed spawn again."""

    def __init__(self):
        self.tried_again = 0

    def run(self, ledger):
        ledger.child_host = ManualHost()
        with suppress(RunWaiting), ledger.run("a", conversation="c", message="m", dedupe="1") as run:
            link = self.spawn(run)
            with ledger.run("kid", resume=link.run_id) as child:
                if not child.done:
                    child.finish("found")
            run.finish(run.wait(link))
        return run

    def spawn(self, run):
        try:
            return run.spawn("kid", "go")
        except StoreError:
            self.tried_again += 1
            return run.spawn("kid", "go")


@pytest.mark.parametrize("fault", [Fail(), Fail(full), FailAfter()], ids=["io", "full", "answer-lost"])
@pytest.mark.parametrize("method", ["append", "claim"])
def test_wherever_the_storage_fails_a_child_is_spawned_and_settled_once(method, fault):
    tried_again = 0
    for number in range(1, 4):
        world, agent, faults = World(), Coordinator(), Faults()
        failing = World(replace(world.parts, store=FaultyStore(world.parts.store, faults)), world.clock)
        faulty = failing.worker()
        faults.at(method, faults.counts.get(method, 0) + number, fault)
        with suppress(StoreError):
            agent.run(faulty)
        tried_again += agent.tried_again
        faults.calm()
        world.expire_leases()
        ledger = world.worker()
        run = Coordinator().run(ledger)
        assert (run.terminal, run.output) == ("success", "found")
        (child,) = ledger.children("c")
        assert child.state == "settled"
        assert (
            types_of(ledger, "c").count("child.started") == types_of(ledger, "c").count("child.settled") == 1
        )
        assert len(ledger.conversations()) == 2
        check_truth(ledger)
    assert tried_again == (1 if method == "append" else 0)
