"""Two runners on one conversation (S08), and many processes that open one ledger at once (S09, X2).

A worker that lost its lease is refused, with the actual head; nothing is reloaded and written on an old decision.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import counterfoil
from counterfoil.errors import Fenced, LeaseLost, WrongSequence
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.store.unit import at
from tests.running import World, facts, types_of


def test_a_writer_that_decided_on_an_old_head_is_told_the_actual_one():
    ledger = World().worker()
    with ledger.run("a", conversation="c") as run:
        old = ledger.store.head(run.conversation).sequence
        for number in range(3):
            run.record("n.seen", {"number": number}, ignorable=True)
        draft = run._scope.draft("record.imported", {"kind": "late"})
        with pytest.raises(WrongSequence) as refused:
            ledger.ports.append(UnitDraft((Entry(run.conversation, (draft,), expected=at(old)),)))
        assert refused.value.head.sequence == old + 3
    assert "record.imported" not in types_of(ledger, "c")


def test_a_worker_that_lost_its_lease_interleaves_nothing():
    world = World()
    old, new = world.worker(), world.worker()
    with pytest.raises(LeaseLost), old.run("a", conversation="c", dedupe="1") as stale:
        stale.step("one", lambda: 1)
        world.expire_leases()
        with new.run("a", conversation="c", dedupe="1") as fresh:
            assert fresh.step("one", lambda: pytest.fail("ran again")) == 1
            with pytest.raises(LeaseLost):
                stale.step("two", lambda: pytest.fail("a stale worker went on"))
            with pytest.raises(LeaseLost):
                stale.ask(lambda request: pytest.fail("a stale worker asked"), "q")
            fresh.step("two", lambda: 2)
    assert [event["name"] for event in facts(new, "c", "step.finished")] == ["one", "two"]


def test_a_stale_token_is_refused_by_the_store_itself():
    world = World()
    ledger = world.worker()
    with pytest.raises(LeaseLost), ledger.run("a", conversation="c", dedupe="1") as run:
        world.expire_leases()
        with world.worker().run("a", conversation="c", dedupe="1"):
            pass
        draft = run._scope.draft("record.imported", {"kind": "late"})
        with pytest.raises(Fenced):
            ledger.ports.append(UnitDraft((Entry(run.conversation, (draft,), token=1),)))
        run.step("s", lambda: 1)


PROGRAM = """
import sys, counterfoil
with counterfoil.open(sys.argv[1]) as ledger:
    for number in range(5):
        with ledger.run("a", conversation="shared", message=number, dedupe=f"{sys.argv[2]}-{number}", wait_s=60) as run:
            run.step("s", lambda: number)
"""


@pytest.mark.processes
def test_processes_that_make_and_fill_one_ledger_at_once_lose_nothing(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "ledger")]
    programs = [
        subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE, text=True) for number in range(4)
    ]
    errors = [program.communicate(timeout=100)[1] for program in programs]
    assert [program.returncode for program in programs] == [0] * 4, errors
    with counterfoil.open(tmp_path / "ledger", create=False) as ledger:
        assert [info.name for info in ledger.conversations()] == ["shared"]
        runs = ledger.runs("shared")
        assert (len(runs), {row["terminal"] for row in runs}) == (20, {"success"})
        sequences = [event.sequence for event in ledger.events("shared")]
        assert sequences == list(range(1, len(sequences) + 1))


RUNNER = """
import sys, counterfoil
from counterfoil.errors import RunBusy
with counterfoil.open(sys.argv[1]) as ledger:
    for _ in sys.stdin:
        try:
            with ledger.run("a", conversation="c", message="m", dedupe="1") as run:
                if not run.done:
                    run.step("one", lambda: sys.argv[2])
                    print("in", flush=True)
                    sys.stdin.readline()
                    run.step("two", lambda: sys.argv[2])
            print("replayed" if run.done else "ran", flush=True)
        except RunBusy:
            print("busy", flush=True)
"""


class Runner:
    """A process that runs the input each time it is told to, and stays inside the run until it is told to go on."""

    def __init__(self, place, name):
        command = [sys.executable, "-c", textwrap.dedent(RUNNER), str(place), name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture
def runners(tmp_path):
    both = [Runner(tmp_path / "ledger", name) for name in ("first", "second")]
    yield both
    for runner in both:
        runner.process.kill()
        runner.end()


@pytest.mark.processes
def test_of_two_processes_one_runs_the_input_and_the_other_is_told(runners, tmp_path):
    first, second = runners
    assert (first.go(), second.go()) == ("in", "busy")
    assert first.go() == "ran"
    assert second.go() == "replayed"
    with counterfoil.open(tmp_path / "ledger") as ledger:
        assert [e.content["result"] for e in ledger.events("c", types=["step.finished"])] == [
            "first",
            "first",
        ]


@pytest.mark.processes
def test_a_process_that_is_killed_in_its_run_is_taken_over_at_once(runners, tmp_path):
    first, second = runners
    assert first.go() == "in"
    first.process.kill()
    first.process.wait(60)
    assert second.go() == "in"
    assert second.go() == "ran"
    with counterfoil.open(tmp_path / "ledger") as ledger:
        results = [e.content["result"] for e in ledger.events("c", types=["step.finished"])]
        assert results == ["first", "second"]
        assert [fact["cause"] for fact in facts(ledger, "c", "run.claimed")] == ["takeover"]
