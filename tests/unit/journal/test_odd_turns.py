"""Turns that are begun, ended and given up with what nobody should give: each is journaled, or says what is missing."""

from __future__ import annotations

import contextvars
import sys
import threading
from types import SimpleNamespace

import pytest

from counterfoil.journal import check_chain
from counterfoil.journal import writer as writer_module
from counterfoil.journal.recorder import status_of
from counterfoil.journal.writer import REPORT_S, JournalWriter, TurnLane
from tests.journals import NOW_MS, Failing, journals, note, stages, written


@pytest.mark.parametrize("name", ["sk-abcdefgh12345678", "sk-proj-abc123DEF456ghi789", "bearer-abcd12345"])
def test_a_secret_in_the_status_of_a_turn_is_masked(name):
    made = journals()
    turn = made.begin("support")
    turn.commit(status_of(type(name, (Exception,), {})()))
    assert written(made, turn.turn_id)[-1].summary == "status=error:***"


@pytest.mark.parametrize(
    "name", ["ValueError", "HTTP500Error", "openai.RateLimitError", "ConnectionResetByPeerException"]
)
def test_the_class_of_an_error_stays_readable(name):
    made = journals()
    turn = made.begin("support")
    turn.commit(f"error:{name}")
    assert written(made, turn.turn_id)[-1].summary == f"status=error:{name}"


def test_what_comes_after_the_end_says_so():
    made = journals()
    with made.begin("support") as turn:
        tool = turn.tool(lambda: 1, name="slow")
    tool()
    assert written(made, turn.turn_id)[-1].summary.startswith("late=1 tool=slow status=ok")


def test_the_second_attempt_is_not_late():
    made = journals()
    with made.begin("support") as turn:
        turn.failed_over(ValueError(), "again")
        turn.guard("g", "pass")
    assert all("late" not in event.summary for event in written(made, turn.turn_id))


def test_an_outcome_that_no_approval_has_is_a_gap_and_not_a_word_of_the_journal():
    made = journals()
    with made.begin("support", decided={"apr-1": "nonsense", "apr-2": "denied"}) as turn:
        pass
    events = written(made, turn.turn_id)
    assert stages(events)[1:] == [
        "APPROVAL gap=1 decision=decided:denied request=apr-2",
        "COMMIT status=completed",
    ]
    assert check_chain(events).intact


@pytest.mark.parametrize(
    "agent, shown",
    [
        (None, "unnamed"),
        ("shop|refunds", "shop/refunds"),
        ("a\ud800b", "a\ufffdb"),
        ("a\x1b[2Jb\x07", "ab"),
        (7, "7"),
    ],
)
def test_an_agent_of_any_name_has_its_turns(agent, shown):
    made = journals()
    with made.begin(agent) as turn:
        pass
    events = written(made, turn.turn_id)
    assert [(event.agent_id, event.type) for event in events] == [(shown, "INTAKE"), (shown, "COMMIT")]
    assert check_chain(events).intact


@pytest.mark.parametrize("session", [5, 0, 2.5, ("a", 1)])
def test_a_session_that_is_no_text_is_found_under_its_text(session):
    made = journals()
    with made.begin("support", session=session) as turn:
        pass
    written(made, turn.turn_id)
    (info,) = made.journal.turns("default", session_hash=made.session_hash(str(session)))
    assert info.turn_id == turn.turn_id


class Unsayable:
    def __str__(self):
        raise ValueError


def test_a_turn_that_could_not_be_begun_is_counted():
    made = journals()
    with made.begin(Unsayable()) as turn:
        turn.guard("g", "pass")
    assert (turn.enabled, made.lost) == (False, 1)


def test_what_a_turn_writes_after_it_was_given_up_says_so():
    now = [NOW_MS]
    made = journals(now_ms=lambda: now[0])
    turn = made.begin("support")
    made.flush(60)
    now[0] += 1001
    assert made.abandon(1000) == [turn.turn_id]
    turn.commit()
    assert stages(written(made, turn.turn_id))[1:] == [
        "COMMIT status=error:abandoned",
        "COMMIT late=1 status=completed",
    ]


def test_giving_up_a_turn_says_what_is_missing_before_it():
    now = [NOW_MS]
    journal = Failing(None)
    made = journals(journal, now_ms=lambda: now[0])
    with made.begin("support") as turn:
        made.flush(60)
        journal.error = OSError()
        turn.guard("g", "pass")
    made.flush(60)
    journal.error = None
    now[0] += 1001
    assert made.abandon(1000) == [turn.turn_id]
    assert stages(written(made, turn.turn_id))[1:] == ["COMMIT gap=2 status=error:abandoned"]


def test_a_journal_that_refuses_every_turn_is_reported_once_a_minute(caplog, monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr(writer_module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    journal = Failing(OSError())
    writer = JournalWriter(journal)
    lane = TurnLane()
    for number in range(50):
        writer.write([(lane, note(), 0)])
        if number == 48:
            now_s[0] = REPORT_S
    assert [record.getMessage() for record in caplog.records] == [
        "1 events of turns could not be journaled: OSError",
        "49 events of turns could not be journaled: OSError",
    ]
    journal.error = ValueError()
    writer.write([(lane, note(), 0)])
    assert len(caplog.records) == 3
    assert writer.lost == 51


def begun_inside(start):
    """Whether a turn that begins in another one's block, on the way that ``start`` takes, names it as its parent."""
    made, inner = journals(), []
    with made.begin("support") as outer:
        start(lambda: inner.append(made.begin("helper")))
    (event,) = written(made, inner[0].turn_id)
    return f"parent={outer.turn_id}" in event.summary


def in_a_thread(fn):
    thread = threading.Thread(target=fn)
    thread.start()
    thread.join()


def in_a_thread_with_context(fn):
    context = contextvars.copy_context()
    in_a_thread(lambda: context.run(fn))


def test_a_turn_in_the_block_of_another_names_it_also_without_a_tool_call():
    assert begun_inside(lambda fn: fn())


def test_a_thread_names_the_parent_where_it_is_given_the_context():
    assert begun_inside(in_a_thread_with_context)
    assert begun_inside(in_a_thread) == bool(getattr(sys.flags, "thread_inherit_context", False))


def test_a_turn_that_ends_while_somebody_gives_it_up_keeps_its_own_end(monkeypatch):
    now = [NOW_MS]
    made = journals(now_ms=lambda: now[0])
    turn = made.begin("support")
    written(made, turn.turn_id)
    now[0] += 60_001
    looked = made.journal.open_turns

    def and_then_it_ends(*args, **kwargs):
        found = looked(*args, **kwargs)
        turn.commit()
        assert made.flush(60)
        return found

    monkeypatch.setattr(made.journal, "open_turns", and_then_it_ends)
    assert made.abandon(60_000) == []
    assert stages(written(made, turn.turn_id))[1:] == ["COMMIT status=completed"]
