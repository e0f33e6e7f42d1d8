"""Children of runs: spawned once, linked both ways, waited for, stopped, and settled by whoever is first."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

import counterfoil
from counterfoil.abc import Host
from counterfoil.client.ledger import Ledger
from counterfoil.effects import by_review, effect
from counterfoil.effects.registry import own_tools
from counterfoil.errors import (
    ChildFailed,
    ChildTooDeep,
    Divergence,
    InvalidForm,
    NoRun,
    RunStopped,
    RunWaiting,
)
from counterfoil.flow.drive import drive
from counterfoil.flow.requests import Events
from counterfoil.runtime.agents import own_agents
from counterfoil.runtime.children.settle import settle_finished
from counterfoil.testing.crash import World
from counterfoil.testing.hosts import ManualHost
from counterfoil.testing.truth import check_truth
from tests.family import CASE, Family


@pytest.fixture
def family():
    with contextlib.closing(World()) as world, own_agents():
        yield Family(world)


@pytest.fixture
def live():
    """A ledger whose children run in threads of this process."""
    with contextlib.closing(World()) as world, own_agents():
        yield world.open()


def appends(ledger: Ledger) -> list[list[tuple[str, str]]]:
    """Note every unit that this handle appends: the stream and type of each of its events."""
    seen: list[list[tuple[str, str]]] = []
    ports = ledger.ports
    ready = ports._ready

    def noting(unit, objects):
        seen.append([(entry.stream_id, d.event_type) for entry in unit.entries for d in entry.drafts])
        return ready(unit, objects)

    ports._ready = noting  # type: ignore[method-assign]  # every append goes through it
    return seen


# ---- linked both ways (case X7) --------------------------------------------------------------------------------------


def test_a_child_names_its_parent_and_the_parent_its_child_with_the_full_input(family):
    message = {"find": "the cause", "in": ["a", "b"]}
    with family.parent() as run:
        run.ask(lambda request: "call the researcher", "what now?")
        link = run.spawn("kid", message, call_id="toolu_17", title="Research")
    ledger = family.open()
    (started,) = ledger.events(CASE, types=["child.started"])
    opened, accepted = ledger.events(link.stream_id)
    assert dict(started.data) == {
        "child_stream_id": link.stream_id,
        "child_run_id": link.run_id,
        "depth": 1,
    }
    assert (started.content["input"], started.content["call_id"]) == (message, "toolu_17")
    assert opened.data["origin"] == "child"
    assert opened.data["parent_stream_id"] == ledger.stream_of(CASE)
    assert (opened.data["parent_run_id"], opened.data["parent_event_id"]) == (run.id, started.event_id)
    assert (opened.content["call_id"], opened.content["title"]) == ("toolu_17", "Research")
    assert opened.header.raw["causation_stream_id"] == ledger.stream_of(CASE)
    assert accepted.content["message"] == message
    (child,) = ledger.children(run.id)
    assert (child.link, child.state) == (link, "spawned")
    assert ledger.parent_of(link.run_id) == child
    check_truth(ledger)


def test_a_child_comes_of_the_last_model_call_unless_the_code_names_another(family):
    with family.parent() as run:
        run.ask(lambda request: "call the researcher", "what now?")
        run.spawn("kid", "go")
    ledger = family.open()
    (responded,) = ledger.events(CASE, types=["provider.responded"])
    (started,) = ledger.events(CASE, types=["child.started"])
    assert started.content["call_id"] == responded.data["call_id"]


def test_a_child_begins_as_its_parent_said(family):
    given = {"configuration": {"mode": "deep"}, "classification": "secret", "budget": {"calls": 2}}
    with family.parent(principal="ada@example.com") as run:
        link = run.spawn("kid", "go", **given)
    with family.child(link) as child:
        assert (child.id, child.message) == (link.run_id, "go")
    ledger = family.open()
    (started,) = ledger.events(link.stream_id, types=["run.started"])
    assert started.data["class"] == "secret"
    assert started.content["configuration"] == {"mode": "deep"}
    assert started.data["principal"].startswith("dk_")
    assert [(b.budget, b.limit) for b in ledger.budgets(link.run_id)] == [("calls", "2")]
    check_truth(ledger)


@pytest.mark.parametrize("state", ["spawned", "running", "suspended", "settled", "stopped", "lost", "purged"])
def test_children_are_found_by_their_state(family, state):
    link = family.spawned_before(state)
    with family.parent() as run:
        for brought in ("spawned", "running", "suspended", "settled", "purged"):
            other = run.spawn("kid", brought)
            family.bring(other, brought)
            link = other if brought == state else link
    assert [child.link.run_id for child in family.open().children(state=state)] == [link.run_id]


def test_names_of_nothing_are_refused(family):
    ledger = family.open()
    with pytest.raises(counterfoil.errors.StreamNotFound):
        ledger.children("nobody")
    with pytest.raises(counterfoil.errors.RunNotFound):
        ledger.children("run_01J9ZC3Y3V7W2R5T8QK4M6N0PR")
    assert ledger.parent_of("run_01J9ZC3Y3V7W2R5T8QK4M6N0PR") is None


# ---- one append for each change --------------------------------------------------------------------------------------


def test_spawning_is_one_append_of_two_streams(family):
    ledger = family.open()
    with ledger.run("parent", conversation=CASE) as run:
        seen = appends(ledger)
        link = run.spawn("kid", "go")
        assert seen == [
            [
                (run.conversation, "child.started"),
                (link.stream_id, "conversation.opened"),
                (link.stream_id, "admission.accepted"),
            ]
        ]


def test_a_childs_end_and_its_settlement_are_one_append(family):
    with family.parent() as run:
        link = run.spawn("kid", "go")
    ledger = family.open()
    with ledger.run("kid", resume=link.run_id) as child:
        seen = appends(ledger)
        child.finish("found it")
    assert seen == [[(link.stream_id, "run.finished"), (link.parent_stream_id, "child.settled")]]


@pytest.mark.parametrize("state", ["spawned", "running", "suspended"])
def test_the_parents_end_is_one_append_and_each_stop_one_more(family, state):
    with family.parent() as run:
        link = run.spawn("kid", "go")
        family.bring(link, state)
        run.finish("left it")
    ledger = family.open()
    with contextlib.suppress(RunStopped), ledger.run("parent", conversation=CASE) as run:
        seen = appends(ledger)
        run.cancel()
        run.step("late", str)
    own = {
        "spawned": ["admission.rejected"],
        "running": ["run.claimed", "run.finished"],
        "suspended": ["run.finished"],
    }
    assert seen == [
        [(run.conversation, "run.finished"), (link.stream_id, "run.cancel_requested")],
        [*((link.stream_id, event) for event in own[state]), (run.conversation, "child.settled")],
    ]


def test_leaving_children_is_part_of_the_parents_end(family):
    ledger = family.open()
    with ledger.run("parent", conversation=CASE) as run:
        run.spawn("kid", 1)
        run.spawn("kid", 2)
        seen = appends(ledger)
    assert [event for _, event in seen[0]] == ["run.finished", "child.settled", "child.settled"]
    assert len(seen) == 1


# ---- waiting ---------------------------------------------------------------------------------------------------------


def test_a_run_waits_for_its_child_and_gets_its_result_on_resume(family):
    def work():
        with family.parent() as run:
            link = run.spawn("kid", "go")
            run.finish(run.wait(link))
        return run, link

    with pytest.raises(RunWaiting) as told:
        work()
    (child,) = family.open().children(CASE)
    assert (told.value.cause, told.value.waits_for) == ("child", (child.link.run_id,))
    assert list(family.open().ready()) != []
    with family.child(child.link) as run:
        run.finish({"found": 7})
    assert [(ready.agent, ready.why) for ready in family.open().ready()] == [("parent", "child")]
    run, link = work()
    assert (run.output, link) == ({"found": 7}, child.link)
    again, _ = work()
    assert again.output == {"found": 7}
    assert len(list(family.open().events(CASE, types=["child.started"]))) == 1
    check_truth(family.open())


def test_a_parent_that_waits_is_not_ready_while_its_child_is_at_work(family):
    with pytest.raises(RunWaiting), family.parent() as run:
        link = run.spawn("kid", "go")
        run.wait(link)
    family.vanish(family.child(link))
    assert list(family.open().ready()) == []


@pytest.mark.parametrize(
    "terminal,state",
    [("provider_stop", "finished"), ("runtime_failure", "finished"), ("cancelled", "finished")],
)
def test_a_child_that_did_not_end_well_is_an_error_that_names_it(family, terminal, state):
    with pytest.raises(ChildFailed) as told, family.parent() as run:
        link = run.spawn("kid", "go")
        with contextlib.suppress(BaseException), family.child(link) as child:
            family.end(child, terminal)
        run.wait(link)
    failed = told.value
    assert (failed.child_run_id, failed.state, failed.terminal) == (link.run_id, state, terminal)
    assert "broken" not in str(failed)


def test_a_child_that_was_lost_and_came_back_keeps_its_first_result_for_who_waited(family):
    with contextlib.suppress(asyncio.CancelledError), family.parent() as run:
        link = run.spawn("kid", "go")
        family.vanish(family.child(link))
        family.host.unreachable = True
        raise asyncio.CancelledError
    ledger = family.open()
    assert ledger.children(CASE)[0].state == "lost"
    back = family._left[-1]
    with contextlib.suppress(RunStopped):
        with contextlib.suppress(BaseException):
            back.step("late", str)
        back.__exit__(None, None, None)
    assert ledger.children(CASE)[0].state == "stopped"
    settled = [e.data["state"] for e in ledger.events(CASE, types=["child.settled"])]
    assert settled == ["lost", "stopped"]
    with pytest.raises(ChildFailed) as told, family.parent("m2") as again:
        again.wait(link)
    assert told.value.state == "lost"
    check_truth(ledger)


def test_the_successor_of_a_superseded_run_owns_its_children(family):
    first = family.parent()
    with contextlib.suppress(BaseException), first as run:
        link = run.spawn("kid", "go")
        family.vanish(family.parent("m2", while_running="supersede"))
    ledger = family.open()
    assert (ledger.children(CASE)[0].state, ledger.children(CASE)[0].left) == ("spawned", True)
    successor = next(row for row in ledger.runs(CASE) if row["state"] == "running")
    family.world.time_passes()
    ledger.cancel(str(successor["run_id"]), by="Ines", reason="enough")
    (child,) = ledger.children(CASE)
    assert (child.state, child.parent_terminal, child.link) == ("stopped", "cancelled", link)


def test_a_run_that_waits_decides_about_its_children_itself(family):
    with pytest.raises(RunWaiting), family.parent() as run:
        link = run.spawn("kid", "go")
        run.wait(link)
    with contextlib.suppress(asyncio.CancelledError), family.parent("m2"):
        raise asyncio.CancelledError
    assert family.open().children(CASE)[0].state == "spawned"


# ---- once, whatever happens ------------------------------------------------------------------------------------------


def test_equal_spawns_are_told_apart_by_their_order(family):
    with family.parent() as run:
        first, second = run.spawn("kid", "go"), run.spawn("kid", "go")
    assert first != second
    with contextlib.suppress(Exception), family.parent() as again:
        assert [again.spawn("kid", "go"), again.spawn("kid", "go")] == [first, second]


def test_another_program_is_told_that_it_diverges(family):
    with contextlib.suppress(RunWaiting), family.parent() as run:
        run.spawn("kid", "go")
        raise run._scope.suspend("a pause", cause="input")
    with pytest.raises(Divergence), family.parent() as again:
        again.spawn("kid", "go elsewhere")
    assert len(family.open().children(CASE)) == 1


def test_an_agent_that_spawns_itself_comes_to_an_end(live):
    ledger = Ledger(
        live._parts,
        tenant="default",
        content=None,
        clock=live.ports.clock,
        ids=live.ports.ids,
        host=Host(child_depth_max=3),
    )

    @counterfoil.agent("mirror")
    def mirror(run):
        try:
            run.finish(run.wait(run.spawn("mirror", run.message + 1)))
        except ChildTooDeep as deep:
            run.finish(f"no deeper than {deep.depth_max}")

    with ledger.run("mirror", conversation=CASE, message=0) as run:
        mirror(run)
    assert run.output == "no deeper than 3"
    assert [child.link.depth for child in ledger.children()] == [1, 2, 3]
    check_truth(ledger)


@pytest.mark.parametrize(
    "given",
    [
        {"agent": "a b"},
        {"message": object()},
        {"budget": {"tokens": "many"}},
        {"configuration": [1]},
        {"classification": "hush"},
        {"call_id": ""},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_cannot_be_spawned_is_refused_and_nothing_is_written(family, given):
    arguments = {"agent": "kid", "message": "go"} | given
    with family.parent() as run, pytest.raises(counterfoil.errors.InputError):
        run.spawn(arguments.pop("agent"), arguments.pop("message"), **arguments)
    assert family.open().children() == []


@pytest.mark.parametrize("wrong", [None, "run_1", 1, {}], ids=repr)
def test_what_is_no_child_is_not_waited_for(family, wrong):
    with family.parent() as run, pytest.raises(InvalidForm):
        run.wait(wrong)


@pytest.mark.parametrize(
    "within_s", [-1, "1", True, float("nan"), float("inf"), 10**400], ids=lambda given: str(given)[:6]
)
def test_patience_is_a_number_of_seconds(family, within_s):
    with family.parent() as run:
        link = run.spawn("kid", "go")
        with pytest.raises(InvalidForm):
            run.wait(link, within_s=within_s)


def test_two_processes_that_settle_one_child_settle_it_once(family, monkeypatch):
    with family.parent() as run:
        link = run.spawn("kid", "go")
        with family.child(link) as child:
            child.finish("done")
    ledger = family.open()
    row = dict(ledger.store.get("children", (link.stream_id,)))
    # Both looked before either had written.
    assert drive(settle_finished(row, ledger.ports), ledger.ports) is False
    assert len(list(ledger.events(CASE, types=["child.settled"]))) == 1


def test_workers_that_recover_at_once_finish_a_broken_stop_once(family):
    with contextlib.suppress(asyncio.CancelledError), family.parent() as run:
        link = run.spawn("kid", "go")
        family.vanish(family.child(link))
        family.host.answers[link.run_id] = "running"
        raise asyncio.CancelledError
    family.world.time_passes()
    ledgers = [family.open() for _ in range(4)]
    threads = [threading.Thread(target=ledger.recover) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger = family.open()
    assert ledger.children(CASE)[0].state == "stopped"
    assert len(list(ledger.events(CASE, types=["child.settled"]))) == 1
    assert len(list(ledger.events(link.stream_id, types=["run.finished"]))) == 1


# ---- generations, doubt, purges --------------------------------------------------------------------------------------


def test_grandchildren_are_stopped_with_their_parents(family):
    with contextlib.suppress(asyncio.CancelledError), family.parent() as run:
        link = run.spawn("kid", "go")
        with contextlib.suppress(RunWaiting), family.child(link) as child:
            grandchild = child.spawn("kid", "deeper")
            child.wait(grandchild)
        raise asyncio.CancelledError
    ledger = family.open()
    assert [child.state for child in ledger.children()] == ["stopped", "stopped"]
    (settled,) = ledger.events(link.stream_id, types=["child.settled"])
    assert (settled.data["by"], settled.data["parent_terminal"]) == ("parent", "cancelled")
    check_truth(ledger)


def test_a_child_that_is_stopped_leaves_its_doubt_to_recovery(family):
    with own_tools():

        @effect("mail", version="1", touches={"messages"}, doubt=by_review())
        def mail():
            raise ConnectionError("sent, or not?")

        with contextlib.suppress(asyncio.CancelledError), family.parent() as run:
            link = run.spawn("kid", "go")
            with contextlib.suppress(RunWaiting), family.child(link):
                mail()
            raise asyncio.CancelledError
        ledger = family.open()
        assert ledger.children(CASE)[0].state == "stopped"
        assert ledger.run_row(link.run_id)["terminal"] == "cancelled"
        assert [row["state"] for row in ledger.effects(run_id=link.run_id)] == ["in_review"]
        assert len(ledger.reviews()) == 1


def test_after_its_parent_is_purged_a_child_says_what_became_of_it_itself(family):
    with family.parent() as run:
        link = run.spawn("kid", "go")
    family.purge(link.parent_stream_id)
    with family.child(link) as child:
        child.finish("done all the same")
    ledger = family.open()
    (settled,) = ledger.events(link.stream_id, types=["child.settled"])
    assert (settled.data["state"], settled.header.run_id) == ("finished", link.run_id)
    assert ledger.parent_of(link.run_id).state == "settled"
    assert ledger.recover().children == []
    check_truth(ledger)


def test_with_both_purged_the_row_alone_says_what_became_of_a_child(family):
    with family.parent() as run:
        link = run.spawn("kid", "go")
    with contextlib.suppress(counterfoil.errors.CounterfoilError), family.child(link) as child:
        family.purge(link.parent_stream_id)
        family.purge(link.stream_id)
        child.finish("nobody will read it")
    ledger = family.open()
    (standing,) = ledger.children()
    assert (standing.state, standing.settled_by) == ("settled", "child")
    check_truth(ledger)
    ledger.rebuild()
    assert [child.state for child in ledger.children()] == ["settled"]


def test_a_child_whose_conversation_was_purged_is_found_lost(family):
    with family.parent() as run:
        link = run.spawn("kid", "go")
        family.purge(link.stream_id)
    ledger = family.open()
    assert [child.state for child in ledger.children()] == ["purged"]
    (report,) = ledger.recover().children
    assert (report.done, report.child_run_id) == ("lost", link.run_id)
    assert [child.state for child in ledger.children()] == ["lost"]
    check_truth(ledger)


def test_a_late_child_of_a_purged_conversation_still_tells_its_parent(family):
    with family.parent() as run:
        link = run.spawn("kid", "go")
    with family.child(link) as child:
        family.purge(link.stream_id)
        child.finish("it was worth it")
    (settled,) = [e for e in family.open().events(CASE, types=["child.settled"]) if e.data["by"] == "child"]
    assert settled.content["result"] == {"terminal": "success", "output": "it was worth it"}


# ---- in this process -------------------------------------------------------------------------------------------------


@counterfoil.agent("unused", version="1")
def unused(run):
    """Keeps the registry from being empty."""


def test_registered_agents_run_in_threads_and_their_results_come_back(live):
    @counterfoil.agent("adder")
    def adder(run):
        run.finish(sum(run.message))

    with live.run("parent", conversation=CASE) as run:
        links = [run.spawn("adder", [number, 1]) for number in range(4)]
        assert [run.wait(link) for link in links] == [1, 2, 3, 4]
    assert {child.state for child in live.children()} == {"settled"}


def test_async_parents_spawn_async_children(live):
    @counterfoil.agent("adder")
    async def adder(run):
        await asyncio.sleep(0)
        run.finish(sum(run.message))

    async def parent():
        async with live.run("parent", conversation=CASE) as run:
            links = [await run.aspawn("adder", [number, 1]) for number in range(3)]
            return await asyncio.gather(*(run.await_(link) for link in links))

    assert asyncio.run(parent()) == [1, 2, 3]


def test_a_child_is_not_inside_of_its_parents_run(live):
    seen = []

    @counterfoil.agent("kid")
    def kid(run):
        with contextlib.suppress(NoRun):
            seen.append(counterfoil.flow.context.current_scope().run_id)
        run.finish(run.step("s", str.upper, "ok"))

    with live.run("parent", conversation=CASE) as run:
        link = run.spawn("kid", "go")
        assert run.wait(link) == "OK"
    assert seen == [link.run_id]


def test_a_child_of_a_stopped_parent_ends_at_its_next_call(live):
    at_work, go_on = threading.Event(), threading.Event()

    @counterfoil.agent("kid")
    def kid(run):
        at_work.set()
        go_on.wait(30)
        run.step("late", str)

    with contextlib.suppress(asyncio.CancelledError), live.run("parent", conversation=CASE) as run:
        link = run.spawn("kid", "go")
        assert at_work.wait(30)
        threading.Timer(0.1, go_on.set).start()
        raise asyncio.CancelledError
    (child,) = live.children()
    assert (child.state, child.settled_by, child.parent_terminal) == ("stopped", "parent", "cancelled")
    assert live.run_row(link.run_id)["terminal"] == "cancelled"


def test_a_wait_ends_with_its_patience(live):
    go_on = threading.Event()

    @counterfoil.agent("kid")
    def kid(run):
        go_on.wait(30)

    with pytest.raises(RunWaiting) as told, live.run("parent", conversation=CASE, dedupe="m") as run:
        link = run.spawn("kid", "go")
        run.wait(link, within_s=0.05)
    go_on.set()
    assert told.value.waits_for == (link.run_id,)


def test_a_child_of_an_unregistered_agent_waits_for_a_worker_that_has_it(live):
    with pytest.raises(RunWaiting), live.run("parent", conversation=CASE, dedupe="m", message="x") as run:
        run.wait(run.spawn("stranger", "go"))
    counterfoil.agent("stranger")(lambda run: run.finish("here now"))
    counterfoil.agent("parent")(lambda run: run.finish(run.wait(run.spawn("stranger", "go"))))
    worker = live.worker()
    while worker.look():
        pass
    assert live.run_row(run.id)["terminal"] == "success"
    assert [child.state for child in live.children()] == ["settled"]


def test_a_host_that_cannot_start_a_child_is_named_by_who_waits(family):
    family.host.unreachable = True
    with pytest.raises(RunWaiting, match="could not start it"), family.parent() as run:
        run.wait(run.spawn("kid", "go"))


def test_a_closed_handle_leaves_its_children_to_the_next(tmp_path):
    at_work, go_on = threading.Event(), threading.Event()
    with own_agents():

        @counterfoil.agent("kid")
        def kid(run):
            at_work.set()
            go_on.wait(30)
            run.finish(run.step("s", str.upper, "done"))

        ledger = counterfoil.open(tmp_path / "ledger")
        with ledger.run("parent", conversation=CASE) as run:
            link = run.spawn("kid", "go")
            assert at_work.wait(30)
        (thread,) = [t for t in threading.enumerate() if t.name.endswith(link.run_id)]
        ledger.close()
        go_on.set()
        thread.join(30)
        with counterfoil.open(tmp_path / "ledger") as again:
            assert again.children(CASE)[0].state == "running"
            again.store.release(again.store.head(link.stream_id).lease)
            assert [run.run_id for run in again.ready()] == [link.run_id]
            worker = again.worker()
            while worker.look():
                pass
            assert again.children(CASE)[0].state == "settled"


def test_an_impossible_depth_is_refused(family):
    ledger = family.open()
    ledger.host = Host(child_depth_max=1000)
    with pytest.raises(InvalidForm):
        ledger.run("parent")


def test_a_manual_host_can_stand_in_for_a_real_one(tmp_path):
    host = ManualHost()
    with counterfoil.open(tmp_path / "ledger", host=Host(children=host)) as ledger:
        with ledger.run("parent") as run:
            link = run.spawn("kid", "go")
        assert host.started == [link]
        assert ledger.ports.read(Events(link.stream_id))[0].type == "conversation.opened"


# ---- a great many, and from elsewhere --------------------------------------------------------------------------------


def test_more_children_than_one_append_decides_about_are_stopped_by_recovery(family, monkeypatch):
    monkeypatch.setattr("counterfoil.runtime.children.kin.KIN_MAX", 3)
    monkeypatch.setattr("counterfoil.runtime.children.stop.KIN_MAX", 3)
    with contextlib.suppress(asyncio.CancelledError), family.parent() as run:
        for number in range(7):
            run.spawn("kid", number)
        raise asyncio.CancelledError
    ledger = family.open()
    assert [child.state for child in ledger.children()].count("stopped") == 3
    assert [report.done for report in ledger.recover().children] == ["stopped"] * 4
    assert {(child.state, child.parent_terminal) for child in ledger.children()} == {("stopped", "cancelled")}


def test_more_children_than_one_append_decides_about_are_left_by_recovery(family, monkeypatch):
    monkeypatch.setattr("counterfoil.runtime.children.kin.KIN_MAX", 3)
    with family.parent() as run:
        for number in range(5):
            run.spawn("kid", number)
    ledger = family.open()
    assert [report.done for report in ledger.recover().children] == ["left"] * 2
    assert {(child.state, child.left) for child in ledger.children()} == {("spawned", True)}
    check_truth(ledger)


def test_a_family_of_another_ledger_is_left_as_it_came(tmp_path):
    with counterfoil.open(tmp_path / "one", host=Host(children=ManualHost())) as ledger:
        with ledger.run("parent", conversation=CASE) as run:
            link = run.spawn("kid", "go")
        ledger.export_archive([CASE], tmp_path / "archive.zip")
    with counterfoil.open(tmp_path / "two") as other:
        other.import_archive(tmp_path / "archive.zip")
        before = other.store.head(link.parent_stream_id)
        assert [child.state for child in other.children()] == ["purged"]
        assert other.recover().children == []
        assert list(other.ready()) == []
        assert other.store.head(link.parent_stream_id) == before


# ---- erased ----------------------------------------------------------------------------------------------------------


def erase(ledger, stream_id):
    """Destroy the key of a conversation, as erasure does; its headers stay."""
    key_id = ledger.ports.genesis(stream_id).key
    ledger.keyring.store.delete([key_id])
    ledger.keyring.forget()


def test_the_child_of_an_erased_parent_ends_and_says_so_itself(family):
    with family.parent() as run:
        link = run.spawn("kid", "go")
    with family.child(link) as child:
        erase(family.open(), link.parent_stream_id)
        child._host.ports.keyring.forget()
        child.finish("done")
    ledger = family.open()
    (settled,) = ledger.events(link.stream_id, types=["child.settled"])
    assert settled.data["state"] == "finished"
    assert ledger.parent_of(link.run_id).state == "settled"


def test_a_parent_above_an_erased_child_ends_and_its_child_is_given_up(family):
    parent = family.parent()
    with contextlib.suppress(asyncio.CancelledError), parent as run:
        link = run.spawn("kid", "go")
        erase(family.open(), link.stream_id)
        run._host.ports.keyring.forget()
        family.host.unreachable = True
        raise asyncio.CancelledError
    ledger = family.open()
    assert ledger.run_row(run.id)["terminal"] == "cancelled"
    (standing,) = ledger.children(CASE)
    assert (standing.state, standing.parent_terminal) == ("lost", "cancelled")
    assert ledger.recover().children == []
