"""Children on the command line: listed, shown from both sides, recovered; and in processes that die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import counterfoil
from counterfoil.abc import Host
from counterfoil.testing.hosts import ManualHost
from counterfoil.testing.truth import check_truth
from tests.command import Shell
from tests.running import gone

PARENT = """
import sys, time
import counterfoil

@counterfoil.agent("kid")
def kid(run):
    print("at work", flush=True)
    time.sleep(600)  # sleeps because it is killed asleep

with counterfoil.open(sys.argv[1]) as ledger, ledger.run("parent", conversation="c", dedupe="m1", message="x") as run:
    print(run.spawn("kid", "go").run_id, flush=True)
    time.sleep(600)  # sleeps because it is killed asleep
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def family(shell: Shell, agent: str = "kid", title: str | None = None):
    """A parent that left one child unbegun; the link."""
    with shell.open() as ledger:
        ledger.child_host = ManualHost()
        with ledger.run("parent", conversation="report") as run:
            return run.spawn(agent, "look it up", title=title)


def test_both_sides_of_a_link_are_shown(shell):
    link = family(shell)
    parent = shell("show", "report")
    assert "child kid" in parent.out
    assert link.run_id in parent.out
    assert "left by a run that ended as success" in " ".join(parent.out.split())
    child = shell("show", link.stream_id)
    assert f"child of {link.parent_run_id}" in child.out
    told = shell("show", link.stream_id, "--json").json
    assert told["parent"]["parent_run_id"] == link.parent_run_id
    assert [entry["child_run_id"] for entry in shell("show", "report", "--json").json["children"]] == [
        link.run_id
    ]
    assert [
        entry["child_run_id"] for entry in shell("show", link.parent_run_id, "--json").json["children"]
    ] == [link.run_id]


def test_children_are_listed_page_by_page_and_by_state(shell):
    links = [family(shell) for _ in range(3)]
    listed = shell("ls", "children", "--json").lines
    assert [entry["child_run_id"] for entry in listed] == [link.run_id for link in links]
    assert {entry["state"] for entry in listed} == {"spawned"}
    page = shell("ls", "children", "--limit", "2")
    assert f"--after {links[1].run_id}" in page.out
    rest = shell("ls", "children", "--after", links[1].run_id, "--json").lines
    assert [entry["child_run_id"] for entry in rest] == [links[2].run_id]
    assert shell("ls", "children", "--state", "lost", "--json").lines == []
    assert "No run has spawned" in shell("ls", "children", "--state", "lost").out
    assert shell("ls", "children", "--state", "asleep").code == 64
    assert shell("ls", "children", "--after", "run_nobody").code != 0


def test_many_children_do_not_fill_the_screen(shell):
    with shell.open() as ledger:
        ledger.child_host = ManualHost()
        with ledger.run("parent", conversation="report") as run:
            for number in range(25):
                run.spawn("kid", number)
    assert "and more: counterfoil ls children" in shell("show", "report").out
    told = shell("show", "report", "--json").json
    assert (len(told["children"]), told["more_children"]) == (20, True)
    assert len(shell("ls", "children", "--json").lines) == 25


def test_hostile_titles_steer_no_terminal(shell):
    link = family(shell, title="\x1b[2Jgone\u202e<script>")
    for words in (("show", link.stream_id), ("show", "report"), ("ls", "children")):
        assert "\x1b" not in shell(*words).out


def stopped_above(shell: Shell, *, unreachable: bool) -> str:
    """A parent that was cancelled above a child that a vanished worker still holds; the child's run."""
    host = ManualHost()
    ledger = counterfoil.open(shell.place, clock=shell.clock, host=Host(children=host))
    with (
        ledger,
        contextlib.suppress(asyncio.CancelledError),
        ledger.run("parent", conversation="report") as run,
    ):
        link = run.spawn("kid", "go")
        child = ledger.run("kid", resume=link.run_id)
        child.__enter__()
        gone(child)
        host.answers[link.run_id] = "running"
        host.unreachable = unreachable
        raise asyncio.CancelledError
    return link.run_id


