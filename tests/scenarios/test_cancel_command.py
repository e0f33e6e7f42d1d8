"""``counterfoil cancel``: a run that waits, one whose worker is at it in another process, and one that had ended."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import counterfoil
from counterfoil.client.clock import SystemClock
from counterfoil.effects.registry import own_tools
from tests.command import Shell, declare_pickup

WORDS = ("--by", "Ines", "--reason", "the customer called")

WORKER = """
import sys
import counterfoil

@counterfoil.effect("mail.send", version="1", touches={"messages"}, repeatable=True, doubt=counterfoil.by_review())
def send(number: int) -> None:
    print("sent", flush=True)
    sys.stdin.readline()

try:
    with counterfoil.open(sys.argv[1]) as ledger, ledger.run("agent", conversation="c") as run:
        print(run.id, flush=True)
        for number in range(5):
            send(number)
except counterfoil.errors.RunStopped:
    print("stopped", flush=True)
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def waiting_run(shell: Shell) -> str:
    with own_tools(), shell.open() as ledger:
        pickup = declare_pickup()
        with suppress(counterfoil.RunWaiting), ledger.run("agent", conversation="c", dedupe="m1") as run:
            pickup("o-1", "noon")
        return run.id


def test_a_run_that_waits_is_cancelled_and_its_open_effect_is_named(shell):
    run_id = waiting_run(shell)
    done = shell("cancel", run_id, *WORDS)
    assert (done.code, f"{run_id} is cancelled" in done.out, "1 effect" in done.out) == (0, True, True)
    assert "already" in shell("cancel", run_id, *WORDS).out
    shown = shell("show", run_id).out
    assert "cancelled" in shown
    assert shell("review", "ls", "--json").lines != []


def test_programs_get_what_became_of_it(shell):
    run_id = waiting_run(shell)
    told = shell("cancel", run_id, *WORDS, "--json").json
    assert (told["run_id"], told["done"], told["repeated"]) == (run_id, "ended", False)
    assert len(told["open_effects"]) == 1


def test_a_worker_in_another_process_ends_its_call_and_sends_no_other(shell):
    with shell.open():
        pass
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(shell.place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        run_id = worker.stdout.readline().strip()
        assert worker.stdout.readline() == "sent\n"
        asked = Shell(shell.directory, SystemClock())("cancel", run_id, *WORDS)
        assert "at its next call" in asked.out
        out, _ = worker.communicate("\n" * 5, timeout=60)
    assert out == "stopped\n"
    assert [row["state"] for row in shell("ls", "effects", "--json").lines] == ["succeeded"]


def test_a_run_that_had_ended_is_a_conflict_and_one_that_is_not_there_is_not_found(shell):
    with shell.open() as ledger, ledger.run("agent", conversation="c") as run:
        run.finish("done")
    assert shell("cancel", run.id, *WORDS).code == 4
    assert shell("cancel", "run_01J9ZC3Y3V7W2R5T8QK4M6N0PK", *WORDS).code == 66
