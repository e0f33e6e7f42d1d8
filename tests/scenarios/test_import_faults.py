"""Faults of transcripts from the field, on small invented files: what is kept, and what it says of itself."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from counterfoil.importers.content import restore
from counterfoil.importers.exact import Number
from counterfoil.importers.run import import_file
from tests.unit.importers.target import MemoryTarget
from tests.unit.importers.transcripts import (
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
    write,
)


@pytest.fixture
def target() -> MemoryTarget:
    return MemoryTarget()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def test_a_lone_surrogate_in_an_argument_stays_and_hides_nothing_after_it(target, file):
    """Case S02."""
    record = pi_assistant("", ("c1", "search"))
    record["message"]["content"][0]["arguments"] = {"q": "\ud99c x"}
    totals = import_file(target, write(file, pi_header(), record, pi_result("c1", "search"), pi_user("next")))
    assert target.only.of_type("step.started")[0].content["input"] == {"q": "\ud99c x"}
    assert (totals.refused, totals.records_added) == (0, 4)


def test_integers_beyond_64_bits_are_exact_in_content(target, file):
    """Case S04."""
    hashed = int(hashlib.sha256(b"x").hexdigest(), 16)
    numbers = {"h": hashed, "ns": 1758026593210770000, "id": 2**53 + 1, "trace": 2**128 - 1}
    import_file(target, write(file, pi_header(), {"type": "custom", "data": numbers}))
    assert target.only.of_type("record.imported")[1].content["record"]["data"] == numbers


def test_an_integer_of_absurd_length_is_refused_and_the_rest_is_kept(target, file):
    """Case S04."""
    totals = import_file(target, write(file, pi_header(), b'{"n":' + b"7" * 5000 + b"}\n", pi_user("next")))
    assert [event.data["cause"] for event in target.only.of_type("record.refused")] == ["size"]
    assert (totals.refused, totals.records_added) == (1, 3)


def test_a_call_without_a_result_is_kept_as_it_is_and_nothing_is_made_up_for_it(target, file):
    """Case S16: the stream has a start and no finish; the totals say how many."""
    totals = import_file(
        target, write(file, pi_header(), pi_assistant("", ("c1", "read")), pi_user("what now?"))
    )
    assert [event.type for event in target.events] == [
        "record.imported",
        "provider.responded",
        "step.started",
        "admission.accepted",
        "transcript.imported",
    ]
    assert (totals.calls, totals.calls_without_result) == (1, 1)


def test_an_interrupted_call_whose_result_comes_later_is_paired_when_the_file_has_grown(target, file):
    """Case S16."""
    records = [pi_header(), pi_assistant("", ("c1", "read")), pi_result("c1")]
    import_file(target, write(file, *records[:2]))
    import_file(target, write(file, *records))
    (started,), (finished,) = target.only.of_type("step.started"), target.only.of_type("step.finished")
    assert finished.header.step_id == started.header.step_id


def test_a_file_cut_at_any_byte_of_its_last_three_records_keeps_every_whole_one(file):
    """Case S18: and what is half a record is kept as found, with the line it stands in."""
    records = [pi_header(), pi_user("é"), pi_assistant("hm", ("c1", "read")), pi_result("c1")]
    whole = b"".join(line(record) for record in records)
    begin = len(line(records[0]))
    for cut in range(begin, len(whole), 7):
        file.write_bytes(whole[:cut])
        target = MemoryTarget()
        totals = import_file(target, file)
        tail = whole[:cut].rpartition(b"\n")[2]
        is_whole = bool(tail) and tail + b"\n" in {line(record) for record in records}
        assert totals.refused == (bool(tail) and not is_whole)
        for refused in target.only.of_type("record.refused"):
            assert refused.data["offset"] == cut - len(tail)


def test_two_records_on_one_line_are_reported_and_the_next_line_is_kept(target, file):
    """Case S18."""
    glued = line(pi_user("one")).rstrip() + line(pi_user("two"))
    totals = import_file(target, write(file, pi_header(), glued, pi_user("three")))
    (refused,) = target.only.of_type("record.refused")
    assert "more than one record" in refused.content["note"]
    assert (totals.records, totals.refused, totals.records_added) == (3, 1, 3)
    assert len(target.only.of_type("admission.accepted")) == 1


def test_half_a_record_that_was_completed_later_is_imported_then(target, file):
    """Case S18: the half that was found first stays on record."""
    text = line(pi_header()) + line(pi_user("hello"))
    file.write_bytes(text[:-20])
    import_file(target, file)
    file.write_bytes(text)
    assert import_file(target, file).records_added == 1
    assert [event.type for event in target.events if event.type != "transcript.imported"] == [
        "record.imported",
        "record.refused",
        "admission.accepted",
    ]


def test_byte_order_mark_carriage_returns_and_empty_lines_change_nothing(file):
    """Case S18."""
    plain, dressed = MemoryTarget(), MemoryTarget()
    text = line(pi_header()) + line(pi_user("hi"))
    file.write_bytes(text)
    import_file(plain, file)
    file.write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n\r\n"))
    import_file(dressed, file)

    def said(target):
        return [(event.type, event.header.event_id) for event in target.events]

    assert said(plain) == said(dressed)


def test_one_model_call_on_several_lines_is_one_usage_record(target, file):
    """Case S25: the naive sum of these lines is 9 + 9 + 244."""
    write(
        file,
        claude_user("u1", None, "go"),
        claude_answer("a1", "u1", text_block("first"), message_id="m1", output=9),
        claude_answer("a2", "a1", tool_use("c1"), message_id="m1", output=9),
        claude_answer("a3", "a2", tool_use("c2"), message_id="m1", output=244),
        claude_results("r1", "a2", "c1"),
        claude_results("r2", "a3", "c2"),
    )
    totals = import_file(target, file)
    assert totals.output_tokens == 244
    assert sum(event.data["output_tokens"] for event in target.only.of_type("provider.responded")) == 244
    assert (totals.calls, totals.calls_without_result) == (2, 0)


def test_every_line_of_a_model_call_keeps_its_own_words(target, file):
    """Case S25."""
    answers = [claude_answer(f"a{n}", None, text_block(f"part {n}"), message_id="m1") for n in range(3)]
    import_file(target, write(file, *answers))
    texts = [event.content["message"][0]["text"] for event in target.events if "message" in event.content]
    assert texts == ["part 0", "part 1", "part 2"]


def test_records_before_a_lost_parent_stay_and_are_flagged(target, file):
    """Case X6."""
    write(
        file,
        claude_user("u1", None, "days ago"),
        claude_answer("a1", "u1", text_block("yes"), message_id="m1"),
        claude_user("u2", "never-written", "today"),
    )
    totals = import_file(target, file)
    assert [event.content.get("flags") for event in target.events[:3]] == [
        ["unreachable"],
        ["unreachable"],
        ["parent_missing"],
    ]
    assert totals.records_added == 3


def test_a_compaction_names_exactly_what_it_replaced(target, file):
    """Case X6."""
    records = [pi_user("a"), pi_user("b"), pi_user("c")]
    compaction = {"type": "compaction", "summary": "a and b", "firstKeptEntryIndex": 3}
    import_file(target, write(file, pi_header(), *records, compaction))
    (event,) = target.only.of_type("compaction.recorded")
    covered = [
        e for e in target.events if event.data["from_sequence"] <= e.sequence <= event.data["to_sequence"]
    ]
    assert [e.content["source"]["line"] for e in covered] == [1, 2, 3]


def test_a_sub_agents_records_are_flagged_in_the_session_they_belong_to(target, file):
    """Case X7: the child's log names its session and agent; its full input is kept."""
    prompt = claude_user("s1", None, "count the files", isSidechain=True, agentId="agent-7")
    import_file(target, write(file, claude_user("u1", None, "go"), prompt))
    event = target.only.of_type("admission.accepted")[1]
    assert event.content["flags"] == ["sidechain"]
    assert (event.content["message"], event.content["record"]["agentId"]) == ("count the files", "agent-7")


def test_a_name_in_a_transcript_reaches_no_conversation_of_the_application(target, file):
    import_file(target, write(file, claude_user("u1", None, "hi", sessionId="case-8472")))
    assert list(target.conversations) == ["claude-code:case-8472"]


def test_money_and_unknown_fields_come_back_to_the_letter(target, file):
    text = '{"type":"custom","price":1.10,"rate":1E-3,"deep":{"$decimal":"no tag"},"new":[null,0.0,-0]}'
    import_file(target, write(file, pi_header(), text.encode() + b"\n"))
    found = restore([target.only.of_type("record.imported")[1].content])
    assert found == {
        "type": "custom",
        "price": Number("1.10"),
        "rate": Number("1E-3"),
        "deep": {"$decimal": "no tag"},
        "new": [None, Number("0.0"), Number("-0")],
    }
    assert json.loads(text, parse_float=Number)["price"] == found["price"]
