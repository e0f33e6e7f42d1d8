"""``counterfoil schedule`` and the worker that fires: for people, for programs, and with what is wrong."""

from __future__ import annotations

import pytest

from tests.command import Shell


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    shell("init", str(shell.place), ledger=False)
    return shell


ADD = ("schedule", "add", "reporter", "--conversation", "reports", "--every", "3600", "--key", "k")
PAST = ("--at", "2026-01-01T00:00:00+01:00", "--message", "Jane's report")


def test_a_schedule_is_added_listed_fired_and_ended(shell):
    made = shell(*ADD, *PAST, "--json").json
    assert (made["kind"], made["state"], made["due_at"]) == ("every", "active", "2025-12-31T23:00:00.000Z")
    assert "was there before" in shell(*ADD, *PAST).out
    listed = shell("schedule", "ls").out
    assert made["schedule_id"] in listed
    assert "every 1 h" in listed
    assert "Jane" not in listed
    assert "schedule fired" in shell("worker", "--once").out
    assert shell("worker", "--once", "--json").out == ""
    assert "cancelled" in shell("schedule", "cancel", made["schedule_id"], "--by", "Ines").out
    assert "was cancelled before" in shell("schedule", "cancel", made["schedule_id"], "--by", "Ines").out
    assert "no schedules" in shell("schedule", "ls").out
    (row,) = shell("schedule", "ls", "--state", "all", "--json").lines
    assert row["state"] == "cancelled"


def test_a_worker_tells_programs_what_it_fired(shell):
    made = shell(*ADD, *PAST, "--json").json
    told = shell("worker", "--once", "--json").lines
    assert [list(line) for line in told] == [["schedule"]]
    fired = told[0]["schedule"]
    assert (fired["schedule_id"], fired["done"], fired["agent"]) == (made["schedule_id"], "fired", "reporter")


WRONG = [
    (("add", "a", "--conversation", "c"), 65),
    (("add", "a", "--conversation", "c", "--calendar", "\x1b[31m * * * *"), 65),
    (("add", "a", "--conversation", "c", "--every", "nan"), 65),
    (("add", "a", "--conversation", "c", "--at", "tomorrow"), 65),
    (("add", "a", "--conversation", "c", "--at", "2027-01-01T00:00:00"), 65),
    (("add", "a", "--conversation", "c", "--every", "60", "--zone", "x", "--calendar", "* * * * *"), 65),
    (("add", "a", "--conversation", "c", "--every", "60", "--message", "m", "--json-message", "1"), 64),
    (("add", "a b", "--conversation", "c", "--every", "60"), 65),
    (("cancel", "sch_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "--by", "Ines"), 66),
    (("ls", "--conversation", "nowhere"), 66),
]


@pytest.mark.parametrize("arguments, code", WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_said_and_nothing_is_recorded(shell, arguments, code):
    done = shell("schedule", *arguments)
    assert done.code == code
    assert "\x1b[31m" not in done.out + done.err
    assert shell("schedule", "ls", "--state", "all", "--json").out == ""
