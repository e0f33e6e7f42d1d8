"""``counterfoil projections`` and ``show --at``: what is kept, what it says, what was known then, and what failed."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

import counterfoil
from counterfoil.projections import Projection, registry
from counterfoil.runtime.agents import own_agents
from tests.command import Shell, refunded
from tests.running import LEASE_MS, vanish

HOSTILE = "\x1b[31mJane\u202e Doe\x00"

APP = """
import counterfoil
from counterfoil.projections import event_type, projection

event_type("x.noted", ignorable=True)


@projection("notes", initial=[], types={"x.noted"})
def notes(state, event):
    return [*state, event.content.get("said")]


@projection("fails", initial=0, types={"x.noted"})
def fails(state, event):
    raise LookupError("nobody is called Jane")


@projection("total", initial=0, types={"x.noted"}, over="tenant")
def total(state, event):
    return state + 1
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch):
    """A module of an application that declares projections; forgotten afterwards."""
    name = "projections_of_a_shop"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(APP))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_declared", {})
    monkeypatch.setattr(registry, "_types", {})
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    notes = Projection(
        "notes", 1, [], lambda state, event: [*state, event.content.get("said")], types=frozenset({"x.noted"})
    )
    with counterfoil.open(shell.place, clock=shell.clock, projections=[notes]) as ledger:
        ledger.declare("x.noted", ignorable=True)
        for number, conversation in enumerate(["case-1", "case-2"]):
            with ledger.run("a", conversation=conversation) as run:
                run.record("x.noted", {"said": HOSTILE if number else "plain"}, ignorable=True)
                run.state.set("plan", ["refund"])
    return shell


def test_the_list_needs_no_code_and_says_the_lag(shell):
    printed = shell("projections", "ls")
    assert printed.code == 0
    assert printed.out.count("notes") == 2
    rows = shell("projections", "ls", "case-1", "--json").lines
    assert [(row["projection"], row["version"], row["lag"], row["rejected"]) for row in rows] == [
        ("notes", 1, 1, None)
    ]


def test_where_nothing_is_kept_the_list_says_so(tmp_path):
    shell = Shell(tmp_path)
    with counterfoil.open(shell.place, clock=shell.clock):
        pass
    assert "no projection" in shell("projections", "ls").out
    assert shell("projections", "ls", "--json").out == ""


def test_a_page_says_that_there_is_more(shell):
    assert "more than 1" in shell("projections", "ls", "--limit", "1").out


def test_what_a_projection_says_is_folded_now_and_hostile_text_is_marked(shell, app):
    printed = shell("projections", "show", "notes", "case-2", "--app", app)
    assert printed.code == 0
    assert "\x1b" not in printed.out
    assert "\u202e" not in printed.out
    assert shell("projections", "show", "notes", "case-1", "--app", app, "--json").json["state"] == ["plain"]
    assert shell("projections", "show", "total", "--app", app, "--json").json["state"] == 2


def test_a_fold_that_fails_says_where_and_not_what(shell, app):
    with counterfoil.open(shell.place, clock=shell.clock) as ledger:
        ledger.declare("x.noted", ignorable=True)
        with ledger.run("a", conversation="case-1") as run:
            run.record("x.noted", {"said": "again"})
    printed = shell("projections", "show", "fails", "case-1", "--app", app)
    assert printed.code == 65
    assert "x.noted" in printed.err
    assert "Jane" not in printed.err


def test_a_rebuild_folds_from_the_first_event_and_keeps_the_result(shell, app):
    printed = shell("projections", "rebuild", "notes", "--all", "--app", app)
    assert (printed.code, "2 conversations" in printed.out) == (0, True)
    (row,) = shell("projections", "ls", "case-1", "--json").lines
    assert row["lag"] == 1
    assert shell("projections", "rebuild", "notes", "case-1", "--all", "--app", app).code == 64


def test_an_unknown_projection_is_bad_input(shell, app):
    assert shell("projections", "show", "orders", "case-1", "--app", app).code == 65
    assert shell("projections", "ls", "nowhere").code == 66


# ---- show --at -----------------------------------------------------------------------------------------------------


def test_what_was_known_then_is_shown(shell):
    early = shell("show", "case-1", "--at", "3")
    assert early.code == 0
    assert "as of event 3" in early.out
    assert "running" in early.out
    late = shell("show", "case-1", "--at", "6", "--json").json
    assert late["sequence"] == 6
    assert [row["slot"] for row in late["rows"]["state_slots"]] == ["plan"]
    assert "state_slots" not in shell("show", "case-1", "--at", "3", "--json").json["rows"]


def test_effects_and_reviews_are_as_they_stood(tmp_path):
    shell = Shell(tmp_path)
    refunded(shell)
    with counterfoil.open(shell.place, clock=shell.clock, read_only=True) as ledger:
        (effect, *_) = ledger.effects()
        stream_id, outcome = str(effect["stream_id"]), effect["outcome_sequence"]
    before = shell("show", stream_id, "--at", str(outcome - 1), "--json").json
    after = shell("show", stream_id, "--at", str(outcome), "--json").json
    assert before["rows"]["effects"][0]["state"] == "intended"
    assert after["rows"]["effects"][0]["state"] == effect["state"]
    assert shell("show", stream_id, "--at", str(outcome)).code == 0


def test_a_sequence_that_is_not_there_is_bad_input(shell):
    assert shell("show", "case-1", "--at", "999").code == 65


# ---- workers -------------------------------------------------------------------------------------------------------

AGENT = """

import counterfoil


@counterfoil.agent("teller")
def teller(run):
    run.record("x.noted", {"said": run.message})
    run.finish()
"""


def test_a_worker_keeps_what_its_application_declares_at_import(tmp_path, app):
    source = tmp_path / f"{app}.py"
    source.write_text(source.read_text() + AGENT)
    shell = Shell(tmp_path)
    with counterfoil.open(shell.place, clock=shell.clock) as ledger:
        run = ledger.run("teller", conversation="case-9", message="hello", dedupe="m")
        vanish(run)
    shell.clock.advance(LEASE_MS + 1)
    with own_agents():
        assert shell("worker", "--once", "--app", app).code == 0
    rows = shell("projections", "ls", "case-9", "--json").lines
    assert {row["projection"]: row["lag"] for row in rows} == {"notes": 1}
    assert shell("projections", "show", "notes", "case-9", "--app", app, "--json").json["state"] == ["hello"]
