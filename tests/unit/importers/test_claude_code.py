from __future__ import annotations

import pytest

from counterfoil.importers.claude_code import CLAUDE_CODE
from counterfoil.importers.entry import Call, Compaction, Other, Prompt, Response, Result
from counterfoil.importers.exact import Number
from tests.unit.importers.transcripts import (
    claude,
    claude_answer,
    claude_results,
    claude_user,
    text_block,
    tool_use,
)

CONTENT = ("message", "content")


def items_of(record):
    return CLAUDE_CODE.entry(record).items


def test_a_user_record_with_text_is_a_prompt():
    assert items_of(claude_user("u1", None, "hello")) == (Prompt(CONTENT),)


def test_a_user_record_with_results_is_those_results():
    first, second = items_of(claude_results("u2", "a1", "c1", "c2", failed=True))
    assert first == Result("c1", None, True, (*CONTENT, 0, "content"))
    assert second == Result("c2", None, True, (*CONTENT, 1, "content"))


def test_what_a_user_says_beside_results_is_a_prompt_after_them():
    record = claude_results("u2", "a1", "c1")
    record["message"]["content"].append(text_block("[Request interrupted by user]"))
    assert [type(item) for item in items_of(record)] == [Result, Prompt]


def test_an_assistant_record_is_a_response_and_its_calls():
    response, call = items_of(
        claude_answer("a1", "u1", text_block("hm"), tool_use("c1", x=1), message_id="m1")
    )
    assert isinstance(response, Response)
    assert (response.message_id, response.provider, response.model) == ("m1", None, "model-x")
    assert call == Call("c1", "Bash", (*CONTENT, 1, "input"))


def test_the_cost_of_older_records_is_read():
    usage = items_of(claude_answer("a1", None, message_id="m1", costUSD=Number("0.10")))[0].usage
    assert (str(usage.cost), usage.currency, usage.cached_tokens) == ("0.10", "USD", 4)


@pytest.mark.parametrize(
    "reason, finish",
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tools"),
        ("refusal", "refusal"),
        (None, "other"),
    ],
)
def test_stop_reasons_have_words_of_ours(reason, finish):
    record = claude_answer("a1", None, message_id="m1")
    record["message"]["stop_reason"] = reason
    assert items_of(record)[0].finish == finish


@pytest.mark.parametrize(
    "message", ["error", None, {}, {"content": 5}, {"content": []}, {"content": ["wow"]}, [1]]
)
def test_a_user_record_without_usable_message_is_malformed(message):
    assert items_of(claude("user", "u1", None, message)) == (Other("malformed"),)


@pytest.mark.parametrize("message", ["error", None, {}, {"content": 5}])
def test_an_assistant_record_without_usable_message_is_malformed(message):
    assert items_of(claude("assistant", "a1", None, message)) == (Other("malformed"),)


@pytest.mark.parametrize("record", [{"silly": "this"}, {"type": "hologram"}, {"type": 4}, {"type": ["user"]}])
def test_a_type_that_nobody_knows_is_unknown(record):
    assert items_of(record) == (Other("unknown", known=False),)


def test_a_known_type_has_a_label_of_ours():
    assert items_of({"type": "file-history-snapshot", "messageId": "u1"}) == (Other("file_history_snapshot"),)


@pytest.mark.parametrize("trigger, cause", [("manual", "request"), ("auto", "size"), (None, "size")])
def test_a_compact_boundary_is_a_compaction(trigger, cause):
    record = {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": trigger}}
    assert items_of(record) == (Compaction(cause, None),)


def test_a_compact_summary_is_a_compaction_that_its_boundary_may_have_told():
    record = claude_user("u9", "b1", "This session continues…", isCompactSummary=True)
    assert items_of(record) == (Compaction("size", CONTENT, boundary="b1"),)


def test_a_boundary_continues_from_its_logical_parent():
    record = {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "logicalParentUuid": "a7"}
    assert CLAUDE_CODE.entry(record).parents == ("a7",)


def test_a_summary_belongs_to_the_session_of_its_leaf():
    entry = CLAUDE_CODE.entry({"type": "summary", "summary": "Title", "leafUuid": "a7"})
    assert (entry.session, entry.points_to) == (None, "a7")


def test_sub_agents_and_notices_are_flagged():
    entry = CLAUDE_CODE.entry(claude_user("u1", None, "do this", isSidechain=True, isMeta=True))
    assert (entry.aside, entry.flags) == (True, ("sidechain", "meta"))


@pytest.mark.parametrize(
    "record",
    [
        {"type": "user", "message": {}, "session_id": "s", "uuid": "u"},
        {"type": "session", "id": "s"},
        {"role": "user", "content": "hello"},
    ],
)
def test_records_of_other_tools_are_not_recognised(record):
    assert not CLAUDE_CODE.recognises(record)
