"""Artifacts and spilled values, stopped before and after every request: recorded once, readable, nothing dangling."""

from __future__ import annotations

import pytest

from counterfoil.artifacts import Artifact, keep
from counterfoil.effects import by_repeating, effect
from counterfoil.evidence.verify import verify
from counterfoil.testing import crash

LARGE = "x" * 300_000
FILE = b"%PDF" * 5_000


class Filed(crash.Scenario):
    """A file streams in, a tool reads it and keeps another, and a large value spills."""

    def prepare(self, world):
        @effect("file.copy", version="1", touches=set(), doubt=by_repeating())
        def copy(document: Artifact):
            return keep(document.pieces(), name="copy")

        self.copy = copy

    def work(self, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            kept = run.artifact(iter([FILE]), name="letter.pdf")
            copied = self.copy(kept)
            text = run.step("large", lambda: LARGE)
            run.finish({"copied": copied, "length": len(text)})
        return run.output

    def check(self, world, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            assert run.done
            assert run.output["copied"].read() == FILE
        events = list(ledger.events("case"))
        names = [event.content.get("name") for event in events if event.type == "artifact.stored"]
        # A tool that touches nothing is called again after a crash, in a step of its own, and may keep its copy again.
        assert names.count("letter.pdf") == 1
        assert 1 <= names.count("copy") <= 2
        assert [event.type for event in events].count("artifact.spilled") == 1
        (large,) = [event for event in events if event.type == "step.finished"]
        assert large.content["result"] == LARGE
        report = verify(
            ledger.store, ledger.keyring, artifacts=ledger.artifacts.store, registry=ledger.registry
        )
        assert (report.exit_code, report.kinds) == (0, {})


class FiledByTasks(Filed):
    """The same in tasks, where files are read and written in threads."""

    async def work(self, ledger):
        async with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            kept = await run.aartifact(iter([FILE]), name="letter.pdf")
            copied = await self.copy.acall(kept)
            text = await run.astep("large", lambda: LARGE)
            run.finish({"copied": copied, "length": len(text)})
        return run.output


@pytest.mark.parametrize("scenario", [Filed, FiledByTasks])
def test_wherever_it_stops_everything_is_kept_once_and_can_be_read(scenario):
    tried = crash.run_matrix(scenario)
    assert any("artifact.stored" in point.what for point in tried.points)
    assert any("putartifact" in point.what for point in tried.points)


def test_the_same_holds_on_disk(tmp_path):
    assert crash.run_matrix(Filed, directory=tmp_path, choose=lambda points: points[::5])
