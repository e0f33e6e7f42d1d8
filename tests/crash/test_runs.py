"""Runs without effects, stopped before and after every request: entering, steps, facts, waiting in line, ending."""

from __future__ import annotations

import pytest

from counterfoil.errors import RunBusy
from counterfoil.runtime import rows
from counterfoil.runtime.state import Conversation, evolve
from counterfoil.testing import crash


def folded(ledger, conversation):
    """The conversation as its headers tell it; its rows must say the same (DESIGN 2.7)."""
    state = Conversation()
    for event in ledger.events(conversation):
        state = evolve(state, event.type, event.data, event.header.run_id)
    assert dict(state.runs) == {row["run_id"]: rows.run_of_row(row) for row in ledger.runs(conversation)}
    return state


class Steps(crash.Scenario):
    """Two steps, a fact and an output; the second step stands inside the first."""

    def prepare(self, world):
        self.ran = []

    def outer(self, run):
        self.ran.append("outer")
        return [run.step("inner", self.inner), "outer"]

    def inner(self):
        self.ran.append("inner")
        return "inner"

    def work(self, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            run.record("order.seen", {"order": "O-1"}, ignorable=True)
            run.finish(run.step("outer", lambda: self.outer(run)))

    def check(self, world, ledger):
        state = folded(ledger, "case")
        (run,) = state.runs.values()
        assert (run.state, run.terminal) == ("finished", "success")
        events = list(ledger.events("case"))
        assert [event.type for event in events].count("order.seen") == 1
        ended = [event.data["name"] for event in events if event.type == "step.finished"]
        assert sorted(ended) == ["inner", "outer"]
        (finished,) = (event for event in events if event.type == "run.finished")
        assert finished.content["output"] == ["inner", "outer"]
        assert finished.data["steps"] == 2
        # A step whose end was not recorded runs again, one whose end was does not: once more for each crash, at most.
        assert self.ran.count("inner") <= 2
        attempts = [event.header.attempt for event in events if event.type == "step.started"]
        assert max(attempts) <= 2


class AsyncSteps(Steps):
    """The same from a task."""

    async def aouter(self, run):
        self.ran.append("outer")
        return [await run.astep("inner", self.inner), "outer"]

    async def work(self, ledger):
        async with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            await run.arecord("order.seen", {"order": "O-1"}, ignorable=True)
            run.finish(await run.astep("outer", lambda_of(self, run)))


def lambda_of(scenario, run):
    async def outer():
        return await scenario.aouter(run)

    return outer


class InLine(crash.Scenario):
    """Three inputs for one conversation, of which one waits and one joins; then each is asked for again."""

    def prepare(self, world):
        self.heard = []

    def work(self, ledger):
        from counterfoil.errors import AdmissionAbsorbed

        with ledger.run("agent", conversation="case", message="first", dedupe="m1") as run:
            if not run.done:
                for policy, told in (("queue", RunBusy), ("absorb", AdmissionAbsorbed)):
                    with pytest.raises(told):
                        ledger.run(
                            "agent", conversation="case", message=policy, dedupe=policy, while_running=policy
                        ).__enter__()
            heard = [item["message"] for item in run.inputs()]
            run.finish(heard)
        with ledger.run("agent", conversation="case", message="queue", dedupe="queue") as run:
            run.finish("answered")

    def check(self, world, ledger):
        state = folded(ledger, "case")
        assert {run.terminal for run in state.runs.values()} == {"success"}
        assert len(state.runs) == 2
        assert sorted(admission.state for admission in state.admissions.values()) == [
            "absorbed",
            "started",
            "started",
        ]
        outputs = [event.content["output"] for event in ledger.events("case", types=["run.finished"])]
        assert outputs == [["absorb"], "answered"]


@pytest.mark.parametrize("kind", [Steps, AsyncSteps, InLine])
def test_wherever_a_run_stops_it_goes_on_to_the_same_end(kind):
    matrix = crash.run_matrix(kind)
    tried = {point.what for point in matrix.points}
    assert any("with a claim" in what for what in tried)
    assert any("run.finished" in what for what in tried)


def test_it_is_the_same_on_disk(tmp_path):
    def appends(points):
        return [point for point in points if point.what.startswith("append")]

    crash.run_matrix(Steps, directory=tmp_path, choose=appends)
