"""Children, stopped before and after every request: spawned once, settled once, and a stop that broke off is finished."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace

import pytest

from counterfoil.errors import ChildFailed, RunBusy, RunClosed, RunWaiting
from counterfoil.runtime.agents import agent, own_agents
from counterfoil.testing import crash
from counterfoil.testing.hosts import ManualHost

CASE = "family"


@pytest.fixture(autouse=True)
def _nobody_is_waited_for(monkeypatch):
    """No process is beside these: whoever polls for a child that was told to end polls in vain, all its patience long."""
    monkeypatch.setattr(
        import_module("counterfoil.flow.drive"), "time", SimpleNamespace(sleep=lambda _: None)
    )


class Scene(crash.Scenario):
    """A parent and the children that its host was told to start; each is carried out by whoever comes by."""

    def prepare(self, world):
        self.host = ManualHost()
        self.done: list[str] = []

    def open(self, ledger):
        ledger.child_host = self.host
        return ledger

    def carry_out(self, ledger) -> None:
        """The children that are on record and not over, one after the other."""
        for child in ledger.children():
            if child.state in ("spawned", "running", "suspended"):
                with suppress(RunBusy, RunClosed), ledger.run("kid", resume=child.link.run_id) as run:
                    if not run.done:
                        run.finish(run.step("work", self.work_of, run.message))

    def work_of(self, message):
        self.done.append(message)
        return f"did {message}"


class Waited(Scene):
    """Two children are spawned, carried out, and waited for."""

    def work(self, ledger):
        self.open(ledger)
        with suppress(RunWaiting), ledger.run("parent", conversation=CASE, dedupe="m1") as run:
            links = [run.spawn("kid", name) for name in ("first", "second")]
            self.carry_out(ledger)
            run.finish([run.wait(link) for link in links])

    def check(self, world, ledger):
        self.open(ledger)
        (parent,) = ledger.runs(CASE)
        assert parent["terminal"] == "success"
        assert [child.state for child in ledger.children(CASE)] == ["settled", "settled"]
        assert len(list(ledger.events(CASE, types=["child.started"]))) == 2
        assert len(list(ledger.events(CASE, types=["child.settled"]))) == 2
        (finished,) = ledger.events(CASE, types=["run.finished"])
        assert finished.content["output"] == ["did first", "did second"]
        assert len(ledger.conversations()) == 3


class Stopped(Scene):
    """A parent is cancelled above a child that waits, one that nobody has begun, and a grandchild."""

    def work(self, ledger):
        self.open(ledger)
        parent = ledger.run("parent", conversation=CASE, dedupe="m1")
        with suppress(asyncio.CancelledError, RunClosed), parent as run:
            link = run.spawn("kid", "first")
            ended = (RunWaiting, RunClosed, ChildFailed)
            with suppress(*ended), ledger.run("kid", resume=link.run_id) as child:
                child.wait(child.spawn("kid", "below"))
            run.spawn("kid", "second")
            raise asyncio.CancelledError

    def recover(self, ledger):
        self.open(ledger).recover()

    def check(self, world, ledger):
        self.open(ledger)
        ledger.recover()
        assert ledger.recover().children == []
        (parent,) = ledger.runs(CASE)
        assert parent["terminal"] == "cancelled"
        assert [child.state for child in ledger.children()] == ["stopped"] * 3
        assert {child.parent_terminal for child in ledger.children()} == {"cancelled"}
        for stream in (CASE, *(child.link.stream_id for child in ledger.children())):
            settled = [e.data["child_stream_id"] for e in ledger.events(stream, types=["child.settled"])]
            assert len(settled) == len(set(settled))
        assert self.done == []


class Tasks(Waited):
    """As waited for, by tasks."""

    async def work(self, ledger):  # type: ignore[override]  # a coroutine function, as a scenario may have
        self.open(ledger)
        with suppress(RunWaiting, ChildFailed):
            async with ledger.run("parent", conversation=CASE, dedupe="m1") as run:
                links = [await run.aspawn("kid", name) for name in ("first", "second")]
                await asyncio.to_thread(self.carry_out, ledger)
                run.finish([await run.await_(link) for link in links])


@pytest.mark.parametrize("kind", [Waited, Stopped, Tasks])
def test_wherever_it_stops_a_family_comes_to_one_end(kind):
    with own_agents():
        agent("kid")(lambda run: None)
        # What threads and tasks have in common is tried with the first; of the others a part shows what differs.
        matrix = crash.run_matrix(kind, choose=lambda points: points[:: 3 if kind is Tasks else 1])
    tried = {point.what for point in matrix.points}
    if kind is Tasks:
        return
    assert "append child.started, conversation.opened, admission.accepted" in tried
    wanted = {
        Waited: "append run.finished, child.settled",
        Stopped: "append admission.rejected, child.settled",
    }
    assert wanted[kind] in tried


def test_wherever_it_stops_on_disk_a_stop_is_finished(tmp_path):
    def some(points):
        about = [point for point in points if "child." in point.what or "cancel" in point.what]
        return about[:: max(1, len(about) // 12)]

    with own_agents():
        matrix = crash.run_matrix(Stopped, directory=tmp_path, choose=some)
    assert len(matrix) > 0