def test_recover_finishes_a_stop_and_says_so(shell):
    run_id = stopped_above(shell, unreachable=False)
    assert shell("ls", "children", "--json").lines[0]["state"] == "running"
    shell.clock.advance(60_000)
    (told,) = shell("recover", "--json").json["children"]
    assert (told["child_run_id"], told["done"]) == (run_id, "stopped")
    assert shell("recover", "--json").json["children"] == []
    assert "stopped: cancelled, its parent ended as cancelled" in shell("ls", "children").out


def test_the_doctor_counts_children_that_were_lost(shell):
    stopped_above(shell, unreachable=True)
    finding = next(line for line in shell("doctor").out.splitlines() if "children lost" in line)
    assert finding.startswith("!")
    assert [entry["state"] for entry in shell("ls", "children", "--state", "lost", "--json").lines] == [
        "lost"
    ]


@pytest.mark.parametrize("ended", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_ends_above_its_children_leaves_a_family_that_comes_to_its_end(tmp_path, ended):
    place = str(tmp_path / "ledger")
    process = subprocess.Popen([sys.executable, "-c", PARENT, place], stdout=subprocess.PIPE, text=True)
    said = {process.stdout.readline().strip() for _ in range(2)}
    process.send_signal(ended)
    process.communicate()
    (run_id,) = said - {"at work"}
    with counterfoil.open(place) as ledger:
        reports = ledger.recover().children
        (child,) = ledger.children("c")
        if ended == signal.SIGTERM:
            assert ledger.run_row(child.link.parent_run_id)["terminal"] == "shutdown"
            assert (child.state, child.parent_terminal) == ("stopped", "shutdown")
            assert [report.done for report in reports] in (["stopped"], [])
            assert ledger.run_row(run_id)["terminal"] == "cancelled"
        else:
            # Nobody stopped it: parent and child go on where they were.
            assert (child.state, reports) == ("running", [])
            ready = {(run.agent, run.why) for run in ledger.ready()}
            assert ready == {("parent", "left"), ("kid", "left")}
        check_truth(ledger)


def test_two_processes_finish_one_stop_once(tmp_path):
    place = str(tmp_path / "ledger")
    with counterfoil.open(place, host=Host(children=(host := ManualHost()))) as ledger:
        with contextlib.suppress(asyncio.CancelledError), ledger.run("parent", conversation="c") as run:
            links = [run.spawn("kid", number) for number in range(6)]
            for link in links:
                host.answers[link.run_id] = "running"
                child = ledger.run("kid", resume=link.run_id)
                child.__enter__()
                gone(child)
            raise asyncio.CancelledError
        for link in links:
            ledger.store.release(ledger.store.head(link.stream_id).lease)
    code = "import sys, counterfoil\nwith counterfoil.open(sys.argv[1]) as ledger: print(len(ledger.recover().children))"
    both = [
        subprocess.Popen([sys.executable, "-c", code, place], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    counts = [int(process.communicate()[0]) for process in both]
    assert sum(counts) >= 6
    with counterfoil.open(place) as ledger:
        assert [child.state for child in ledger.children("c")] == ["stopped"] * 6
        settled = [event.data["child_stream_id"] for event in ledger.events("c", types=["child.settled"])]
        assert sorted(settled) == sorted(link.stream_id for link in links)
        check_truth(ledger)


def test_a_worker_carries_out_children_and_says_so(tmp_path):
    (tmp_path / "shop.py").write_text(
        "import counterfoil\n"
        "@counterfoil.agent('kid')\n"
        "def kid(run):\n    run.finish(run.message * 2)\n"
        "@counterfoil.agent('parent')\n"
        "def parent(run):\n    run.finish(run.wait(run.spawn('kid', 21)))\n"
    )
    place = str(tmp_path / "ledger")
    ledger = counterfoil.open(place, host=Host(children=ManualHost()))
    run = ledger.run("parent", conversation="c", dedupe="m", message="x")
    with ledger, contextlib.suppress(counterfoil.RunWaiting), run:
        run.wait(run.spawn("kid", 21))
    script = Path(sys.executable).with_name("counterfoil")
    command = [script, "worker", "--once", "--app", "shop", "--ledger", place, "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    entered = [json.loads(line)["run"] for line in done.stdout.splitlines()]
    assert {(entry["agent"], entry["done"]) for entry in entered} >= {("kid", "ended"), ("parent", "ended")}
    with counterfoil.open(place) as ledger:
        assert ledger.run_row(run.id)["terminal"] == "success"
