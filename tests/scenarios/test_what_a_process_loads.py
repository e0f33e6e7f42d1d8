"""A process loads what it uses: every command, worker and resumed run pays for the rest (ADR 0081)."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

OPENING = """
import json, sys
import counterfoil

ledger = counterfoil.open(sys.argv[1])
"""

A_RUN = """
@counterfoil.effect("mail.send", version="1", touches={"messages"}, doubt=counterfoil.by_review())
def send(to: str) -> str:
    return "sent to " + to

with ledger.run("agent", conversation="case", message="hello") as run:
    assert run.step("greet", str.title, "good day") == "Good Day"
    assert send(to="ann") == "sent to ann"
"""

END = """
ledger.close()
print(json.dumps(sorted(sys.modules)))
"""

FEATURES = (
    *("archive.writing", "archive.package", "client.migrating", "client.reconciling", "client.repairing"),
    *("client.replaying", "client.rehearsing", "client.scheduling", "client.searching", "client.working"),
    *("evidence", "importers", "journal.recorder", "journal.redaction", "reconcile", "replay"),
    *("repair.plan", "runtime.ask", "runtime.children.spawn", "runtime.children.recover", "runtime.recover"),
    *("runtime.schedules.calendar", "runtime.streaming", "runtime.worker", "search.index", "search.text"),
)
RUNS = ("effects.perform", "effects.tool", "runtime.admit", "runtime.block", "runtime.run", "runtime.step")
LIBRARY = ("asyncio", "csv", "difflib", "shlex", "ssl", "subprocess", "sysconfig", "zipfile", "zoneinfo")


def loaded_by(code: str, place: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    place = tmp_path_factory.mktemp("loads") / "ledger"
    first, again = loaded_by(OPENING + END, place), loaded_by(OPENING + END, place)
    return {
        "a new ledger": first,
        "one that is there": again,
        "a run": loaded_by(OPENING + A_RUN + END, place),
    }


@pytest.mark.parametrize("what", ["a new ledger", "one that is there", "a run"])
def test_no_module_of_a_feature_is_loaded_for(what, modules):
    assert {f"counterfoil.{name}" for name in FEATURES} & set(modules[what]) == set()


@pytest.mark.parametrize("what", ["a new ledger", "one that is there"])
def test_nothing_that_runs_is_loaded_for(what, modules):
    """A command that looks does not pay for it."""
    assert {f"counterfoil.{name}" for name in RUNS} & set(modules[what]) == set()


def test_what_runs_is_loaded_by_a_run(modules):
    assert {f"counterfoil.{name}" for name in RUNS} <= set(modules["a run"])


@pytest.mark.parametrize("what", ["a new ledger", "one that is there", "a run"])
def test_no_dear_module_of_the_library_is_loaded_for(what, modules):
    assert set(LIBRARY) & set(modules[what]) == set()


@pytest.mark.parametrize("name", FEATURES)
def test_what_must_not_be_loaded_is_there_under_that_name(name):
    """A module that was renamed would be missing from every process, and the tests above could not fail."""
    assert importlib.util.find_spec(f"counterfoil.{name}") is not None


A_LIST = """
import io, json, sys
from contextlib import redirect_stdout
from counterfoil.cli import main

sys.argv = ["counterfoil", "ls", "--ledger", sys.argv[1]]
try:
    with redirect_stdout(io.StringIO()):
        main()
except SystemExit as left:
    assert left.code == 0
print(json.dumps(sorted(sys.modules)))
"""


def test_a_list_of_conversations_loads_nothing_that_answers_repairs_or_runs(tmp_path):
    place = tmp_path / "ledger"
    loaded_by(OPENING + A_RUN + END, place)
    acting = ("approvals.answer", "client.approving", "client.repairing", "repair.open", "repair.play")
    assert {f"counterfoil.{name}" for name in (*acting, *RUNS)} & set(loaded_by(A_LIST, place)) == set()
