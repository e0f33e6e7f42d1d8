"""Inputs without a run: taken in once, started by workers in their turn, at their time, and when they are let in."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.client.imports import LedgerImports
from counterfoil.core.forms import time_text
from counterfoil.errors import (
    AdmissionConflict,
    AdmissionNotFound,
    AdmissionRejected,
    AdmissionTaken,
    InvalidForm,
    RunBusy,
)
from counterfoil.importers.run import import_file
from counterfoil.runtime.agents import agent, own_agents
from counterfoil.testing.truth import check_truth
from tests.running import facts, types_of, vanish
from tests.unit.importers.transcripts import pi_assistant, pi_header, pi_user, write

HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def _own():
    with own_agents():
        yield


@pytest.fixture
def served():
    """An agent ``a`` that remembers the messages of its runs."""
    messages = []

    @agent("a")
    def serve(run):
        messages.append(run.message)
        run.finish(run.message)

    return messages


def at(world, after_ms=0):
    return datetime.fromtimestamp((world.clock.now_ms() + after_ms) / 1000, UTC)


def work(ledger):
    """What a worker tells of one pass."""
    told = []
    ledger.worker(tell=told.append).look()
    return told


def ready(ledger):
    return [(found.agent, found.why) for found in ledger.ready_inputs()]


# ---- taken in ---------------------------------------------------------------------------------------------------------


def test_an_input_is_taken_in_and_a_worker_runs_it(ledger, served):
    admitted = ledger.admit("a", conversation="c", message={"n": 1}, dedupe="1")
    assert (admitted.state, ready(ledger)) == ("released", [("a", "operator")])
    (started,) = work(ledger)
    assert (started.done, started.terminal, started.input.admission_id) == (
        "ended",
        "success",
        admitted.admission_id,
    )
    assert served == [{"n": 1}]
    assert ledger.run_row(started.run_id)["admission_id"] == admitted.admission_id
    assert work(ledger) == []
    check_truth(ledger)


def test_a_run_of_a_kept_input_names_the_digest_of_its_message(ledger, served):
    ledger.admit("a", conversation="c", message="hello", dedupe="1")
    work(ledger)
    (started,) = ledger.events("c", types=["run.started"])
    material = ledger.ports.material(started.stream_id)
    assert started.data["input"] == material.digest("input", [started.header.run_id], b'"hello"')


def test_the_same_input_again_changes_nothing(ledger, served):
    first = ledger.admit("a", conversation="c", message="m", dedupe="1")
    head = ledger.store.head(first.stream_id).sequence
    again = ledger.admit("a", conversation="c", message="m", dedupe="1")
    assert (again.admission_id, again.state) == (first.admission_id, "released")
    assert ledger.store.head(first.stream_id).sequence == head
    work(ledger)
    ended = ledger.admit("a", conversation="c", message="m", dedupe="1")
    assert (ended.state, ended.run_id is None) == ("started", False)
    with pytest.raises(AdmissionConflict):
        ledger.admit("a", conversation="c", message="another", dedupe="1")


def test_an_input_without_a_conversation_opens_one(ledger, served):
    ledger.admit("a", message=1)
    ledger.admit("a", message=2)
    assert [happened.done for happened in work(ledger)] == ["ended", "ended"]
    assert sorted(served) == [1, 2]


def test_inputs_of_one_conversation_are_run_in_their_order(ledger, served):
    for number in range(12):
        ledger.admit("a", conversation="c", message=number)
    while work(ledger):
        pass
    assert served == list(range(12))


def test_an_input_that_meets_a_run_waits_for_it(ledger, world, served):
    with ledger.run("a", conversation="c") as run:
        admitted = ledger.admit("a", conversation="c", message="second")
        assert (admitted.state, admitted.cause) == ("deferred", "live_run")
        assert ready(world.worker()) == []
        assert run.inputs() == []
    assert ready(ledger) == [("a", "live_run")]
    work(ledger)
    assert served == ["second"]


def test_policies_count_for_inputs_that_are_taken_in(ledger):
    with ledger.run("a", conversation="c") as run:
        joined = ledger.admit("a", conversation="c", message="joins", while_running="absorb")
        assert (joined.state, joined.run_id) == ("absorbed", run.id)
        assert [read["message"] for read in run.inputs()] == ["joins"]
        with pytest.raises(AdmissionRejected):
            ledger.admit("a", conversation="c", message="refused", while_running="reject")
        assert ledger.admit("a", conversation="c", while_running="supersede").state == "deferred"
    assert run.terminal == "success"


def test_the_agent_of_an_input_is_whom_it_was_for(ledger):
    with (
        ledger.run("opener", conversation="c"),
        pytest.raises(RunBusy),
        ledger.run("other", conversation="c"),
    ):
        pass
    assert ready(ledger) == [("other", "live_run")]


def test_an_input_whose_run_before_it_was_left_is_started_all_the_same(ledger, world, served):
    vanish(ledger.run("a", conversation="c", message="left", dedupe="1"))
    ledger.admit("a", conversation="c", message="in line")
    assert ready(ledger) == []
    world.expire_leases()
    work(ledger)
    work(ledger)
    assert sorted(served) == ["in line", "left"]


def test_an_input_behind_a_run_that_waits_is_left_alone_where_the_policy_says_so(ledger, world, served):
    policy = {"while_suspended": "queue"}
    vanish(ledger.run("b", conversation="c", message="left", dedupe="1", **policy))
    world.expire_leases()
    with pytest.raises(RunBusy), ledger.run("a", conversation="c", message="two", dedupe="2"):
        pass
    (waiting,) = ledger.ready_inputs()
    assert waiting.why == "live_run"
    (started,) = work(ledger)
    assert (started.done, started.run_id) == ("busy", None)
    assert served == []


def test_imported_inputs_are_nobodys_to_run(ledger, tmp_path):
    transcript = write(tmp_path / "session.jsonl", pi_header(), pi_user("hi"), pi_assistant("hello"))
    import_file(LedgerImports(ledger), transcript)
    (imported,) = ledger.conversations()
    assert [e.type for e in ledger.events(imported.stream_id, types=["admission.accepted"])] != []
    assert ready(ledger) == []


# ---- until a time -----------------------------------------------------------------------------------------------------


def test_an_input_with_a_time_is_run_from_then_on(ledger, world, served):
    admitted = ledger.admit("a", conversation="c", message="later", dedupe="1", until=at(world, HOUR_MS))
    assert (admitted.state, admitted.cause, admitted.due_ms) == (
        "deferred",
        "until",
        world.clock.now_ms() + HOUR_MS,
    )
    with (
        pytest.raises(RunBusy, match="waits until") as busy,
        ledger.run("a", conversation="c", message="later", dedupe="1"),
    ):
        pass
    assert busy.value.fields["admission_id"] == admitted.admission_id
    with ledger.run("a", conversation="c", message="meanwhile"):
        pass
    world.clock.advance(HOUR_MS - 1)
    assert work(ledger) == []
    world.clock.advance(1)
    (started,) = work(ledger)
    assert (started.done, served) == ("ended", ["later"])
    until = time_text(admitted.due_ms)
    assert facts(ledger, "c", "admission.deferred") == [
        {"admission_id": admitted.admission_id, "cause": "until", "until": until}
    ]
    assert facts(ledger, "c", "admission.released") == [
        {"admission_id": admitted.admission_id, "cause": "until", "until": until}
    ]
    check_truth(ledger)


def test_a_time_that_has_passed_is_now(ledger, world, served):
    assert ledger.admit("a", conversation="c", until=at(world, -HOUR_MS)).state == "released"


def test_the_end_of_a_run_does_not_start_what_waits_for_a_time(ledger, world, served):
    with ledger.run("a", conversation="c"):
        ledger.admit("a", conversation="c", message="later", until=at(world, HOUR_MS))
        ledger.admit("a", conversation="c", message="next")
    while work(ledger):
        pass
    assert served == ["next"]
    world.clock.advance(HOUR_MS)
    while work(ledger):
        pass
    assert served == ["next", "later"]


@pytest.mark.parametrize("until", [datetime(2027, 1, 1), "2027-01-01", 1_800_000_000], ids=str)
def test_a_time_has_a_zone(ledger, until):
    with pytest.raises(InvalidForm):
        ledger.admit("a", conversation="c", until=until)
    assert ledger.conversations() == []


# ---- until a person -----------------------------------------------------------------------------------------------------


def test_a_person_has_an_input_wait_and_lets_it_in(ledger, world, served):
    admitted = ledger.admit("a", conversation="c", message="m", dedupe="1")
    for _ in range(2):
        assert ledger.defer(admitted.admission_id, by="Ines").cause == "operator"
    world.clock.advance(30 * 24 * HOUR_MS)
    assert work(ledger) == []
    with (
        pytest.raises(RunBusy, match="until a person"),
        ledger.run("a", conversation="c", message="m", dedupe="1"),
    ):
        pass
    for _ in range(2):
        assert ledger.let_in(admitted.admission_id, by="Ines").state == "released"
    work(ledger)
    assert served == ["m"]
    moved = [
        event for event in ledger.events("c") if event.type in ("admission.deferred", "admission.released")
    ]
    assert [event.header.raw["actor"]["type"] for event in moved[1:]] == ["human", "human"]
    assert "Ines" not in repr([event.header.raw for event in moved])
    check_truth(ledger)


def test_a_person_moves_an_input_to_another_time(ledger, world, served):
    admitted = ledger.admit("a", conversation="c", message="m", until=at(world, HOUR_MS))
    ledger.defer(admitted.admission_id, by="Ines", until=at(world, 2 * HOUR_MS))
    world.clock.advance(HOUR_MS)
    assert work(ledger) == []
    world.clock.advance(HOUR_MS)
    assert len(work(ledger)) == 1


def test_an_input_that_has_its_run_waits_no_more(ledger, served):
    admitted = ledger.admit("a", conversation="c", message="m")
    work(ledger)
    for move in (ledger.defer, ledger.let_in):
        with pytest.raises(AdmissionTaken) as taken:
            move(admitted.admission_id, by="Ines")
        assert taken.value.fields["state"] == "started"
        with pytest.raises(AdmissionNotFound):
            move("adm_01J9ZC3Y3V7W2R5T8QK4M6N0PK", by="Ines")
        with pytest.raises(InvalidForm):
            move(admitted.admission_id, by=" ")


def test_an_input_of_another_tenant_is_not_found(world):
    admitted = world.worker().admit("a", conversation="c")
    with pytest.raises(AdmissionNotFound):
        world.worker("other").defer(admitted.admission_id, by="Ines")
    assert list(world.worker("other").ready_inputs()) == []


def test_an_input_that_is_deferred_while_a_worker_reaches_for_it_is_not_started(
    ledger, world, served, monkeypatch
):
    with ledger.run("a", conversation="c", dedupe="0"):
        admitted = ledger.admit("a", conversation="c", message="m")
        other = world.worker()
        other.defer(admitted.admission_id, by="Ines", until=at(world, HOUR_MS))
    world.clock.advance(HOUR_MS)
    append = ledger.ports.append

    def late(unit, claim=None):
        if claim is not None:
            monkeypatch.undo()
            other.defer(admitted.admission_id, by="Ines")
        return append(unit, claim)

    monkeypatch.setattr(ledger.ports, "append", late)
    (started,) = work(ledger)
    assert (started.done, started.run_id, served) == ("busy", None, [])
    assert types_of(ledger, "c").count("run.started") == 1


# ---- workers ----------------------------------------------------------------------------------------------------------


def test_two_workers_start_an_input_once(ledger, world, served):
    for number in range(5):
        ledger.admit("a", conversation=f"c{number}", message=number)
    one, two = ledger.worker(), world.worker().worker()
    while one.look() or two.look():
        pass
    assert sorted(served) == list(range(5))


def test_a_worker_without_the_agent_leaves_its_inputs(ledger):
    ledger.admit("stranger", conversation="c")
    assert work(ledger) == []
    assert ready(ledger) == [("stranger", "operator")]


def test_an_agent_that_raises_ends_its_run_and_the_next_input_has_its_turn(ledger):
    @agent("a")
    def serve(run):
        if run.message == "bad":
            raise ValueError("Jane's words")

    ledger.admit("a", conversation="c", message="bad")
    ledger.admit("a", conversation="c", message="good")
    told = work(ledger) + work(ledger)
    assert [(each.terminal, each.error_class) for each in told] == [
        ("runtime_failure", "ValueError"),
        ("success", None),
    ]
    assert "Jane" not in repr(told)


def test_async_agents_and_tasks_have_the_same(ledger, world):
    messages = []

    @agent("a")
    async def serve(run):
        messages.append(run.message)

    async def admit():
        return await ledger.aadmit("a", conversation="c", message="m", until=at(world, HOUR_MS))

    assert asyncio.run(admit()).cause == "until"
    world.clock.advance(HOUR_MS + timedelta(seconds=1).seconds)
    assert [each.done for each in work(ledger)] == ["ended"]
    assert messages == ["m"]
