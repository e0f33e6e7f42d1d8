"""A lease whose process is gone is free at once on the same machine; of any other nothing is assumed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import counterfoil
from counterfoil.errors import RunBusy
from counterfoil.runtime.owner import is_gone, make_owner
from tests.running import facts


def test_this_process_is_not_gone():
    assert not is_gone(make_owner())


def test_owners_of_one_process_differ():
    assert make_owner() != make_owner()


@pytest.mark.processes
def test_a_process_that_ended_is_gone_as_a_zombie_already():
    program = "from counterfoil.runtime.owner import make_owner; print(make_owner(), flush=True)"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    owner = child.stdout.readline().strip()
    child.stdout.read()  # it closes its output when it ends
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(owner)
    child.communicate()
    assert is_gone(owner)


@pytest.mark.parametrize(
    "owner",
    [
        "",
        "somebody",
        "0123456789abcdef-1-5-ffffffff",
        "--5-ffffffff",
        "a-b-c-d",
        "the-name-of-another-kind-of-owner",
    ],
)
def test_nothing_is_assumed_of_another_machine_or_another_kind_of_owner(owner):
    assert not is_gone(owner)


def test_a_number_given_to_another_process_is_not_the_one_that_held_the_lease():
    machine, pid, began, random = make_owner().split("-")
    assert is_gone(f"{machine}-{pid}-{int(began) - 1}-{random}")


KILLED = """
import os, sys, counterfoil
with counterfoil.open(sys.argv[1]) as ledger, ledger.run("a", conversation="c", dedupe="1") as run:
    run.step("one", lambda: 1)
    run.step("two", os.kill, os.getpid(), 9)
"""


@pytest.mark.processes
def test_a_run_whose_process_was_killed_is_resumed_without_waiting_for_its_lease(tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "ledger")], timeout=60, check=False)
    assert killed.returncode == -9
    with counterfoil.open(tmp_path / "ledger", create=False) as ledger:
        (info,) = ledger.conversations()
        assert info.state == "interrupted"
        with ledger.run("a", conversation="c", dedupe="1") as run:
            assert run.step("one", lambda: pytest.fail("ran again")) == 1
        assert facts(ledger, "c", "run.claimed")[0]["cause"] == "takeover"


@pytest.mark.processes
def test_a_run_of_a_process_that_lives_is_busy(tmp_path):
    alive = KILLED.replace('run.step("two", os.kill, os.getpid(), 9)', "print(1, flush=True); input()")
    command = [sys.executable, "-c", alive, str(tmp_path / "ledger")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "1\n"
    with counterfoil.open(tmp_path / "ledger", create=False) as ledger:
        assert ledger.conversations()[0].state == "running"
        with pytest.raises(RunBusy) as busy:
            ledger.run("a", conversation="c", dedupe="1").__enter__()
        assert busy.value.lease_left_ms > 0
    holder.communicate("\n", timeout=60)
    assert holder.returncode == 0
