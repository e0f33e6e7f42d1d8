"""Every policy for inputs, against every way in which the run before it ends: what becomes of the second input.

DESIGN 6: two policies, three states of a run, 14 terminals, each of which is reached here.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

import counterfoil
from counterfoil.core.event_types import TERMINALS
from counterfoil.effects.registry import own_tools
from counterfoil.errors import (
    AdmissionAbsorbed,
    AdmissionRejected,
    GuardFailed,
    LeaseLost,
    ModelFailed,
    RunBusy,
    RunStopped,
    RunWaiting,
)
from counterfoil.testing.truth import check_truth
from tests.running import World, facts

FIRST = {"conversation": "c", "message": "one", "dedupe": "1"}
SECOND = {"conversation": "c", "message": "two", "dedupe": "2"}


@pytest.fixture
def world():
    with own_tools():
        world = World()
        yield world
        check_truth(world.worker())


@pytest.fixture
def ledger(world):
    return world.worker()


def raising(error):
    def end(world, run):
        raise error

    return end


def finishing(terminal):
    return lambda world, run: run.finish(terminal=terminal)


def fail_to_answer(world, run):
    def model(request):
        raise ConnectionError

    run.ask(model, "q")


def cancelling(world, run):
    run.cancel()
    run.step("s", lambda: None)


def run_out_of_time(world, run):
    world.clock.advance(3_600_000)
    run.step("s", lambda: None)


def be_superseded(world, run):
    other = world.worker().run("a", conversation="c", message="newer", while_running="supersede")
    with other:
        pass


ENDS = {
    "success": lambda world, run: None,
    "policy_stop": finishing("policy_stop"),
    "provider_stop": finishing("provider_stop"),
    "output_rejected": finishing("output_rejected"),
    "context_overflow": finishing("context_overflow"),
    "interrupted": raising(KeyboardInterrupt()),
    "shutdown": raising(SystemExit(0)),
    "cancelled": cancelling,
    "timeout": run_out_of_time,
    "provider_failure": fail_to_answer,
    "runtime_failure": raising(ValueError("a bug")),
    "storage_conflict": raising(GuardFailed("the world moved")),
    "superseded": be_superseded,
}
"""How a run that holds the slot ends, by terminal. One that waits may also be ``absorbed``, below."""

LEAVES = (
    KeyboardInterrupt,
    SystemExit,
    RunStopped,
    TimeoutError,
    ModelFailed,
    ValueError,
    GuardFailed,
    LeaseLost,
)


def end(world, ledger, terminal, during=lambda run: None, **first):
    """The first run, which ends in this way after something happened ``during`` it; its id."""
    settings = {**FIRST, **first} | ({"deadline_s": 60} if terminal == "timeout" else {})
    with suppress(*LEAVES), ledger.run("a", **settings) as run:
        during(run)
        ENDS[terminal](world, run)
    return run.id


def standing(ledger, number):
    """State of an input, by the order in which the conversation took them in."""
    taken = ("admission.accepted", "admission.rejected")
    ids = [event.data["admission_id"] for event in ledger.events("c", types=taken)]
    return ledger.store.get("admissions", (ids[number],))["state"]


def terminal_of(ledger, run_id):
    return ledger.run_row(run_id)["terminal"]


def send(ledger, **policy):
    with ledger.run("a", **SECOND, **policy):
        pass


def test_every_terminal_is_in_the_table():
    assert {*ENDS, "absorbed"} == set(TERMINALS)
    assert len(TERMINALS) == 14


# ---- while a run is under way -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", ENDS)
def test_an_input_in_line_has_its_turn_however_the_run_before_it_ends(world, ledger, terminal):
    def during(run):
        with pytest.raises(RunBusy) as busy:
            send(world.worker(), while_running="queue")
        assert busy.value.fields["deferred"]
        assert standing(ledger, 1) == "deferred"

    run_id = end(world, ledger, terminal, during)
    assert terminal_of(ledger, run_id) == terminal
    assert standing(ledger, 1) == "released"
    send(ledger)
    assert standing(ledger, 1) == "started"


@pytest.mark.parametrize("terminal", ENDS)
def test_an_input_that_joined_and_was_read_is_done_with_however_the_run_ends(world, ledger, terminal):
    def during(run):
        with pytest.raises(AdmissionAbsorbed):
            send(world.worker(), while_running="absorb")
        assert [read["message"] for read in run.inputs()] == ["two"]

    run_id = end(world, ledger, terminal, during)
    assert (terminal_of(ledger, run_id), standing(ledger, 1)) == (terminal, "absorbed")
    with pytest.raises(AdmissionAbsorbed):
        send(ledger)


@pytest.mark.parametrize("terminal", [name for name in ENDS if name != "superseded"])
def test_an_input_that_joined_and_was_never_read_gets_a_run_of_its_own(world, ledger, terminal):
    def during(run):
        with pytest.raises(AdmissionAbsorbed):
            send(world.worker(), while_running="absorb")

    run_id = end(world, ledger, terminal, during)
    assert (terminal_of(ledger, run_id), standing(ledger, 1)) == (terminal, "released")
    send(ledger)
    assert standing(ledger, 1) == "started"


@pytest.mark.parametrize("terminal", ENDS)
def test_a_refused_input_stays_refused_however_the_run_ends(world, ledger, terminal):
    def during(run):
        with pytest.raises(AdmissionRejected):
            send(world.worker(), while_running="reject")

    run_id = end(world, ledger, terminal, during)
    assert (terminal_of(ledger, run_id), standing(ledger, 1)) == (terminal, "rejected")


def test_an_input_that_takes_the_place_of_a_run_ends_it_and_its_worker_is_told(world, ledger):
    with pytest.raises(LeaseLost), ledger.run("a", **FIRST) as run:
        send(world.worker(), while_running="supersede")
        run.step("s", lambda: pytest.fail("a superseded run went on"))
    assert terminal_of(ledger, run.id) == "superseded"
    assert (standing(ledger, 0), standing(ledger, 1)) == ("superseded", "started")


# ---- while a run waits ------------------------------------------------------------------------------------------------


def lost():
    @counterfoil.effect("pay", version="1", touches={"money"}, doubt=counterfoil.by_review())
    def pay(order: str):
        raise ConnectionError("the answer was lost")

    return pay


@pytest.fixture
def waiting(ledger):
    """A run that waits for a person; settling ends the wait."""
    pay = lost()
    with pytest.raises(RunWaiting), ledger.run("a", **FIRST) as run:
        pay("O-1")
    return run.id


def settle(ledger):
    (review,) = ledger.reviews()
    ledger.settle(review["review_id"], "succeeded", by="Ines", reason="seen", result=1)


@pytest.mark.parametrize("terminal", ENDS)
def test_an_input_behind_a_run_that_waits_has_its_turn_however_that_run_ends(
    world, ledger, waiting, terminal
):
    with pytest.raises(RunBusy):
        send(ledger, while_suspended="queue")
    assert standing(ledger, 1) == "deferred"
    assert facts(ledger, "c", "admission.deferred")[0]["cause"] == "approval"
    settle(ledger)
    assert end(world, ledger, terminal) == waiting
    assert (terminal_of(ledger, waiting), standing(ledger, 1)) == (terminal, "released")
    send(ledger)
    assert standing(ledger, 1) == "started"


@pytest.mark.parametrize("terminal", ENDS)
def test_an_input_beside_a_run_that_waits_has_its_own_and_changes_nothing_of_it(
    world, ledger, waiting, terminal
):
    send(ledger, while_suspended="start")
    assert standing(ledger, 1) == "started"
    assert ledger.run_row(waiting)["state"] == "suspended"
    settle(ledger)
    assert end(world, ledger, terminal) == waiting
    assert terminal_of(ledger, waiting) == terminal


@pytest.mark.parametrize("terminal", ENDS)
def test_an_input_refused_because_a_run_waits_stays_refused(world, ledger, waiting, terminal):
    with pytest.raises(AdmissionRejected):
        send(ledger, while_suspended="reject")
    settle(ledger)
    assert end(world, ledger, terminal) == waiting
    assert (terminal_of(ledger, waiting), standing(ledger, 1)) == (terminal, "rejected")


# ---- absorbed: the one terminal that another run decides --------------------------------------------------------------


def test_a_run_that_waits_is_absorbed_by_the_next_which_reads_its_input(world, ledger, waiting):
    with ledger.run("a", **SECOND) as run:
        admission_id = run.absorb(waiting)
        assert run.inputs() == [{"admission_id": admission_id, "message": "one"}]
    assert terminal_of(ledger, waiting) == "absorbed"
    assert standing(ledger, 0) == "absorbed"
    with pytest.raises(AdmissionAbsorbed), ledger.run("a", **FIRST):
        pass
    # The run ended; its doubt did not.
    assert [row["state"] for row in ledger.effects()] == ["in_review"]


def test_a_run_is_absorbed_once_however_often_the_code_runs(world, ledger, waiting):
    read = []
    for leave in (True, False):
        with suppress(counterfoil.errors.StoreBusy), ledger.run("a", **SECOND) as run:
            run.absorb(waiting)
            read.append(run.inputs())
            if leave:
                raise counterfoil.errors.StoreBusy("the disk is busy")
    assert read[0] == read[1] != []
    assert len(facts(ledger, "c", "admission.absorbed")) == 1


def test_an_absorbed_input_that_nobody_read_gets_a_run_of_its_own(world, ledger, waiting):
    with ledger.run("a", **SECOND) as run:
        run.absorb(waiting)
    assert standing(ledger, 0) == "released"
    with ledger.run("a", **FIRST) as fresh:
        assert fresh.id != waiting
        assert fresh.message == "one"


def test_only_a_run_of_the_conversation_that_waits_is_absorbed(world, ledger, waiting):
    with ledger.run("a", conversation="other", message="x") as other:
        pass
    with ledger.run("a", **SECOND) as run:
        for wrong in (run.id, other.id, "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR"):
            with pytest.raises(counterfoil.errors.RunNotFound):
                run.absorb(wrong)
    with (
        ledger.run("a", conversation="c", message="three") as third,
        pytest.raises(counterfoil.errors.NotWaiting),
    ):
        third.absorb(run.id)


# ---- take-over --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [name for name in ENDS if name != "superseded"])
def test_a_run_that_was_taken_over_ends_in_any_way_and_its_first_worker_in_none(world, ledger, terminal):
    with pytest.raises(LeaseLost), ledger.run("a", **FIRST) as stale:
        stale.step("s", lambda: 1)
        world.expire_leases()
        taken = end(world, world.worker(), terminal, lambda run: run.step("s", lambda: pytest.fail("again")))
        stale.step("t", lambda: pytest.fail("a stale worker went on"))
    assert taken == stale.id
    assert terminal_of(ledger, taken) == terminal
    assert [fact["cause"] for fact in facts(ledger, "c", "run.claimed")] == ["takeover"]
