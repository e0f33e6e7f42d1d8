from __future__ import annotations

import pytest

from counterfoil.importers.entry import Call, Compaction, Other, Prompt, Response, Result
from counterfoil.importers.exact import Number
from counterfoil.importers.pi import PI
from tests.unit.importers.transcripts import (
    PI_SESSION,
    pi_assistant,
    pi_header,
    pi_message,
    pi_result,
    pi_user,
)


def items_of(record):
    return PI.entry(record).items


def test_the_header_names_the_session_and_opens_it():
    entry = PI.entry(pi_header())
    assert (entry.session, entry.opens, entry.items) == (PI_SESSION, True, (Other("session"),))


@pytest.mark.parametrize("member", ["branchedFrom", "parentSession"])
def test_a_header_that_names_an_older_session_is_branched(member):
    assert PI.entry(pi_header(**{member: "/old.jsonl"})).branched


def test_a_user_message_is_a_prompt():
    assert items_of(pi_user("hello")) == (Prompt(("message", "content")),)


def test_an_assistant_message_is_a_response_and_its_calls():
    response, first, second = items_of(pi_assistant("hm", ("c1", "read"), ("c2", "write")))
    assert isinstance(response, Response)
    assert (response.provider, response.model, response.finish) == ("acme", "acme-large", "tools")
    assert first == Call("c1", "read", ("message", "content", 1, "arguments"))
    assert second == Call("c2", "write", ("message", "content", 2, "arguments"))


def test_cost_and_tokens_are_read_from_usage():
    record = pi_assistant("hm")
    record["message"]["usage"]["cost"]["total"] = Number("0.0035250000000000004")
    usage = items_of(record)[0].usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.currency) == (10, 5, 3, "USD")
    assert str(usage.cost) == "0.0035250000000000004"


@pytest.mark.parametrize("usage", [None, [], "much"])
def test_usage_of_another_shape_is_no_usage(usage):
    record = pi_assistant("hm")
    record["message"]["usage"] = usage
    assert items_of(record)[0].usage is None


@pytest.mark.parametrize("reason", ["aborted", "error", None, 5])
def test_a_stop_reason_without_a_word_of_ours_is_other(reason):
    record = pi_assistant("hm")
    record["message"]["stopReason"] = reason
    assert items_of(record)[0].finish == "other"


def test_a_message_of_absurdly_many_calls_is_kept_whole():
    record = pi_assistant("", *((f"c{n}", "read") for n in range(5000)))
    assert items_of(record) == (Other("malformed"),)


def test_a_tool_result_names_its_call():
    assert items_of(pi_result("c1", failed=True)) == (Result("c1", "read", True, ("message", "content")),)


def test_a_result_without_content_is_a_result():
    record = pi_result("c1")
    del record["message"]["content"]
    assert items_of(record) == (Result("c1", "read", False, None),)


@pytest.mark.parametrize(
    "record, kind",
    [
        ({"type": "model_change", "modelId": "x"}, "model_change"),
        ({"type": "label", "targetId": "e1"}, "label"),
        (pi_message({"role": "bashExecution", "command": "ls"}), "bash_execution"),
        (pi_message({"role": "user", "content": 5}), "malformed"),
        (pi_message({"role": "assistant"}), "malformed"),
    ],
)
def test_any_other_record_has_a_kind_of_ours(record, kind):
    assert items_of(record) == (Other(kind),)


@pytest.mark.parametrize(
    "record",
    [
        {"type": "hologram"},
        {},
        {"type": ["session"]},
        {"type": "message"},
        pi_message({"role": "oracle"}),
        pi_message({}),
    ],
)
def test_a_type_or_role_that_nobody_knows_is_unknown(record):
    assert items_of(record) == (Other("unknown", known=False),)


def test_a_compaction_names_the_first_record_kept_by_index_or_id():
    by_index = items_of({"type": "compaction", "summary": "so far", "firstKeptEntryIndex": 3})
    by_id = items_of({"type": "compaction", "summary": "so far", "firstKeptEntryId": "e9"})
    assert by_index == (Compaction("size", ("summary",), 3),)
    assert by_id == (Compaction("size", ("summary",), "e9"),)


def test_entries_with_links_are_linked_and_those_of_version_1_are_not():
    entry = PI.entry(pi_user("hello", id="e2", parentId="e1"))
    assert (entry.record_id, entry.parents, entry.linked) == ("e2", ("e1",), True)
    assert not PI.entry(pi_user("hello")).linked


def test_the_time_of_an_entry_is_its_own_else_that_of_its_message():
    record = pi_user("hello", second=7)
    assert PI.entry(record).time == "2026-03-01T09:01:07.000Z"
    del record["timestamp"]
    record["message"]["timestamp"] = 1_772_355_600_000
    assert PI.entry(record).time == 1_772_355_600_000


def test_foreign_ids_of_another_type_are_no_ids():
    record = pi_assistant("", ("c1", "read"))
    record["message"]["content"][0] |= {"id": 7, "name": {"a": 1}}
    assert items_of(record)[1] == Call(None, None, ("message", "content", 0, "arguments"))


@pytest.mark.parametrize(
    "record", [{"type": "session"}, {"type": "message", "message": "hi"}, {"type": "user"}, {}]
)
def test_records_of_other_tools_are_not_recognised(record):
    assert not PI.recognises(record)
