"""Artifacts and spilled values, stopped before and after every request: recorded once, readable, nothing dangling."""

from __future__ import annotations

import pytest

from counterfoil.access import RoleAuthorizer
from counterfoil.artifacts import Artifact, keep
from counterfoil.effects import by_key, by_repeating, effect
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


class LargeInputs(crash.Scenario):
    """A large message is admitted, a tool is called with large arguments once, under an authorizer that is asked."""

    def prepare(self, world):
        self.sent = []

        @effect(
            "letter.send",
            version="1",
            touches={"messages"},
            doubt=by_key(),
            key=lambda to, **_: f"letter:{to}",
        )
        def send(to: str, text: str, *, idempotency_key: str = ""):
            self.sent.append((idempotency_key, len(text)))
            return "sent"

        self.send = send

    def work(self, ledger):
        ledger.authorizer = RoleAuthorizer({"ann": ["auditor"]})
        with ledger.run("agent", conversation="case", message=LARGE, dedupe="m1", principal="ann") as run:
            run.finish(self.send(to="ann", text=run.message))
        return run.output

    def check(self, world, ledger):
        # The provider tells the same key apart, so that what was in doubt may be sent again.
        assert set(self.sent) == {("letter:ann", len(LARGE))}
        ledger.authorizer = RoleAuthorizer({"ann": ["auditor"]})
        with ledger.reading("case", actor="ann", purpose="a look") as reader:
            events = {event.type: event for event in reader.events()}
            assert events["admission.accepted"].content["message"] == LARGE
            assert events["effect.intended"].content["arguments"] == {"to": "ann", "text": LARGE}
            told = [event.data for event in reader.events(types=["artifact.spilled"])]
        assert {data.get("permission") for data in told} <= {None, "letter.send"}
        assert {data["principal"] for data in told if "permission" in data} == {told[-1]["principal"]}
        report = verify(
            ledger.store, ledger.keyring, artifacts=ledger.artifacts.store, registry=ledger.registry
        )
        assert (report.exit_code, report.kinds) == (0, {})


def test_wherever_it_stops_large_inputs_are_recorded_once_and_can_be_read():
    assert crash.run_matrix(LargeInputs).points


@pytest.mark.parametrize("scenario", [Filed, FiledByTasks])
def test_wherever_it_stops_everything_is_kept_once_and_can_be_read(scenario):
    tried = crash.run_matrix(scenario)
    assert any("artifact.stored" in point.what for point in tried.points)
    assert any("putartifact" in point.what for point in tried.points)


def test_the_same_holds_on_disk(tmp_path):
    assert crash.run_matrix(Filed, directory=tmp_path, choose=lambda points: points[::5])
