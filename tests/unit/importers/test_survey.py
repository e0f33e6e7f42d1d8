from __future__ import annotations

import io

import pytest

from counterfoil.errors import InputError
from counterfoil.importers import survey as surveying
from counterfoil.importers.claude_code import CLAUDE_CODE
from counterfoil.importers.pi import PI
from counterfoil.importers.survey import survey
from tests.unit.importers.transcripts import (
    PI_SESSION,
    claude_answer,
    claude_results,
    claude_user,
    line,
    pi_assistant,
    pi_header,
    pi_result,
    pi_user,
    text_block,
    tool_use,
)


def surveyed(kind, *records):
    data = b"".join(record if isinstance(record, bytes) else line(record) for record in records)
    return survey(io.BytesIO(data), kind, end=len(data))


# ---- pairs -----------------------------------------------------------------------------------------------------------


def test_a_call_is_paired_with_the_result_of_its_id():
    found = surveyed(PI, pi_header(), pi_assistant("", ("c1", "read")), pi_result("c1"))
    assert found.partners == {(2, 1): (3, 0), (3, 0): (2, 1)}


def test_a_call_without_result_and_a_result_without_call_stay_alone():
    found = surveyed(PI, pi_header(), pi_assistant("", ("c1", "read")), pi_result("c2"))
    assert found.partners == {}


def test_equal_ids_are_paired_in_order():
    call, result = pi_assistant("", ("c", "read")), pi_result("c")
    found = surveyed(PI, pi_header(), call, call, result, result)
    assert found.partners[2, 1] == (4, 0)
    assert found.partners[3, 1] == (5, 0)


def test_a_second_result_of_one_call_stays_alone():
    found = surveyed(PI, pi_header(), pi_assistant("", ("c", "read")), pi_result("c"), pi_result("c"))
    assert (4, 0) not in found.partners


def test_a_result_before_its_call_is_paired_with_it():
    found = surveyed(PI, pi_header(), pi_result("c"), pi_assistant("", ("c", "read")))
    assert found.partners[2, 0] == (3, 1)


def test_ids_pair_inside_their_session_only():
    found = surveyed(
        CLAUDE_CODE,
        claude_answer("a1", None, tool_use("c"), message_id="m", sessionId="one"),
        claude_results("u1", None, "c", sessionId="two"),
    )
    assert found.partners == {}


def test_calls_without_an_id_are_never_paired():
    call, result = pi_assistant("", ("c", "read")), pi_result("c")
    call["message"]["content"][0]["id"] = None
    result["message"]["toolCallId"] = None
    assert surveyed(PI, pi_header(), call, result).partners == {}


def test_a_call_that_its_message_has_brought_before_is_a_repeat():
    found = surveyed(
        CLAUDE_CODE,
        claude_answer("a1", None, tool_use("c"), message_id="m"),
        claude_answer("a2", "a1", tool_use("c"), message_id="m"),
    )
    assert found.repeats == {(2, 1)}


# ---- usage -----------------------------------------------------------------------------------------------------------


def test_the_usage_of_a_message_is_the_highest_of_its_lines():
    lines = [claude_answer(f"a{n}", None, text_block("x"), message_id="m", output=n) for n in (1, 244, 244)]
    usage = surveyed(CLAUDE_CODE, *lines).responses["session-a", "m"].usage
    assert usage is not None
    assert usage.output_tokens == 244


def test_the_finish_of_a_message_is_that_of_the_line_that_names_one():
    first = claude_answer("a1", None, message_id="m")
    last = claude_answer("a2", "a1", message_id="m")
    last["message"]["stop_reason"] = "end_turn"
    assert surveyed(CLAUDE_CODE, first, last).responses["session-a", "m"].finish == "stop"


# ---- sessions --------------------------------------------------------------------------------------------------------


def sessions_of(found, *numbers):
    return [found.session_of(number, None).name for number in numbers]


def test_a_line_that_is_no_record_belongs_to_the_first_session():
    found = surveyed(CLAUDE_CODE, b"broken\n", claude_user("u1", None, "hi"), b"42\n")
    assert sessions_of(found, 1, 3) == ["session-a", "session-a"]


def test_a_line_without_session_belongs_to_that_of_the_record_it_points_to():
    found = surveyed(
        CLAUDE_CODE,
        {"type": "summary", "leafUuid": "u2"},
        claude_user("u1", None, "hi"),
        claude_user("u2", None, "hi", sessionId="session-b"),
        {"type": "summary", "leafUuid": "nowhere"},
    )
    assert sessions_of(found, 1, 4) == ["session-b", "session-a"]


