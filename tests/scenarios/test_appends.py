"""One append for each successful change of the runtime (ADR 0175): the table of what is done, and what it costs.

A model call is the exception, with two for each attempt, and is counted where it is tested.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import AdmissionAbsorbed, AdmissionRejected, RunBusy, RunWaiting
from counterfoil.runtime.agents import own_agents
from tests.running import World


class Counted:
    """A ledger whose appends are counted, by the types of their events."""

    def __init__(self):
        self.world = World()
        self.ledger = self.world.worker()
        self.appends = []
        append = self.ledger.ports.append

        def counted(unit, claim=None):
            answer = append(unit, claim)
            self.appends.append([draft.event_type for entry in unit.entries for draft in entry.drafts])
            return answer

        self.ledger.ports.append = counted

    def of(self, change):
        """The appends that this change makes."""
        before = len(self.appends)
        change()
        return self.appends[before:]


@pytest.fixture
def counted():
    with own_tools(), own_agents():
        yield Counted()


IN_A_RUN = {
    "set a slot": (lambda run: run.state.set("n", 1), ["state.set"]),
    "clear a slot": (lambda run: run.state.clear("old"), ["state.cleared"]),
    "read a slot": (lambda run: run.state.get("old"), None),
    "compact": (
        lambda run: run.compact(from_sequence=1, to_sequence=3, summary="s"),
        ["compaction.recorded"],
    ),
    "checkpoint a draft": (lambda run: run.checkpoint_draft("d", chunks=1), ["draft.checkpointed"]),
    "probe a sandbox": (lambda run: run.probe(), ["sandbox.probed"]),
    "record a fact": (lambda run: run.record("n.seen", {"n": 1}, ignorable=True), ["n.seen"]),
    "list the slots": (lambda run: run.state.names(), None),
}


@pytest.mark.parametrize("change", IN_A_RUN)
def test_a_change_in_a_run_is_one_append(counted, change):
    do, types = IN_A_RUN[change]
    with counted.ledger.run("a", conversation="c") as run:
        run.state.set("old", 0)
        assert counted.of(lambda: do(run)) == ([] if types is None else [types])


def test_a_step_is_one_append_before_and_one_behind_the_code(counted):
    with counted.ledger.run("a", conversation="c") as run:
        appends = counted.of(lambda: run.step("s", lambda: 1))
    assert appends == [["step.started"], ["step.finished"]]


def run(ledger, **how):
    with ledger.run("a", **{"conversation": "c", **how}):
        pass


def test_entering_and_leaving_a_run_are_one_append_each(counted):
    assert counted.of(lambda: run(counted.ledger)) == [
        ["conversation.opened", "admission.accepted", "run.started"],
        ["run.finished"],
    ]
    assert counted.of(lambda: run(counted.ledger, dedupe="1")) == [
        ["admission.accepted", "run.started"],
        ["run.finished"],
    ]
    assert counted.of(lambda: run(counted.ledger, dedupe="1")) == []  # it had ended: its record is handed out


@pytest.mark.parametrize(
    "policy, told, types",
    [
        ("queue", RunBusy, ["admission.accepted", "admission.deferred"]),
        ("absorb", AdmissionAbsorbed, ["admission.accepted", "admission.absorbed"]),
        ("reject", AdmissionRejected, ["admission.rejected"]),
    ],
)
def test_an_input_that_gets_no_run_is_one_append(counted, policy, told, types):
    def send():
        with pytest.raises(told):
            run(counted.ledger, while_running=policy)

    with counted.ledger.run("a", conversation="c"):
        assert counted.of(send) == [types]


def test_taking_a_place_is_one_append(counted):
    with pytest.raises(counterfoil.errors.LeaseLost), counted.ledger.run("a", conversation="c") as old:
        with counted.ledger.run("a", conversation="c", while_running="supersede"):
            pass
        old.step("s", lambda: 1)
    assert counted.appends[1] == [
        "admission.accepted",
        "admission.superseded",
        "run.finished",
        "run.started",
    ]


def test_waiting_and_going_on_are_one_append_each(counted):
    def wait():
        with pytest.raises(RunWaiting), counted.ledger.run("a", conversation="c", dedupe="1") as sleeper:
            sleeper.sleep(3_600)

    assert counted.of(wait)[1:] == [["schedule.created"], ["run.suspended"]]
    assert counted.of(wait) == []  # its time has not come
    counted.world.clock.advance(3_600_000)

    def go_on():
        with counted.ledger.run("a", conversation="c", dedupe="1") as sleeper:
            sleeper.sleep(3_600)

    assert counted.of(go_on) == [["run.claimed", "run.resumed"], ["schedule.fired"], ["run.finished"]]


def test_taking_over_a_run_that_waits_is_one_append(counted):
    with pytest.raises(RunWaiting), counted.ledger.run("a", conversation="c", dedupe="1") as sleeper:
        sleeper.sleep(3_600)
    with counted.ledger.run("a", conversation="c") as other:
        assert counted.of(lambda: other.absorb(sleeper.id)) == [["admission.absorbed", "run.finished"]]


def test_inputs_and_schedules_are_one_append_for_each_change(counted):
    ledger = counted.ledger
    run(ledger)
    now = datetime.fromtimestamp(counted.world.clock.now_ms() / 1000, UTC)
    admitted = []
    assert counted.of(lambda: admitted.append(ledger.admit("a", conversation="c"))) == [
        ["admission.accepted", "admission.released"]
    ]
    admission_id = admitted[0].admission_id
    assert counted.of(lambda: ledger.defer(admission_id, by="Ines")) == [["admission.deferred"]]
    assert counted.of(lambda: ledger.defer(admission_id, by="Ines")) == []
    assert counted.of(lambda: ledger.let_in(admission_id, by="Ines")) == [["admission.released"]]
    made = []
    assert counted.of(lambda: made.append(ledger.schedule("a", conversation="c", at=now, every_s=60))) == [
        ["schedule.created"]
    ]
    assert counted.of(lambda: list(ledger.fire_due())) == [
        ["schedule.fired", "admission.accepted", "admission.released"]
    ]
    assert counted.of(lambda: ledger.cancel_schedule(made[0].schedule_id, by="Ines")) == [
        ["schedule.cancelled"]
    ]
