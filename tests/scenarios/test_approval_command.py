"""``counterfoil approve``: the queue, what one asks exactly, answers one by one and many at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.effects.registry import own_tools
from tests.approving import Shop, policy
from tests.command import Shell
from tests.unit.cli.invented import words

ASKING = {
    "question": "Refund more than 50?",
    "assignees": ["Ines Arvold"],
    "due_s": 3600,
    "expires_s": 86_400,
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def asked(shell: Shell, *orders: str, **asking: object) -> list[str]:
    """Approvals that wait in a closed ledger, one for each order."""
    with own_tools(), shell.open() as ledger:
        shop = Shop(ledger, policy(**(asking or ASKING)))
        return [shop.waits(order=order, conversation=order) for order in orders]


def resumed(shell: Shell, order: str) -> object:
    with own_tools(), shell.open() as ledger:
        return Shop(ledger, policy(**ASKING)).serve(order=order, conversation=order)


def test_what_waits_is_listed_with_tool_and_time_in_another_process(shell):
    (approval,) = asked(shell, "o-1")
    shell.clock.advance(7_200_000)
    (row,) = [line for line in shell("approve", "ls", width=170).out.splitlines() if approval in line]
    for part in ("shop.refund", "◆? pending", "2 h", "run_"):
        assert part in row
    assert [line["approval_id"] for line in shell("approve", "ls", "--overdue", "--json").lines] == [approval]


def test_an_approval_is_shown_with_exactly_what_it_asks_and_is_undecided(shell):
    (approval,) = asked(shell, "o-1")
    done = shell("approve", "show", approval)
    assert done.code == 3
    for part in (
        "Refund more than 50?",
        "order o-1",
        "amount 80",
        "limits 1: large",
        "waits for Ines Arvold",
        "this effect, once",
        f"counterfoil approve grant {approval} --by NAME",
    ):
        assert part in words(done.out)
    told = shell("approve", "show", approval, "--json").json
    assert told["request"]["arguments"] == {"order": "o-1", "amount": 80}
    assert told["ruling"]["rules"] == ["large"]
    assert told["approval"]["state"] == "pending"


def test_a_grant_lets_the_run_go_on_and_the_page_tells_the_story(shell):
    (approval,) = asked(shell, "o-1")
    done = shell("approve", "grant", approval, "--by", "Ines Arvold", "--comment", "called her")
    assert (done.code, "goes on when its code is run again" in done.out) == (0, True)
    assert resumed(shell, "o-1") == {"id": "re_1", "key": "refund:o-1", "order": "o-1", "amount": 80}
    done = shell("approve", "show", approval)
    assert done.code == 0
    assert "granted by Ines Arvold: called her" in words(done.out)
    assert "used by the effect" in words(done.out)
    (row,) = shell("approve", "ls", "--state", "consumed", "--json").lines
    assert row["approval_id"] == approval


@pytest.mark.parametrize("verb,state", [("deny", "denied"), ("revoke", "revoked")])
def test_the_other_answers_are_recorded_too(shell, verb, state):
    (approval,) = asked(shell, "o-1")
    done = shell("approve", verb, approval, "--by", "Ines Arvold", "--json")
    assert (done.code, done.json["state"]) == (0, state)


CODES = {
    "somebody who is not named": (["--by", "Eve"], 77),
    "nobody": (["--by", " "], 64),
}


@pytest.mark.parametrize("case", CODES)
def test_an_answer_that_does_not_count_is_refused_and_changes_nothing(shell, case):
    options, code = CODES[case]
    (approval,) = asked(shell, "o-1")
    assert shell("approve", "grant", approval, *options).code == code
    assert len(shell("approve", "ls", "--json").lines) == 1


def test_an_answer_to_what_is_answered_is_a_conflict(shell):
    (approval,) = asked(shell, "o-1")
    shell("approve", "deny", approval, "--by", "Ines Arvold")
    done = shell("approve", "grant", approval, "--by", "Ines Arvold")
    assert (done.code, "answered_already" in done.err) == (4, True)


def test_an_approval_that_is_not_there_is_not_found(shell):
    asked(shell, "o-1")
    assert shell("approve", "show", "apr_x").code == 66


def test_many_are_answered_at_once_and_one_that_cannot_be_does_not_hold_the_others_up(shell):
    first, second, third = asked(shell, "o-1", "o-2", "o-3")
    shell("approve", "deny", first, "--by", "Ines Arvold")
    done = shell("approve", "batch", "grant", second, first, third, "--by", "Ines Arvold", "--json")
    assert done.code == 4
    assert [line.get("state") for line in done.lines] == ["granted", None, "granted"]
    assert done.lines[1]["error"]["code"] == "answered_already"


def test_a_batch_takes_all_that_fit_and_shows_them_before(shell):
    first, second = asked(shell, "o-1", "o-2")
    dry = shell(
        "approve", "batch", "deny", "--tool", "shop.refund", "--by", "Ines Arvold", "--dry-run", "--json"
    )
    assert [line["approval_id"] for line in dry.lines] == [first, second]
    done = shell("approve", "batch", "deny", "--conversation", "o-2", "--by", "Ines Arvold", "--json")
    assert [line["approval_id"] for line in done.lines] == [second]
    assert [line["approval_id"] for line in shell("approve", "ls", "--json").lines] == [first]
    assert shell("approve", "batch", "deny", "--by", "Ines Arvold").code == 64


def test_the_timeline_tells_the_decision_the_request_and_the_answer(shell):
    (approval,) = asked(shell, "o-1")
    shell("approve", "grant", approval, "--by", "Ines Arvold")
    resumed(shell, "o-1")
    out = words(shell("show", "o-1", width=160).out)
    for part in (
        "policy limits 1 · asks people · large",
        "approval asked",
        "approved by Ines Arvold",
        "approval used",
    ):
        assert part in out


def test_a_conversation_that_waits_for_permission_says_so_in_the_list(shell):
    asked(shell, "o-1")
    out = words(shell("ls").out)
    assert "◆? 1 approval pending counterfoil approve ls" in out
    assert "◆? 1 to approve" in out
    assert shell("ls", "--json").json["to_approve"] == 1


def test_hostile_text_in_a_question_a_name_or_a_comment_does_nothing_to_the_terminal(shell):
    evil = "\x1b[2J\u202eyes\r\nApproval granted"
    (approval,) = asked(shell, "o-1", question=evil, assignees=[f"Ines{evil}"])
    shell("approve", "grant", approval, "--by", f"Ines{evil}", "--comment", evil)
    for command in (("approve", "show", approval), ("show", "o-1"), ("approve", "ls", "--state", "all")):
        out = shell(*command).out
        assert not {"\x1b", "\u202e", "\r"} & set(out)
        assert not any(line.startswith("Approval granted") for line in out.splitlines())