def test_records_before_a_late_header_belong_to_its_session():
    found = surveyed(PI, pi_user("hi"), pi_header())
    assert sessions_of(found, 1) == [PI_SESSION]


def test_records_after_a_second_header_belong_to_the_second_session():
    found = surveyed(PI, pi_header("one"), pi_user("hi"), pi_header("two"), pi_user("hi"), b"broken\n")
    assert sessions_of(found, 2, 4, 5) == ["one", "two", "two"]


def test_a_session_without_a_name_keeps_its_name_when_the_file_grows():
    before = surveyed(PI, pi_user("hi"))
    after = surveyed(PI, pi_user("hi"), pi_assistant("yes"))
    assert before.first == after.first
    assert len(before.first) == 32


@pytest.mark.parametrize("name", ["", "x" * 257, "a\nb", "a\x1b[31m", "\ud800", 7, None, ["s"]])
def test_what_cannot_name_a_conversation_is_no_session_id(name):
    found = surveyed(
        CLAUDE_CODE, claude_user("u1", None, "hi"), claude_user("u2", None, "hi", sessionId=name)
    )
    assert list(found.sessions) == ["session-a"]


def test_a_file_of_too_many_sessions_is_refused(monkeypatch):
    monkeypatch.setattr(surveying, "SESSIONS_MAX", 2)
    with pytest.raises(InputError, match="more than 2 sessions"):
        surveyed(CLAUDE_CODE, *(claude_user("u", None, "hi", sessionId=f"s{n}") for n in range(3)))


def test_a_file_of_too_many_lines_is_refused(monkeypatch):
    monkeypatch.setattr(surveying, "RECORDS_MAX", 2)
    with pytest.raises(InputError, match="more than 2 lines"):
        surveyed(PI, pi_header(), pi_user("a"), pi_user("b"))


# ---- compaction ------------------------------------------------------------------------------------------------------


def test_a_summary_after_its_boundary_is_folded_into_it():
    found = surveyed(
        CLAUDE_CODE,
        claude_user("u1", None, "hi"),
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "b1",
            "parentUuid": None,
            "sessionId": "session-a",
        },
        claude_user("u2", "b1", "so far", isCompactSummary=True),
    )
    assert found.folded == {3}


def test_a_summary_without_boundary_stands_for_itself():
    found = surveyed(
        CLAUDE_CODE, claude_user("u1", None, "hi"), claude_user("u2", "u1", "so far", isCompactSummary=True)
    )
    assert found.folded == set()


# ---- links -----------------------------------------------------------------------------------------------------------


def test_a_record_whose_parent_was_never_written_is_an_orphan_and_hides_what_stands_before_it():
    found = surveyed(
        CLAUDE_CODE,
        claude_user("u1", None, "days ago"),
        claude_answer("a1", "u1", text_block("yes"), message_id="m1"),
        claude_user("u2", "never-written", "today"),
        claude_answer("a2", "u2", text_block("yes"), message_id="m2"),
    )
    assert (found.orphans, found.unreachable) == ({3}, {1, 2})


def test_an_abandoned_branch_is_unreachable():
    found = surveyed(
        CLAUDE_CODE,
        claude_user("u1", None, "start"),
        claude_user("u2", "u1", "first try"),
        claude_answer("a2", "u2", text_block("no"), message_id="m1"),
        claude_user("u3", "u1", "second try"),
    )
    assert found.unreachable == {2, 3}


def test_parallel_calls_and_their_results_are_all_reached():
    found = surveyed(
        CLAUDE_CODE,
        claude_user("u1", None, "start"),
        claude_answer("a1", "u1", tool_use("c1"), message_id="m1"),
        claude_answer("a2", "a1", tool_use("c2"), message_id="m1"),
        claude_results("r1", "a1", "c1"),
        claude_results("r2", "a2", "c2"),
        claude_answer("a3", "r1", text_block("done"), message_id="m2"),
    )
    assert found.unreachable == set()


def test_records_without_links_follow_one_another():
    found = surveyed(CLAUDE_CODE, *(claude_user(f"u{n}", None, "hi") for n in range(4)))
    assert found.unreachable == set()


def test_links_that_run_in_a_circle_end():
    found = surveyed(CLAUDE_CODE, claude_user("u1", "u2", "hi"), claude_user("u2", "u1", "hi"))
    assert found.unreachable == set()


def test_a_sub_agents_records_are_not_judged():
    found = surveyed(
        CLAUDE_CODE,
        claude_user("u1", None, "start"),
        claude_user("s1", None, "sub-task", isSidechain=True),
        claude_answer("a1", "u1", text_block("done"), message_id="m1"),
    )
    assert found.unreachable == set()
