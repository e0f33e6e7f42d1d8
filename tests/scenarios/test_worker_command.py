"""`counterfoil worker` as a service: it goes on with what others left, and ends cleanly when it is told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import StoreIO
from counterfoil.runtime.agents import own_agents
from counterfoil.testing.truth import check_truth
from tests.command import Shell

PROGRAM = (sys.executable, "-c", "from counterfoil.cli import main; main()")

APP = """
import pathlib

import counterfoil

BOOK = pathlib.Path(__file__).with_name("book")


def find(idempotency_key):
    sent = BOOK.exists() and idempotency_key in BOOK.read_text()
    return counterfoil.Found("succeeded", "sent") if sent else counterfoil.Absent()


@counterfoil.effect("mail.send", version="1", touches={"messages"}, key=lambda to: f"mail:{to}", timeout_s=1,
                    doubt=counterfoil.by_lookup(find, then=counterfoil.by_key()))
def send(to: str, *, idempotency_key: str = ""):
    with BOOK.open("a") as book:
        book.write(idempotency_key + "\\n")
    if "stop" in to:
        import os, signal
        os.kill(os.getpid(), signal.SIGTERM)
    return "sent"


@counterfoil.effect("mail.check", version="1", touches={"messages"}, doubt=counterfoil.by_review())
def check(to: str):
    raise ConnectionError


@counterfoil.agent("mailer")
def mailer(run):
    if "exit" in run.message:
        raise SystemExit(3)
    if "check" in run.message:
        run.finish(check(run.message))
    else:
        run.finish(send(run.message))
"""


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    (tmp_path / "mailing.py").write_text(APP)
    (tmp_path / "counterfoil.toml").write_text('app = "mailing"')
    with own_tools(), own_agents():
        yield shell
    sys.modules.pop("mailing", None)


def left_behind(shell, *messages):
    """Runs that stay open because the ledger failed before they did anything."""
    with counterfoil.open(shell.place) as ledger:
        for message in messages:
            with (
                suppress(StoreIO),
                ledger.run("mailer", conversation=message, message=message, dedupe=message),
            ):
                raise StoreIO("the disk is gone")


def sent(shell):
    book = shell.directory / "book"
    return book.read_text().split() if book.exists() else []


def test_one_pass_does_what_is_due_and_leaves(shell):
    left_behind(shell, "a@example.com", "b@example.com")
    printed = shell("worker", "--once", "--json")
    assert printed.code == 0
    assert [line["run"]["terminal"] for line in printed.lines] == ["success", "success"]
    assert sorted(sent(shell)) == ["mail:a@example.com", "mail:b@example.com"]
    assert shell("worker", "--once", "--json").out == ""


def test_it_tells_people_what_it_works_with_and_what_happened(shell):
    left_behind(shell, "a@example.com", "check")
    printed = shell("worker", "--once")
    assert "mailing" in printed.err
    assert "mailer" in printed.err
    assert "ended: success" in printed.out
    assert "waits again" in printed.out
    assert "its worker was gone" in printed.out


def test_an_agent_that_exits_ends_its_run_and_the_others_go_on(shell):
    left_behind(shell, "exit", "a@example.com")
    program = [*PROGRAM, "--ledger", str(shell.place), "worker", "--once", "--json"]
    done = subprocess.run(
        program, cwd=shell.directory, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    ended = [json.loads(line)["run"] for line in done.stdout.splitlines()]
    assert {row["terminal"] for row in ended} == {"shutdown", "success"}
    assert sent(shell) == ["mail:a@example.com"]


def test_it_goes_on_after_a_review_was_settled(shell):
    left_behind(shell, "check")
    shell("worker", "--once")
    with counterfoil.open(shell.place) as ledger:
        (review,) = ledger.reviews()
        ledger.settle(str(review["review_id"]), "succeeded", by="Ines", reason="seen")
    (line,) = shell("worker", "--once", "--json").lines
    assert (line["run"]["why_ready"], line["run"]["terminal"]) == ("review", "success")


def test_watching_is_for_everything(shell):
    assert shell("recover", "--watch", "mail.send").code == 64


@pytest.mark.processes
@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_cleanly(shell, number, code):
    left_behind(shell, "a@example.com")
    environment = {**os.environ, "COUNTERFOIL_LEDGER": str(shell.place)}
    with subprocess.Popen(
        [*PROGRAM, "worker", "--json"], stdout=subprocess.PIPE, cwd=shell.directory, env=environment
    ) as worker:
        assert worker.stdout is not None
        assert json.loads(worker.stdout.readline())["run"]["terminal"] == "success"
        worker.send_signal(number)
        assert worker.wait(30) == code


@pytest.mark.processes
def test_watching_recovers_and_enters_no_agent(shell):
    left_behind(shell, "a@example.com")
    environment = {**os.environ, "COUNTERFOIL_LEDGER": str(shell.place)}
    with subprocess.Popen(
        [*PROGRAM, "recover", "--watch"],
        stderr=subprocess.PIPE,
        cwd=shell.directory,
        env=environment,
        text=True,
    ) as watch:
        assert watch.stderr is not None
        assert "until it is told to stop" in "".join(watch.stderr.readline() for _ in range(3))
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(30) == 0
    assert sent(shell) == []


@pytest.mark.processes
def test_what_it_is_at_when_the_signal_comes_is_brought_to_its_end(shell):
    left_behind(shell, "stop@example.com", "z@example.com")
    environment = {**os.environ, "COUNTERFOIL_LEDGER": str(shell.place)}
    done = subprocess.run(
        [*PROGRAM, "worker", "--json"], capture_output=True, cwd=shell.directory, env=environment, timeout=60
    )
    assert done.returncode == 0
    assert [json.loads(line)["run"]["terminal"] for line in done.stdout.splitlines()] == ["success"]
    assert sent(shell) == ["mail:stop@example.com"]


@pytest.mark.processes
def test_workers_that_are_killed_one_after_the_other_leave_nothing_undone_and_nothing_done_twice(shell):
    messages = [f"{number}@example.com" for number in range(12)]
    left_behind(shell, *messages)
    environment = {**os.environ, "COUNTERFOIL_LEDGER": str(shell.place)}

    reading, writing = os.pipe()
    words = [*PROGRAM, "worker", "--json", "--every", "0.2"]

    def worker():
        return subprocess.Popen(words, stdout=writing, cwd=shell.directory, env=environment)

    # All of them tell what they did through one pipe: whoever ends a run says so there.
    with os.fdopen(reading, "rb") as told:
        for _ in range(3):
            with worker() as killed:
                told.readline()
                killed.kill()
        with worker() as one, worker() as other:
            try:
                while open_runs(shell):
                    told.readline()
            finally:
                one.kill()
                other.kill()
    os.close(writing)
    assert sorted(sent(shell)) == sorted(f"mail:{message}" for message in messages)
    with counterfoil.open(shell.place) as ledger:
        assert {run["terminal"] for run in ledger.runs()} == {"success"}
        check_truth(ledger)


def open_runs(shell):
    with counterfoil.open(shell.place) as ledger:
        return [run for run in ledger.runs() if run["state"] != "finished"]
