"""State, inputs that wait, schedules and sleeps, stopped before and after every request: each change is made once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from counterfoil.errors import AdmissionAbsorbed, RunBusy, RunWaiting
from counterfoil.runtime.agents import agent, own_agents
from counterfoil.testing import crash
from counterfoil.testing.truth import check_truth

MINUTE_MS = 60_000


@pytest.fixture(autouse=True)
def _own():
    with own_agents():
        yield


def moment(ledger, after_ms=0):
    return datetime.fromtimestamp((ledger.ports.now_ms() + after_ms) / 1000, UTC)


def types(ledger, *wanted):
    return [event.type for event in ledger.events("case", types=wanted)]


def work_off(ledger):
    """What a worker does until nothing is left to do."""
    worker = ledger.worker()
    while worker.look():
        pass


class Slots(crash.Scenario):
    """Slots set, set on top, cleared, read; notes beside them."""

    def prepare(self, world):
        with world.open().run("a", conversation="case") as run:
            run.state["old"] = 1

    def work(self, ledger):
        with ledger.run("a", conversation="case", message="m", dedupe="m1") as run:
            run.state["count"] = run.state["old"] + 1
            run.compact(from_sequence=1, to_sequence=3, summary="s")
            run.state["count"] += 1
            run.checkpoint_draft("draft", chunks=1)
            run.probe()
            del run.state["old"]
            run.finish([run.state.get("old"), run.state["count"], run.state.version("count")])

    def check(self, world, ledger):
        (finished,) = ledger.events("case", types=["run.finished"], after=6)
        assert finished.content["output"] == [None, 3, 2]
        assert {slot.name: (slot.version, slot.value) for slot in ledger.slots("case")} == {"count": (2, 3)}
        assert types(ledger, "state.set", "state.cleared") == ["state.set"] * 3 + ["state.cleared"]
        notes = ("compaction.recorded", "draft.checkpointed", "sandbox.probed")
        assert types(ledger, *notes) == list(notes)
        check_truth(ledger)


class AsyncSlots(Slots):
    """The same from a task."""

    async def work(self, ledger):
        async with ledger.run("a", conversation="case", message="m", dedupe="m1") as run:
            await run.state.aset("count", await run.state.aget("old") + 1)
            await run.acompact(from_sequence=1, to_sequence=3, summary="s")
            await run.state.aset("count", await run.state.aget("count") + 1)
            await run.acheckpoint_draft("draft", chunks=1)
            await run.aprobe()
            await run.state.aclear("old")
            last = [await run.state.aget("old"), await run.state.aget("count")]
            run.finish([*last, await run.state.aversion("count")])


class Inputs(crash.Scenario):
    """An input is taken in, held by a person and let in; a worker runs it."""

    def prepare(self, world):
        self.served = []

        @agent("a")
        def serve(run):
            self.served.append(run.message)

    def work(self, ledger):
        admitted = ledger.admit("a", conversation="case", message="m", dedupe="m1")
        if admitted.state in ("deferred", "released"):
            ledger.defer(admitted.admission_id, by="Ines")
            ledger.let_in(admitted.admission_id, by="Ines")
        work_off(ledger)

    def check(self, world, ledger):
        assert types(ledger, "admission.accepted", "run.finished") == ["admission.accepted", "run.finished"]
        assert set(self.served) == {"m"}
        assert list(ledger.ready_inputs()) == []
        check_truth(ledger)


class Schedule(crash.Scenario):
    """A schedule that is due three times, of which each is fired; then it is cancelled."""

    def prepare(self, world):
        @agent("a")
        def serve(run):
            run.finish(run.message)

        self.first_ms = world.open().ports.now_ms()

    def work(self, ledger):
        at = datetime.fromtimestamp(self.first_ms / 1000, UTC)
        made = ledger.schedule(
            "a", conversation="case", message="tick", at=at, key="k", every_s=60, missed="all"
        )
        if made.state == "active":
            for _ in range(3 - len(types(ledger, "schedule.fired"))):
                for _fired in ledger.fire_due():
                    pass
                if ledger.ports.now_ms() - self.first_ms < 2 * MINUTE_MS:
                    ledger.ports.sleep(60)
            ledger.cancel_schedule(made.schedule_id, by="Ines")
        work_off(ledger)

    def check(self, world, ledger):
        fired = [event.data["due_at"] for event in ledger.events("case", types=["schedule.fired"])]
        assert len(set(fired)) == len(fired) >= 1
        accepted = [e.content["dedupe"] for e in ledger.events("case", types=["admission.accepted"])]
        assert [key.partition(":")[2] for key in accepted] == fired
        assert len(types(ledger, "run.finished")) == len(fired)
        assert types(ledger, "schedule.created", "schedule.cancelled") == [
            "schedule.created",
            "schedule.cancelled",
        ]
        check_truth(ledger)


class Sleep(crash.Scenario):
    """A run that sleeps a moment in place, and then for an hour."""

    def prepare(self, world):
        self.ran = []

    def work(self, ledger):
        def code(run):
            run.sleep(1)
            run.sleep(3_600)
            run.finish(run.step("after", lambda: self.ran.append(1)))

        def enter():
            with ledger.run("a", conversation="case", message="m", dedupe="m1") as run:
                if not run.done:
                    code(run)

        try:
            enter()
        except RunWaiting:
            ledger.ports.sleep(3_600)
            enter()

    def check(self, world, ledger):
        assert (
            types(ledger, "schedule.created", "schedule.fired") == ["schedule.created", "schedule.fired"] * 2
        )
        assert 1 <= len(self.ran) <= 2
        assert [row["terminal"] for row in ledger.runs("case")] == ["success"]
        check_truth(ledger)


class Absorb(crash.Scenario):
    """A run takes over one that sleeps, and reads its input."""

    def prepare(self, world):
        block = world.open().run("a", conversation="case", message="one", dedupe="m1")
        with pytest.raises(RunWaiting), block as run:
            run.sleep(10**8)
        self.sleeper = run.id

    def work(self, ledger):
        with ledger.run("a", conversation="case", message="two", dedupe="m2") as run:
            run.absorb(self.sleeper)
            run.finish([read["message"] for read in run.inputs()])

    def check(self, world, ledger):
        assert {row["terminal"] for row in ledger.runs("case")} == {"absorbed", "success"}
        (finished,) = [
            e for e in ledger.events("case", types=["run.finished"]) if e.header.run_id != self.sleeper
        ]
        assert finished.content["output"] == ["one"]
        with (
            pytest.raises((AdmissionAbsorbed, RunBusy)),
            ledger.run("a", conversation="case", message="one", dedupe="m1"),
        ):
            pass
        check_truth(ledger)


SCENARIOS = {Slots: 1, AsyncSlots: 3, Inputs: 1, Schedule: 3, Sleep: 2, Absorb: 1}
"""Each with the step by which its points are tried: what is tried elsewhere too need not be tried everywhere here."""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_change_is_made_once_wherever_a_worker_dies(scenario):
    step = SCENARIOS[scenario]
    assert len(crash.run_matrix(scenario, choose=lambda points: points[::step])) > 10


@pytest.mark.parametrize("scenario", [Slots, Schedule])
def test_each_change_is_made_once_on_disk_too(scenario, tmp_path):
    """A few points: the engine is another, the flows are the same."""
    matrix = crash.run_matrix(
        scenario, directory=tmp_path / "ledger", choose=lambda points: points[:: len(points) // 8]
    )
    assert len(matrix) >= 8
