"""``counterfoil repair``: planned, started, shown with both sides, resumed, closed, and facts corrected."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from counterfoil.effects.registry import own_tools
from counterfoil.policy import RuleList, ask
from tests.command import Shell
from tests.repairing import CASE, Bank
from tests.unit.cli.invented import words

BY = ("--by", "Dana Ott", "--reason", "the parcel had arrived")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def bank(shell):
    """The tools of this process, as an app would declare them, and a refund in a closed ledger."""
    with own_tools():
        with shell.open() as ledger:
            bank = Bank(ledger)
            bank.refunded = bank.serve()
        yield bank


def start(shell, bank, *more):
    return shell("repair", "start", bank.refunded, *BY, *more)


def repair_id(shell, state="open"):
    (row,) = shell("repair", "ls", "--state", state, "--json").lines
    return row["repair_id"]


def test_a_plan_is_shown_before_anything_is_recorded(shell, bank):
    done = shell("repair", "plan", bank.refunded)
    for part in ("call 1 bank.charge 1", 'order "o-1", amount 40', "call 2 bank.letter 1"):
        assert part in words(done.out)
    assert f"counterfoil repair start {bank.refunded} --by NAME" in done.out
    told = shell("repair", "plan", bank.refunded, "--json").json
    assert [call["tool"] for call in told["calls"]] == ["bank.charge", "bank.letter"]
    assert shell("repair", "ls", "--state", "all", "--json").lines == []


def test_a_repair_that_is_started_undoes_the_effect_and_is_closed(shell, bank):
    done = start(shell, bank)
    assert (done.code, bank.sent("charged"), bank.sent("told")) == (0, 1, 1)
    assert "repaired, 2 of 2 calls done" in words(done.out)


def test_it_may_be_put_on_record_first_and_resumed_later(shell, bank):
    done = start(shell, bank, "--open-only", "--owner", "Omar", "--evidence", '{"parcel": "P-7"}')
    assert (done.code, bank.sent("charged")) == (3, 0)
    name = repair_id(shell)
    assert f"counterfoil repair resume {name} --ledger" in words(done.out)
    assert shell("repair", "resume", name).code == 0
    assert bank.sent("charged") == 1


def test_a_failure_half_way_is_told_with_what_leads_on(shell, bank):
    bank.provider.plan(None, "not_done")
    done = start(shell, bank)
    assert done.code == 3
    for part in (
        "is open, 1 of 2 calls done",
        "call 2 of 2, bank.letter, ended with NotDone",
        "repair resume rep_",
    ):
        assert part in words(done.out)
    assert shell("repair", "resume", repair_id(shell)).code == 0
    assert (bank.sent("charged"), bank.sent("told")) == (1, 1)


def test_a_program_is_told_the_same_as_an_object(shell, bank):
    bank.provider.plan("rejected")
    done = start(shell, bank, "--json", "--residual", "the customer was told")
    assert done.code == 3
    told = done.json
    assert (told["state"], told["effect_id"], told["residual_impact"]) == (
        "open",
        bank.refunded,
        "the customer was told",
    )
    assert [step["state"] for step in told["steps"]] == ["refused", "to_do"]


def test_open_repairs_are_listed_with_how_long_they_wait(shell, bank):
    start(shell, bank, "--open-only")
    shell.clock.advance(7_200_000)
    (row,) = [line for line in shell("repair", "ls", width=150).out.splitlines() if "rep_" in line]
    for part in ("bank.refund", "◆? open", "2 h", bank.refunded):
        assert part in row


def test_the_list_of_conversations_says_that_a_repair_is_open(shell, bank):
    assert "repair" not in shell("ls").out
    start(shell, bank, "--open-only")
    assert "◆? 1 repair open counterfoil repair ls" in words(shell("ls").out)


def test_an_empty_list_says_how_one_comes_about(shell, bank):
    done = shell("repair", "ls")
    assert (done.code, "counterfoil repair start EFFECT" in done.out) == (0, True)


def test_a_page_ends_with_the_command_for_the_next(shell, bank):
    start(shell, bank)
    with shell.open() as ledger:
        bank.ledger = ledger
        second = bank.serve("o-2")
    shell("repair", "start", second, *BY)
    done = shell("repair", "ls", "--state", "all", "--limit", "1")
    last = [line for line in done.out.splitlines() if line.startswith("rep_")][-1].split()[0]
    assert f"repair ls --state all --after {last}" in done.out
    (row,) = shell("repair", "ls", "--state", "all", "--after", last, "--json").lines
    assert row["repair_id"] != last


def test_a_repair_is_shown_with_its_case_and_both_sides(shell, bank):
    start(shell, bank, "--owner", "Omar", "--residual", "the customer was told")
    done = shell("repair", "show", repair_id(shell, "repaired"))
    assert done.code == 0
    for part in (
        "reason the parcel had arrived",
        "by Dana Ott",
        "owner Omar",
        "remains the customer was told",
        "call 1 bank.charge 1 ✓ done",
        "undone by bank.charge",
        "undoes bank.refund",
        "what remains: the customer was told",
    ):
        assert part in words(done.out)


def test_an_open_repair_is_shown_as_undecided(shell, bank):
    start(shell, bank, "--open-only")
    name = repair_id(shell)
    assert shell("repair", "show", name).code == 3
    told = shell("repair", "show", name, "--json").json
    assert (told["state"], told["content"]["reason"]) == ("open", "the parcel had arrived")
    assert [row["row"] for row in told["timeline"]] == ["effect", "note"]


def test_the_effect_the_conversation_and_the_list_say_that_it_is_repaired(shell, bank):
    start(shell, bank)
    for name in (bank.refunded, CASE):
        shown = words(shell("show", name).out)
        assert "undone by bank.charge" in shown
        assert "undoes bank.refund" in shown
    assert "✓ succeeded, repaired" in shell("ls", "effects").out
    told = {row["tool"]: row["repair"] for row in shell("ls", "effects", "--json").lines}
    assert told == {"bank.refund": "repaired", "bank.charge": None, "bank.letter": None}


def test_a_person_closes_what_no_call_ends(shell, bank):
    bank.provider.plan(None, "rejected")
    done = start(shell, bank)
    name = repair_id(shell)
    assert f"repair close {name} --result partial" in words(done.out)
    closed = shell("repair", "close", name, "--result", "partial", "--by", "Omar", "--reason", "no address")
    assert (closed.code, "repaired in part, 1 of 2 calls done" in words(closed.out)) == (0, True)
    assert shell("repair", "close", name, "--result", "repaired", "--by", "Omar", "--reason", "no").code == 4


def test_a_repair_by_hand_makes_no_calls_and_offers_a_correction(shell, bank):
    done = start(shell, bank, "--by-hand")
    assert (done.code, bank.sent("charged")) == (3, 0)
    for part in ("a person sees to it", "repair close rep_", "repair correct EVENT"):
        assert part in words(done.out)


def test_calls_may_be_named_in_place_of_the_declared_ones(shell, bank):
    done = start(shell, bank, "--call", "bank.letter", '{"order": "o-1"}')
    assert (done.code, bank.sent("charged"), bank.sent("told")) == (0, 0, 1)


@pytest.mark.parametrize(
    "more,code",
    [
        (["--call", "bank.letter", "7"], 65),
        (["--call", "bank.letter", '{"colour": 1}'], 65),
        (["--call", "bank.none", "{}"], 66),
        (["--call", "bank.letter", "{}", "--by-hand"], 64),
        (["--evidence", "not json"], 65),
    ],
)
def test_a_wrong_command_line_opens_nothing(shell, bank, more, code):
    assert start(shell, bank, *more).code == code
    assert shell("repair", "ls", "--state", "all", "--json").lines == []


def test_what_is_being_repaired_or_was_is_a_conflict(shell, bank):
    start(shell, bank, "--open-only")
    other = ("--by", "Eve", "--reason", "me too")
    assert shell("repair", "start", bank.refunded, *other).code == 4
    shell("repair", "resume", repair_id(shell))
    assert shell("repair", "start", bank.refunded, *other).code == 4
    assert bank.sent("charged") == 1


def test_without_the_tools_code_the_command_says_which_is_missing(shell, bank):
    with own_tools():
        done = start(shell, bank)
    assert (done.code, "bank.refund" in done.err) == (66, True)


def test_a_correction_stands_beside_the_event_in_the_timeline(shell, bank):
    (event,) = [
        line
        for line in shell("show", CASE, "--events", "--json").lines
        if line["event_type"] == "effect.observed"
    ]
    said = ("--by", "Dana", "--reason", "misread", "--value", '{"amount": {"$decimal": "4.00"}}')
    done = shell("repair", "correct", event["event_id"], *said)
    assert (done.code, "it stays as recorded" in done.out) == (0, True)
    shown = words(shell("show", CASE).out)
    assert f"corrected event {event['sequence']} · is rightly amount 4.00 · misread · by Dana" in shown
    assert f"{event['sequence']} is corrected in" in shown
    assert "corrected event" in words(shell("show", bank.refunded).out)
    assert shell("repair", "correct", event["event_id"], *said, "--json").json["repeated"]


# ---- policy ------------------------------------------------------------------------------------------------------


@pytest.fixture
def ruled(shell, bank, monkeypatch):
    """A refund of an agent under a policy, and the module of an app that may name it."""
    rules = RuleList(
        "limits",
        revision="1",
        otherwise="allow",
        rules=[ask("charges", when=lambda call: call.tool == "bank.charge")],
    )
    with shell.open(policy=rules) as ledger:
        bank.ledger = ledger
        bank.refunded = bank.serve("o-2")
    module = type(sys)("app_of_the_bank")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module, rules


def test_what_an_agent_does_under_a_policy_is_not_undone_without_it(shell, bank, ruled):
    done = start(shell, bank, "--app", "app_of_the_bank")
    assert (done.code, "--without-policy" in done.err) == (77, True)
    assert start(shell, bank, "--app", "app_of_the_bank", "--without-policy").code == 0


def test_the_policy_of_the_app_has_people_asked_about_a_compensation(shell, bank, ruled):
    module, rules = ruled
    module.policy = rules
    done = start(shell, bank, "--app", "app_of_the_bank")
    assert (done.code, "approve show apr_" in words(done.out), bank.sent("charged")) == (3, True, 0)
    (approval,) = shell("approve", "ls", "--json").lines
    name = approval["approval_id"]
    assert shell("approve", "grant", name, "--by", "Dana Ott").code == 77
    assert shell("approve", "grant", name, "--by", "Omar").code == 0
    assert shell("repair", "resume", repair_id(shell), "--app", "app_of_the_bank").code == 0


# ---- hostile and gone --------------------------------------------------------------------------------------------


def test_hostile_text_is_shown_as_marks(shell, bank):
    evil = "x\x1b[31m\u202e"
    done = shell("repair", "start", bank.refunded, "--by", evil, "--reason", evil, "--residual", evil)
    pages = [done, shell("repair", "show", repair_id(shell, "repaired")), shell("show", CASE)]
    for page in pages:
        assert page.code == 0
        assert "\x1b" not in page.out
        assert "\u202e" not in page.out
    assert "⟨ESC⟩" in pages[1].out


def test_a_narrow_terminal_still_reads_every_word_of_the_plan(shell, bank):
    start(shell, bank, "--open-only")
    done = shell("repair", "show", repair_id(shell), width=44)
    assert max(len(line) for line in done.out.splitlines() if "counterfoil" not in line) <= 48
    assert "bank.letter 1" in words(done.out)
