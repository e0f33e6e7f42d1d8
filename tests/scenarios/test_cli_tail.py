"""``counterfoil tail``: the end of the feed, resumable by cursor, losing nothing; and new events as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.testing.manual import ManualClock
from tests.command import Shell, refunded


class InterruptedClock(ManualClock):
    """A clock whose second sleeper is interrupted, as somebody ends a following tail; before it, something happens."""

    def __init__(self) -> None:
        super().__init__()
        self.happens = lambda: None
        self.slept = 0

    def sleep(self, seconds: float) -> None:
        self.slept += 1
        if self.slept > 1:
            raise KeyboardInterrupt
        self.happens()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_last_events_of_the_ledger_are_printed_with_their_conversation(shell):
    refunded(shell)
    *lines, foot = shell("tail", "-n", "3").out.splitlines()
    assert len(lines) == 3
    assert lines[-1].startswith("case-8472")
    assert "run.finished" in lines[-1]
    assert "tail --cursor" in foot


def test_a_second_tail_goes_on_at_the_cursor_and_loses_nothing(shell):
    refunded(shell)
    first = shell("tail", "-n", "1000", "--json").lines
    assert shell("tail", "--cursor", first[-1]["cursor"], "--json").lines == []
    refunded(shell, "case-8473")
    second = shell("tail", "--cursor", first[-1]["cursor"], "--json").lines
    assert second[0]["event_type"] == "conversation.opened"
    assert first + second == shell("tail", "-n", "1000", "--json").lines or len(first) + len(second) == len(
        shell("tail", "-n", "1000", "--json").lines
    )


def test_one_conversation_is_tailed_by_its_name(shell):
    refunded(shell)
    refunded(shell, "case-8473")
    events = shell("tail", "case-8472", "-n", "2", "--json").lines
    assert [event["event_type"] for event in events] == ["effect.observed", "run.finished"]


def test_content_can_be_left_out(shell):
    refunded(shell)
    (event,) = shell("tail", "-n", "1", "--json", "--no-content").lines
    assert "content" not in event


@pytest.mark.parametrize("name", [(), ("case-8472",)])
def test_a_following_tail_prints_what_is_recorded_meanwhile_and_ends_when_interrupted(tmp_path, name):
    clock = InterruptedClock()
    shell = Shell(tmp_path, clock)
    refunded(shell)
    other = Shell(tmp_path)
    clock.happens = lambda: other("import") and refund_again(other)
    done = shell("tail", "-f", "-n", "1", "--json", *name)
    types = [event["event_type"] for event in done.lines if "event_type" in event]
    assert types[0] == "run.finished"
    assert types[1] == "admission.accepted"
    assert types[-1] == "run.finished"
    assert done.code == 130


def refund_again(shell: Shell) -> None:
    with (
        shell.open() as ledger,
        ledger.run("refund-agent", conversation="case-8472", message="again", dedupe="2"),
    ):
        pass


def test_a_tail_of_an_empty_ledger_says_what_would_appear(shell):
    shell("init", "--clear")
    done = shell("tail", "-n", "0")
    assert done.code == 0


@pytest.mark.parametrize("cursor", ["zz", "0"])
def test_a_cursor_that_is_none_is_refused(shell, cursor):
    refunded(shell)
    assert shell("tail", "--cursor", cursor).code in (64, 65)


def test_a_cursor_belongs_to_the_whole_ledger(shell):
    refunded(shell)
    assert shell("tail", "case-8472", "--cursor", "00").code == 64


def test_another_tenants_events_are_not_shown(shell):
    refunded(shell)
    with shell.open(tenant="other") as ledger, ledger.run("a", conversation="secret", message="x"):
        pass
    assert "secret" not in shell("tail", "-n", "1000").out
    assert "secret" in shell("--tenant", "other", "tail", "-n", "1000").out
