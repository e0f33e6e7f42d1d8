"""``counterfoil slots``: what a conversation keeps, how it was at a sequence, and how one slot came about."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.command import Shell

HIDDEN = "the plan of Jane\x1b[31m"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    with made.open() as ledger:
        with ledger.run("agent", conversation="case-1", message="hello") as run:
            run.state["plan"] = ["look it up"]
            run.state["spent"] = Decimal("1.10")
        with ledger.run("agent", conversation="case-1", message="again") as run:
            run.state["plan"] = ["refund it"]
            del run.state["spent"]
            run.state[HIDDEN] = "\x1b[2J"
    return made


def test_the_slots_that_hold_a_value_are_listed_with_version_and_run(shell):
    done = shell("slots", "ls", "case-1", width=160)
    assert (done.code, "\x1b" in done.out, "spent" in done.out) == (0, False, False)
    for part in ("plan", "refund it", "2", "run_", "the plan of Jane"):
        assert part in done.out
    lines = shell("slots", "ls", "case-1", "--json").lines
    assert {(line["slot"], line["version"], line["state"]) for line in lines} == {
        ("plan", 2, "set"),
        (HIDDEN, 1, "set"),
    }


def test_they_are_listed_as_they_were_at_a_sequence(shell):
    first = shell("slots", "history", "case-1", "spent", "--json").lines[-1]["sequence"]
    lines = shell("slots", "ls", "case-1", "--at", str(first), "--json").lines
    assert [(line["slot"], line["value"]) for line in lines] == [
        ("plan", ["look it up"]),
        ("spent", {"$decimal": "1.10"}),
    ]


def test_every_version_of_one_is_listed_the_newest_first_also_that_it_was_cleared(shell):
    lines = shell("slots", "history", "case-1", "spent", "--json").lines
    assert [(line["version"], line["state"], line["value"]) for line in lines] == [
        (2, "cleared", None),
        (1, "set", {"$decimal": "1.10"}),
    ]
    assert lines[0]["run_id"] != lines[1]["run_id"]
    assert "cleared" in shell("slots", "history", "case-1", "spent").out
    page = shell("slots", "history", "case-1", "plan", "--limit", "1")
    assert ("refund it" in page.out, "look it up" in page.out, "older ones" in page.out) == (
        True,
        False,
        True,
    )
    assert len(shell("slots", "history", "case-1", "plan", "--limit", "1", "--json").lines) == 1


def test_a_name_that_is_no_label_is_found_by_itself_and_by_what_stands_for_it(shell):
    (line,) = shell("slots", "history", "case-1", HIDDEN, "--json").lines
    with shell.open() as ledger:
        (event,) = [event for event in ledger.events("case-1") if event.data.get("slot", "").startswith("~")]
    assert shell("slots", "history", "case-1", event.data["slot"], "--json").lines == [line]


def test_what_is_not_there_is_said(shell):
    assert shell("slots", "history", "case-1", "nothing").code == 66
    assert shell("slots", "ls", "case-9").code == 66
    with shell.open() as ledger, ledger.run("agent", conversation="empty"):
        pass
    assert shell("slots", "ls", "empty").out == "· no slot holds a value\n"
    assert shell("slots", "ls", "case-1", "--limit", "1").out.endswith("1 more: give --limit\n")
